"""Messages between nodes as bytes.

An envelope is msgpack: the version of the envelope, the cluster, sender, receiver and cause, then
the protocol family of the message, with the version of that family, and the message. Families are
registered (`Family`), since names such as `Request` and `Release` occur in several protocols. An
envelope or a family of another version, or a family that this node does not support, is no attack:
it raises `NotSpoken`, which the node records.

There is no pickle, and no input is trusted: a message is checked by its family's strict types
before it is decoded, and by the family's own rules before it is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Union, get_type_hints

import msgspec
import pyarrow as pa
from msgspec import Meta

from australis.kernel.errors import AustralisError
from australis.kernel.ids import MAX_BUCKET
from australis.kernel.machine import Message
from australis.streams.buckets import Buckets
from australis.streams.schema import Schema

VERSION = 2
"""The version of the envelope; nodes of different versions refuse each other's messages."""
MAX_MESSAGE_BYTES = 256 << 20
"""The largest size of a message; pieces of a log are cut to far less."""
MAX_CLIENT_BYTES = 1 << 16
"""The largest size of a call of a client, and of any request that has no messages."""
MAX_ITEMS = 1024
"""The largest number of streams or buckets in a message."""
MAX_NAME_LENGTH = 255
SENTENCE = 300
"""The largest number of characters of an error text, which an attacker may have chosen."""


class WireError(AustralisError):
    """Bytes that are not a message of this cluster; the sender is told why."""


class NotSpoken(WireError):
    """A message of an envelope, of a family, or of a version of one, that this node does not
    support."""


# --- families -----------------------------------------------------------------------------------

Number = Annotated[int, Meta(ge=-1, le=MAX_BUCKET)]
"""The number of a bucket, or -1 for none."""
Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Name = Annotated[str, Meta(max_length=MAX_NAME_LENGTH)]

Check = Callable[[Any, str, Mapping[str, Schema], Buckets], Any]
"""Completes or refuses a message, given its sender, the schemas and the buckets."""


def strict(kind: type[msgspec.Struct], **rules: Any) -> Any:
    """A strict version of a message type, or of a part of one, in which integers are bucket numbers unless a rule says
    otherwise."""
    usual: dict[Any, Any] = {int: Number, str: Name}
    hints = get_type_hints(kind)
    fields: list[Any] = []
    for field in msgspec.structs.fields(kind):
        hint = rules.get(field.name) or usual.get(hints[field.name], hints[field.name])
        fields.append((field.name, hint) if field.required else (field.name, hint, field.default))
    return msgspec.defstruct(
        kind.__name__,
        fields,
        frozen=True,
        array_like=kind.__struct_config__.array_like,
        tag=kind.__struct_config__.tag,
        forbid_unknown_fields=True,
    )


def many(kind: Any, most: int = MAX_ITEMS) -> Any:
    """A tuple of a bounded length."""
    return Annotated[tuple[kind, ...], Meta(max_length=most)]


class Family:
    """The messages of one protocol, with the strict types by which they are checked."""

    def __init__(
        self, name: str, version: int, messages: Mapping[type[Message], Any], check: Check
    ) -> None:
        self.name = name
        self.version = version
        self.messages = dict(messages)
        self._check = check
        self._checks = msgspec.msgpack.Decoder(Union[tuple(messages.values())], strict=True)  # noqa: UP007
        self._decoder = msgspec.msgpack.Decoder(Union[tuple(messages)], strict=True)  # noqa: UP007

    def decode(
        self, data: Any, sender: str, schemas: Mapping[str, Schema], buckets: Buckets
    ) -> Message:
        """Decode a message of this family from bytes."""
        self._checks.decode(data)
        message: Message = self._check(self._decoder.decode(data), sender, schemas, buckets)
        return message


class Families:
    """The families that a node supports."""

    def __init__(self, *families: Family) -> None:
        self.by_name = {family.name: family for family in families}
        self._of = {kind: family for family in families for kind in family.messages}

    def of(self, message: Message) -> Family:
        """The family of a message of this node, which must have one."""
        return self._of[type(message)]

    def spoken(self, name: str, version: int) -> Family:
        """A family by its name; raises `NotSpoken` if this version is not supported."""
        family = self.by_name.get(name)
        if family is None:
            raise NotSpoken(f"messages of the unknown family '{short(name)}'")
        if family.version != version:
            raise NotSpoken(
                f"version {version} of the family '{name}'; this node speaks {family.version}"
            )
        return family


# --- envelopes ------------------------------------------------------------------------------------


class Envelope(msgspec.Struct, frozen=True):
    """One message with its sender, receiver and cause."""

    sender: str
    """The machine that sends it; the node it runs on is known from the connection."""
    to: str
    cause: str
    """The entry that the sender's node was handling when it sent the message (see `entries`)."""
    message: Message


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """The part that is checked first, so that an unknown sender gets a clear error."""

    version: int
    cluster: str


class Route(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An envelope whose message is still bytes: who says it to whom is known before it is decoded."""

    version: int
    cluster: Name
    sender: Name
    to: Name
    cause: Name
    family: Name
    family_version: Count
    message: msgspec.Raw


def _hook(value: Any) -> bytes:
    if isinstance(value, pa.RecordBatch):
        data: bytes = value.serialize().to_pybytes()
        return data
    raise NotImplementedError(f"{type(value).__name__} does not travel")


_encoder = msgspec.msgpack.Encoder(enc_hook=_hook)
_heads = msgspec.msgpack.Decoder(_Head, strict=True)
_routes = msgspec.msgpack.Decoder(Route, strict=True)


@contextmanager
def _refusing() -> Iterator[None]:
    """Raise a `WireError` of one sentence for bytes that are no message."""
    try:
        yield
    except WireError:
        raise
    except Exception as error:
        # Any error is the message's fault: msgspec and Arrow raise many kinds of them.
        said = short(str(error)) or type(error).__name__
        raise WireError(f"not a message: {said}") from None


class Wire:
    """Encodes and decodes the envelopes of one cluster."""

    def __init__(self, cluster: str, families: Families) -> None:
        self.cluster = cluster
        self.families = families

    def encode(self, sender: str, to: str, message: Message, cause: str = "") -> bytes:
        """Encode a message with its envelope."""
        family = self.families.of(message)
        said = [VERSION, self.cluster, sender, to, cause, family.name, family.version, message]
        return _encoder.encode(said)

    def decode(self, data: bytes, schemas: Mapping[str, Schema], buckets: Buckets) -> Envelope:
        """Decode an envelope; raises a `WireError` of one sentence for anything else."""
        route = self.route(data)
        message = self.message(route, schemas, buckets)
        return Envelope(route.sender, route.to, route.cause, message)

    def route(self, data: bytes) -> Route:
        """Decode an envelope except for its message."""
        if len(data) > MAX_MESSAGE_BYTES:
            raise WireError(
                f"a message of {len(data):,} bytes is longer than {MAX_MESSAGE_BYTES:,}"
            )
        with _refusing():
            self._look(_heads.decode(data))
            route: Route = _routes.decode(data)
            return route

    def message(self, route: Route, schemas: Mapping[str, Schema], buckets: Buckets) -> Message:
        """Decode the message of an envelope."""
        with _refusing():
            family = self.families.spoken(route.family, route.family_version)
            return family.decode(route.message, route.sender, schemas, buckets)

    def _look(self, head: _Head) -> None:
        if head.version != VERSION:
            raise NotSpoken(f"version {head.version} of the protocol; this node speaks {VERSION}")
        if head.cluster != self.cluster:
            theirs = short(head.cluster)
            raise WireError(f"a message for cluster '{theirs}', not for '{self.cluster}'")


def short(text: str) -> str:
    """Foreign text shortened to one line that fits into an error message.

    >>> short("one\\n two")
    'one two'
    """
    text = " ".join(text[: 4 * SENTENCE].split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= SENTENCE else f"{text[:SENTENCE]} ..."
