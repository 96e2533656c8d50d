"""Messages between nodes as bytes.

An envelope is msgpack: the version of the protocol, the cluster, who says it to whom,
and a message of `protocols`. Arrow batches travel inside as IPC messages without their
schema, which both sides know by the stream's name. No pickle, and nothing is trusted:
before a message is handed on its numbers are ones that can occur, its buckets are whole
and in order, and each batch holds tuples of its stream and of its bucket.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Union, get_type_hints

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Meta

from australis.kernel.errors import AustralisError
from australis.kernel.ids import MAX_BUCKET, MAX_RANK, RANK_BITS
from australis.kernel.machine import Message
from australis.protocols.dpc.messages import (
    Bucket,
    Heartbeat,
    HeartbeatReply,
    ReconcileAnswer,
    ReconcileDone,
    ReconcileRequest,
    Snapshot,
    SnapshotRequest,
    StableData,
    StreamStatus,
    TentativeData,
    Want,
)
from australis.streams.buckets import END_OF_STREAM_US, Buckets, stime_values
from australis.streams.schema import HEADER, Schema, TupleType

VERSION = 1
"""Nodes of different versions do not talk to each other."""
LARGEST = 256 << 20
"""No message is longer than this; pieces of a log are cut to far less."""
MOST = 1024
"""No message has more streams or buckets."""
LONGEST_NAME = 255
SENTENCE = 300
"""No more characters of what is wrong are told: the message may have chosen the words."""

Spoken = (
    Heartbeat
    | HeartbeatReply
    | StableData
    | TentativeData
    | ReconcileRequest
    | ReconcileAnswer
    | ReconcileDone
    | SnapshotRequest
    | Snapshot
)
"""Everything one node may say to another."""


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """One message on its way."""

    version: int
    cluster: str
    sender: str
    """The machine that says it; the node it runs on is known from the connection."""
    to: str
    cause: str
    """What the sender's node was handling when it said it (see `entries`)."""
    message: Spoken


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """What is looked at first, so that a stranger is told what is wrong."""

    version: int
    cluster: str


class WireError(AustralisError):
    """Bytes that are not a message of this cluster; the sender is told why."""


# --- what the types of the messages do not say ----------------------------------------------

_Number = Annotated[int, Meta(ge=-1, le=MAX_BUCKET)]
"""A bucket, or none."""
_Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Life = Annotated[int, Meta(ge=0, le=1 << 42)]
"""Overlays are numbered from it (`Output.begin_life`), which must stay a count."""
_Time = Annotated[int, Meta(ge=0, le=END_OF_STREAM_US)]
_Name = Annotated[str, Meta(max_length=LONGEST_NAME)]


def _strict(kind: type[Message], **rules: Any) -> Any:
    """The same message, to check one by: a number is a bucket, unless a rule says otherwise."""
    usual: dict[Any, Any] = {int: _Number, str: _Name}
    hints = get_type_hints(kind)
    fields: list[Any] = []
    for field in msgspec.structs.fields(kind):
        hint = rules.get(field.name) or usual.get(hints[field.name], hints[field.name])
        fields.append((field.name, hint) if field.required else (field.name, hint, field.default))
    return msgspec.defstruct(
        kind.__name__, fields, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True
    )


def _many(kind: Any) -> Any:
    return Annotated[tuple[kind, ...], Meta(max_length=MOST)]


_bucket = _strict(Bucket, entered_us=_Time, batch=memoryview | None)
_spoken = (
    _strict(Heartbeat, life=_Life, number=_Count, wants=_many(_strict(Want))),
    _strict(HeartbeatReply, life=_Life, number=_Count, streams=_many(_strict(StreamStatus))),
    _strict(StableData, buckets=_many(_bucket)),
    _strict(TentativeData, epoch=_Count, bucket=_bucket),
    _strict(ReconcileRequest, number=_Count),
    _strict(ReconcileAnswer, number=_Count),
    _strict(ReconcileDone, number=_Count),
    _strict(SnapshotRequest),
    _strict(Snapshot, entered_us=_Time, state=_Name),
)
_said = msgspec.defstruct(
    "_Said",
    [
        ("version", int),
        *((name, _Name) for name in ("cluster", "sender", "to", "cause")),
        ("message", Union[_spoken]),  # noqa: UP007
    ],
    array_like=True,
    forbid_unknown_fields=True,
)

# --- to bytes and back ------------------------------------------------------------------------


def _hook(value: Any) -> bytes:
    if isinstance(value, pa.RecordBatch):
        data: bytes = value.serialize().to_pybytes()
        return data
    raise NotImplementedError(f"{type(value).__name__} does not travel")


_encoder = msgspec.msgpack.Encoder(enc_hook=_hook)
_heads = msgspec.msgpack.Decoder(_Head, strict=True)
_checks = msgspec.msgpack.Decoder(_said, strict=True)
_envelopes = msgspec.msgpack.Decoder(Envelope, strict=True)


def encode(cluster: str, sender: str, to: str, message: Message, cause: str = "") -> bytes:
    """A message as bytes."""
    return _encoder.encode([VERSION, cluster, sender, to, cause, message])


def decode(data: bytes, cluster: str, schemas: Mapping[str, Schema], buckets: Buckets) -> Envelope:
    """The message that these bytes are; a `WireError` in one sentence if they are none."""
    if len(data) > LARGEST:
        raise WireError(f"a message of {len(data):,} bytes is longer than {LARGEST:,}")
    try:
        head = _heads.decode(data)
        if head.version != VERSION:
            raise WireError(f"version {head.version} of the protocol; this node speaks {VERSION}")
        if head.cluster != cluster:
            raise WireError(f"a message for cluster '{short(head.cluster)}', not for '{cluster}'")
        _checks.decode(data)
        envelope = _envelopes.decode(data)
        message = _whole(envelope.message, envelope.sender, schemas, buckets)
        return msgspec.structs.replace(envelope, message=message)
    except WireError:
        raise
    except Exception as error:
        # Whatever goes wrong is the message's fault: msgspec and Arrow have many ways to say so.
        said = short(str(error)) or type(error).__name__
        raise WireError(f"not a message: {said}") from None


def short(text: str) -> str:
    """Text of somebody else's that is fit for a sentence of ours.

    >>> short("one\\n two")
    'one two'
    """
    text = " ".join(text[: 4 * SENTENCE].split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= SENTENCE else f"{text[:SENTENCE]} ..."


def _whole(message: Spoken, sender: str, schemas: Mapping[str, Schema], buckets: Buckets) -> Spoken:
    """The message with its batches as Arrow batches again."""
    match message:
        case StableData(stream=stream, after=after, upto=upto):
            _check_known((stream,), schemas)
            if [b.number - after for b in message.buckets] != list(
                range(1, len(message.buckets) + 1)
            ):
                raise WireError("a piece of a log whose buckets are not in order")
            if len(message.buckets) != upto - after:
                raise WireError("a piece of a log with buckets missing")
            whole = tuple(_with_batch(b, schemas[stream], buckets) for b in message.buckets)
            return msgspec.structs.replace(message, buckets=whole)
        case TentativeData(stream=stream, bucket=bucket):
            _check_known((stream,), schemas)
            return msgspec.structs.replace(
                message, bucket=_with_batch(bucket, schemas[stream], buckets)
            )
        case Heartbeat(wants=wants):
            _check_known((w.stream for w in wants), schemas)
            if len({(w.stream, w.reader) for w in wants}) < len(wants):
                raise WireError("a heartbeat that wants a stream twice")
        case HeartbeatReply(streams=streams):
            _check_known((s.stream for s in streams), schemas)
        case Snapshot(state=state) if state != sender:
            raise WireError("a snapshot that is to be fetched from somebody else")
    return message


def _check_known(streams: Iterable[str], schemas: Mapping[str, Schema]) -> None:
    for stream in streams:
        if stream not in schemas:
            raise WireError(f"of an unknown stream '{short(stream)}'")


# --- tuples -----------------------------------------------------------------------------------


def _with_batch(bucket: Bucket, schema: Schema, buckets: Buckets) -> Bucket:
    if bucket.batch is None:
        return bucket
    message = pa.ipc.read_message(pa.py_buffer(bucket.batch))
    if message.type != "record batch":
        raise WireError("a bucket whose tuples are no record batch")
    if _is_compressed(message.metadata.to_pybytes()):
        raise WireError("a bucket whose tuples are compressed")
    batch = pa.ipc.read_record_batch(message, schema.arrow)
    # All of it, or offsets of strings may point anywhere in memory. Below 0.4 ms a megabyte.
    batch.validate(full=True)
    _check_tuples(batch, bucket.number, buckets)
    return msgspec.structs.replace(bucket, batch=batch)


def _is_compressed(metadata: bytes) -> bool:
    """Whether a record batch is: a few bytes of it could take all memory when they are read.

    Arrow has checked the flatbuffer but does not tell: its table `RecordBatch` is field 2 of
    the root, and `compression` is field 3 of that.
    """
    (root,) = struct.unpack_from("<I", metadata)
    header = _field(metadata, root, 2)
    assert header is not None
    (offset,) = struct.unpack_from("<I", metadata, header)
    return _field(metadata, header + offset, 3) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a table of a flatbuffer is; None if the table lacks it."""
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    at = 4 + 2 * number
    if at >= size:
        return None
    (offset,) = struct.unpack_from("<H", data, table - back + at)
    return table + offset if offset else None


def _check_tuples(batch: pa.RecordBatch, number: int, buckets: Buckets) -> None:
    """Tuples of one bucket as every log has them: insertions, numbered, in order of time."""
    rows = batch.num_rows
    if any(column.null_count for column in batch.columns[: len(HEADER)]):
        raise WireError(f"tuples of bucket {number} without type, id or time")
    if not 0 < rows <= MAX_RANK + 1:
        raise WireError(f"{rows:,} tuples in bucket {number}")
    if (batch.column(0).to_numpy() != int(TupleType.INSERTION)).any():
        raise WireError(f"tuples of bucket {number} that are no insertions")
    if (batch.column(1).to_numpy() - (number << RANK_BITS) != np.arange(rows)).any():
        raise WireError(f"tuples of bucket {number} with ids of another")
    stimes = stime_values(batch.column(2))
    if (stimes[1:] < stimes[:-1]).any():
        raise WireError(f"tuples of bucket {number} that are out of order")
    if buckets.of(int(stimes[0])) != number or buckets.of(int(stimes[-1])) != number:
        raise WireError(f"tuples of another time in bucket {number}")
