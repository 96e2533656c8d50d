"""What all applications of a node share of the network: links to other nodes, the wire, and faults.

On the wire the machines of a submitted application have its name before their own ("app/f@a"); within
an application, machines know each other without it. The machines of the cluster file's own diagram,
and the services of nodes, have no such prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msgspec.structs import replace

from australis.deployment import definition
from australis.deployment.cluster import Cluster
from australis.kernel.errors import UserError
from australis.kernel.machine import Message
from australis.node.rights import Rights
from australis.runtime.ending import side_by_side
from australis.runtime.node import status
from australis.runtime.node.events import Events
from australis.runtime.node.families import FAMILIES
from australis.runtime.node.links import POST, Link
from australis.runtime.node.mailbox import Mailbox
from australis.runtime.node.transport import NodeConnection
from australis.runtime.node.wire import (
    MAX_CLIENT_BYTES,
    MAX_MESSAGE_BYTES,
    Route,
    Wire,
    WireError,
    short,
)

MAX_SLOW_S = 3600.0
"""The largest delay that fault injection adds to a link."""
DEFINES = ("submit", "define")
"""The requests that carry a definition."""
MAX_DEFINITION_BYTES = 2 * definition.MAX_BYTES
HOME = ""
"""The space of the cluster file's own diagram."""


def qualified(space: str, name: str) -> str:
    """The name of a machine on the wire.

    >>> qualified("app", "f@a"), qualified("", "f@a")
    ('app/f@a', 'f@a')
    """
    return f"{space}/{name}" if space else name


def in_space(name: str) -> tuple[str, str]:
    """The space of a machine, and its name there.

    >>> in_space("app/f@a"), in_space("f@a")
    (('app', 'f@a'), ('', 'f@a'))
    """
    space, slash, local = name.partition("/")
    return (space, local) if slash else (HOME, name)


class Space(Protocol):
    """The machines of one application on this node, as the network sees them."""

    mailboxes: dict[str, Mailbox]
    """The messages for each durable client."""

    def receive(self, caller: str | None, route: Route, size: int) -> None:
        """Take a message for one of these machines; names in it have no prefix."""
        ...


class Network:
    """The links of a node, and the applications whose messages go over them."""

    def __init__(self, cluster: Cluster, node: str, events: Events) -> None:
        self.wire = Wire(cluster.name, FAMILIES)
        self.rights = Rights(cluster)
        self.links: dict[str, Link] = {}
        self.deaf: set[str] = set()
        """The nodes whose messages an injected fault drops."""
        self._cluster = cluster
        self._node = node
        self._events = events
        self._spaces: dict[str, Space] = {}

    def open(self, connect: Callable[[str], NodeConnection]) -> None:
        """Open the links, with a function that connects to other nodes."""

        def connector(node: str) -> Callable[[], NodeConnection]:
            return lambda: connect(node)

        for other in self._cluster.nodes:
            if other != self._node:
                self.links[other] = Link(other, connector(other), self._events.tell)

    def add(self, space: str, machines: Space) -> None:
        """Let the machines of an application talk."""
        self._spaces[space] = machines

    def remove(self, space: str) -> None:
        """Let them talk no more."""
        self._spaces.pop(space, None)

    # --- messages -----------------------------------------------------------------------

    def encode(self, space: str, machine: str, to: str, message: Message, cause: str = "") -> bytes:
        """A message between two machines of an application as bytes."""
        return self.wire.encode(qualified(space, machine), qualified(space, to), message, cause)

    def longest(self, caller: str | None, kind: str) -> int:
        """The longest body of a request; a `WireError` if the caller may not make it."""
        why = self.rights.why_not(caller, kind)
        if why:
            raise WireError(why)
        if kind in DEFINES:
            return MAX_DEFINITION_BYTES
        at_length = kind == POST and self.rights.is_node(caller)
        return MAX_MESSAGE_BYTES if at_length else MAX_CLIENT_BYTES

    def receive(self, caller: str | None, body: bytes) -> None:
        """Take a message for one of this node's machines from a caller, if that is known."""
        route = self.wire.route(body)
        space, to = in_space(route.to)
        sender_space, sender = in_space(route.sender)
        if sender_space != space:
            raise WireError(f"'{short(route.sender)}' may not send to '{short(route.to)}'")
        self.space(space).receive(caller, replace(route, sender=sender, to=to), len(body))

    def space(self, space: str) -> Any:
        """The machines of an application that runs here; a `WireError` if it does not."""
        found = self._spaces.get(space)
        if found is None:
            raise WireError(f"the application '{short(space)}' does not run on '{self._node}'")
        return found

    # --- what people ask ------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The status of the links."""
        return {n: status.of_link(link, deaf=n in self.deaf) for n, link in self.links.items()}

    def fault(self, what: dict[str, Any], caller: str | None = None) -> None:
        """Inject a network fault between this node and another, or end it."""
        if not self._cluster.faults:
            raise UserError(
                "does not allow injected faults ('faults: allowed')", name=self._cluster.name
            )
        kind, other = str(what.get("kind")), str(what.get("node"))
        mailboxes = self._spaces[HOME].mailboxes if HOME in self._spaces else {}
        if other not in self.links and other not in mailboxes:
            raise UserError("is not another node of this cluster", name=other)
        link = self.links.get(other)
        target: Link | Mailbox = link if link is not None else mailboxes[other]
        match kind:
            case "cut":
                if what.get("out", True):
                    target.cut = True
                if what.get("in", True):
                    self.deaf.add(other)
            case "slow" if link is not None:
                link.slow_s = _seconds(what.get("seconds"))
            case "heal":
                target.cut = False
                self.deaf.discard(other)
                if link is not None:
                    link.slow_s = 0.0
            case _:
                raise UserError("is not a failure of the network (cut, slow, heal)", name=kind)
        told = {key: what[key] for key in ("out", "in", "seconds") if key in what}
        by = caller or "the holder of the token"
        self._events.tell("fault", kind=kind, fault=kind, peer=other, by=by, **told)

    def close(self) -> None:
        """Close the links to other nodes."""
        side_by_side(self._closers())

    def _closers(self) -> Iterable[Callable[[], None]]:
        return [link.close for link in self.links.values()]


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= MAX_SLOW_S:
        raise UserError(f"should be from 0 to {MAX_SLOW_S:.0f}", name="seconds")
    return float(value)
