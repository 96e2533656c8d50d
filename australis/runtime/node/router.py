"""A node's router: the messages that its machines send and receive.

A message for a machine of this node goes directly to the driver, one for another node through
that node's link, one for a client into its mailbox. Incoming messages are checked first: their
sender, whether that node may speak for it, and whether the two machines may exchange such a
message (`roles`). Network faults are injected here, since every message passes the router.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from australis.deployment.cluster import (
    Cluster,
    keeper_machine,
    machine_name,
    node_of_machine,
    proposer_machine,
    sink_machine,
    steward_machine,
)
from australis.deployment.sinks import sink_places
from australis.diagram.model import Diagram
from australis.kernel.errors import UserError
from australis.kernel.machine import Message, MessageReceived
from australis.node.admission import Rank
from australis.node.rights import Rights
from australis.node.roles import Roles
from australis.protocols.dpc.messages import Heartbeat
from australis.protocols.dpc.topology import Topology
from australis.runtime.ending import side_by_side
from australis.runtime.node import status
from australis.runtime.node.driver import Driver
from australis.runtime.node.entries import entry_of
from australis.runtime.node.events import WARNING, Events
from australis.runtime.node.families import FAMILIES
from australis.runtime.node.guests import Guests, is_guest
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
from australis.streams.buckets import Buckets
from australis.streams.schema import Schema

MAX_CLIENT_WANTS = 16
"""The number of streams that a client or a guest may want in one heartbeat."""
MAX_SLOW_S = 3600.0
"""The largest delay that fault injection adds to a link."""


def node_of(cluster: Cluster, diagram: Diagram | None = None) -> dict[str, str]:
    """The node of each machine, those of the diagram's sinks included; clients run anywhere."""
    places = {machine_name(f, n): n for f, nodes in cluster.replicas.items() for n in nodes}
    if diagram is not None:
        places |= {sink_machine(s): n for s, n in sink_places(cluster, diagram).items()}
    proxies = {m: n for found in cluster.source_machines.values() for m, n in found.items()}
    kinds = (steward_machine, proposer_machine, keeper_machine)
    services = {kind(node): node for kind in kinds for node in cluster.nodes}
    return places | proxies | cluster.witnesses | services


class Router:
    """The router of all messages from one node to others, and from them."""

    def __init__(
        self, cluster: Cluster, node: str, topology: Topology, driver: Driver, events: Events
    ) -> None:
        self._cluster = cluster
        self._node = node
        self._driver = driver
        self._events = events
        self._wire = Wire(cluster.name, FAMILIES)
        self._roles = self._roles_before = Roles(topology, cluster.nodes)
        self.rights = Rights(cluster)
        self.places = node_of(cluster, topology.diagram)
        self.places |= {r.name: node_of_machine(r.name) for r in topology.replicas}
        self._links: dict[str, Link] = {}
        self._mailboxes = {client: Mailbox() for client in cluster.clients}
        self._guests = Guests()
        self._deaf: set[str] = set()
        """The nodes whose messages an injected fault drops."""
        self._begun = False

    def open(self, connect: Callable[[str], NodeConnection]) -> None:
        """Open the links, with a function that connects to other nodes."""

        def connector(node: str) -> Callable[[], NodeConnection]:
            return lambda: connect(node)

        for other in self._cluster.nodes:
            if other != self._node:
                self._links[other] = Link(other, connector(other), self._events.tell)

    def rewire(self, topology: Topology) -> None:
        """Let the machines of a newer topology talk too; what those before say is on its way."""
        self._roles_before, self._roles = self._roles, Roles(topology, self._cluster.nodes)
        self.places |= {r.name: node_of_machine(r.name) for r in topology.replicas}

    def tell_clients(self, machine: str, message: Message) -> None:
        """Tell all clients that are connected, guests too."""
        for client, mailbox in self._mailboxes.items():
            mailbox.send(self._wire.encode(machine, client, message, self._driver.entry))
        for guest in self._guests.names:
            data = self._wire.encode(machine, guest, message, self._driver.entry)
            self._guests.send(guest, data)

    def begin(self) -> None:
        """Deliver incoming messages from now on, since the machines have been started."""
        self._begun = True

    # --- messages -----------------------------------------------------------------------

    def send(self, machine: str, to: str, message: Message) -> None:
        """Send a message from a machine of this node to another one, here or elsewhere."""
        if self._driver.node.runs(to):
            self._driver.post(to, MessageReceived(machine, message), self._driver.entry)
            return
        data = self._wire.encode(machine, to, message, self._driver.entry)
        if to in self._mailboxes:
            self._mailboxes[to].send(data)
        elif is_guest(to):
            self._guests.send(to, data)
        elif (place := self.places.get(to)) in self._links:
            self._links[str(place)].send(data)

    def longest(self, caller: str | None, kind: str) -> int:
        """The longest body of a request; a `WireError` if the caller may not make it."""
        why = self.rights.why_not(caller, kind)
        if why:
            raise WireError(why)
        at_length = kind == POST and self.rights.is_node(caller)
        return MAX_MESSAGE_BYTES if at_length else MAX_CLIENT_BYTES

    def receive(
        self,
        caller: str | None,
        body: bytes,
        schemas: Mapping[str, Schema],
        buckets: Buckets,
    ) -> None:
        """Take a message for one of this node's machines from a caller, if that is known.

        Whether it may be taken is decided in the order of what it costs: by its envelope, then
        by its kind. A message over the budget of its sender is dropped.
        """
        route = self._wire.route(body)
        rank = self._check_sender(caller, route)
        if rank is not Rank.PEER and len(body) > MAX_CLIENT_BYTES:
            raise WireError(f"'{short(route.sender)}' may not send {len(body):,} bytes at a time")
        at = self.places.get(route.sender)
        sender = at if at is not None and rank is Rank.PEER else route.sender
        if not self._driver.has_room(rank, sender, len(body)):
            self._over_budget(rank, sender, caller)
            return
        message = self._wire.message(route, schemas, buckets)
        if not any(
            roles.may(route.sender, route.to, message)
            for roles in (self._roles, self._roles_before)
        ):
            kind = type(message).__name__
            raise WireError(f"'{route.sender}' may not send {kind} to '{route.to}'")
        if isinstance(message, Heartbeat) and rank is not Rank.PEER:
            self._check_reads(caller, message)
        if rank is Rank.GUEST:
            self._guests.heard(route.sender, caller)
        if not self._begun or (at or route.sender) in self._deaf:
            return
        received = MessageReceived(route.sender, message)
        cause = entry_of(at, route.cause)
        if not self._driver.offer(route.to, received, cause, len(body), rank, sender):
            self._over_budget(rank, sender, caller)

    def _over_budget(self, rank: Rank, sender: str, caller: str | None) -> None:
        told: dict[str, Any] = {
            "kind": sender,
            "sender": sender,
            "by": caller,
            "rank": rank.name.lower(),
        }
        self._events.tell("over_budget", level=WARNING, **told)

    def _check_sender(self, caller: str | None, route: Route) -> Rank:
        """Whether the caller may speak for the sender, and the rank of that."""
        at, guest = self.places.get(route.sender), is_guest(route.sender)
        if at is None and route.sender not in self._mailboxes and not guest:
            raise WireError(f"'{short(route.sender)}' is not of this cluster")
        if not guest and caller is not None and caller != (at or route.sender):
            raise WireError(f"'{caller}' may not speak for '{short(route.sender)}'")
        if not self._driver.node.runs(route.to):
            raise WireError(f"'{short(route.to)}' does not run on '{self._node}'")
        if guest:
            return Rank.GUEST
        return Rank.PEER if at is not None else Rank.CLIENT

    def _check_reads(self, caller: str | None, heartbeat: Heartbeat) -> None:
        if len(heartbeat.wants) > MAX_CLIENT_WANTS:
            raise WireError(f"a reader that wants {len(heartbeat.wants)} streams at a time")
        for want in heartbeat.wants:
            if not self.rights.may_read(caller, want.stream):
                raise WireError(f"'{caller}' may not read '{want.stream}' ('reads' of the client)")

    def inbox(
        self,
        caller: str | None,
        client: str,
        incarnation: int,
        steward: str = "",
        first: Message | None = None,
    ) -> Iterable[list[bytes]]:
        """The stream of messages for a client in one of its incarnations.

        It begins with what the steward of this node says first.
        """
        stream = self._stream(caller, client, incarnation)
        if first is None:
            return stream
        return chain([[self._wire.encode(steward, client, first)]], stream)

    def _stream(self, caller: str | None, client: str, incarnation: int) -> Iterable[list[bytes]]:
        if is_guest(client):
            return self._guests.heard(client, caller).read(incarnation)
        if client not in self._mailboxes:
            raise WireError(f"'{short(client)}' is not a client of this cluster")
        if caller is not None and caller != client:
            raise WireError(f"'{caller}' may not read what is for '{client}'")
        return self._mailboxes[client].read(incarnation)

    # --- what people ask ------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The status of the links and mailboxes."""
        return {
            "links": {
                n: status.of_link(link, deaf=n in self._deaf) for n, link in self._links.items()
            },
            "clients": {
                c: status.of_client(mailbox, deaf=c in self._deaf)
                for c, mailbox in self._mailboxes.items()
            },
            "guests": len(self._guests),
        }

    def fault(self, what: dict[str, Any], caller: str | None = None) -> None:
        """Inject a network fault between this node and another, or end it."""
        if not self._cluster.faults:
            raise UserError(
                "does not allow injected faults ('faults: allowed')", name=self._cluster.name
            )
        kind, other = str(what.get("kind")), str(what.get("node"))
        if other not in self._links and other not in self._mailboxes:
            raise UserError("is not another node of this cluster", name=other)
        link = self._links.get(other)
        target: Link | Mailbox = link if link is not None else self._mailboxes[other]
        match kind:
            case "cut":
                if what.get("out", True):
                    target.cut = True
                if what.get("in", True):
                    self._deaf.add(other)
            case "slow" if link is not None:
                link.slow_s = _seconds(what.get("seconds"))
            case "heal":
                target.cut = False
                self._deaf.discard(other)
                if link is not None:
                    link.slow_s = 0.0
            case _:
                raise UserError("is not a failure of the network (cut, slow, heal)", name=kind)
        told = {key: what[key] for key in ("out", "in", "seconds") if key in what}
        by = caller or "the holder of the token"
        self._events.tell("fault", kind=kind, fault=kind, peer=other, by=by, **told)

    # --- stopping --------------------------------------------------------------------------

    def close_inboxes(self) -> None:
        """End the streams of all clients, so that the server can stop."""
        for mailbox in self._mailboxes.values():
            mailbox.close()
        self._guests.close()

    def close_links(self) -> None:
        """Close the links to other nodes."""
        side_by_side(link.close for link in self._links.values())


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= MAX_SLOW_S:
        raise UserError(f"should be from 0 to {MAX_SLOW_S:.0f}", name="seconds")
    return float(value)
