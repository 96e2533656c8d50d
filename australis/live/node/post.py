"""A node's post: what its machines say to others, and what they may hear.

A message for a machine of this node goes straight to its driver, one for another node through
that node's link, one for a client into its mailbox. Whatever comes in is looked at first: who
sends it, whether that node may speak for it, and whether the two have to do with each other
(`roles`). Failures of the network can be rehearsed here, since every message passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import pyarrow.flight as fl

from australis.catalog.cluster import Cluster, machine_name
from australis.kernel.errors import UserError
from australis.kernel.machine import Message, MessageReceived
from australis.live.node import status, wire
from australis.live.node.driver import Driver
from australis.live.node.entries import entry_of
from australis.live.node.events import Events
from australis.live.node.guests import Guests, is_guest
from australis.live.node.links import Link
from australis.live.node.mailbox import Mailbox
from australis.live.node.roles import Roles
from australis.live.node.wire import WireError
from australis.protocols.dpc.topology import Topology
from australis.streams.buckets import Buckets
from australis.streams.schema import Schema

SLOWEST_S = 3600.0
"""A rehearsed failure slows a link by no more than this."""


def node_of(cluster: Cluster) -> dict[str, str]:
    """The node that each machine runs on; clients run where they like."""
    places = {machine_name(f, n): n for f, nodes in cluster.replicas.items() for n in nodes}
    return places | cluster.sources


class Post:
    """All that goes from one node to others, and comes from them."""

    def __init__(
        self, cluster: Cluster, node: str, topology: Topology, driver: Driver, events: Events
    ) -> None:
        self._cluster = cluster
        self._node = node
        self._driver = driver
        self._events = events
        self._roles = Roles(topology)
        self.places = node_of(cluster)
        self._links: dict[str, Link] = {}
        self._mailboxes = {client: Mailbox() for client in cluster.clients}
        self._guests = Guests()
        self._deaf: set[str] = set()
        """Nodes whose messages are not heard, in a rehearsed failure."""
        self._machines: Collection[str] = ()
        self._begun = False

    def open(self, machines: Collection[str], connect: Callable[[str], fl.FlightClient]) -> None:
        """Begin, for the machines of this node, with a way to connect to others."""
        self._machines = machines

        def connector(node: str) -> Callable[[], fl.FlightClient]:
            return lambda: connect(node)

        for other in self._cluster.nodes:
            if other != self._node:
                self._links[other] = Link(other, connector(other), self._events.tell)

    def begin(self) -> None:
        """The machines have been started: from now on they can hear."""
        self._begun = True

    # --- messages -----------------------------------------------------------------------

    def sayer(self, machine: str) -> Callable[[str, Message], None]:
        """How a machine of this node says something to another one."""

        def say(to: str, message: Message) -> None:
            if to in self._machines:
                self._driver.post(to, MessageReceived(machine, message), self._driver.entry)
                return
            data = wire.encode(self._cluster.name, machine, to, message, self._driver.entry)
            if to in self._mailboxes:
                self._mailboxes[to].send(data)
            elif is_guest(to):
                self._guests.send(to, data)
            else:
                self._links[self.places[to]].send(data)

        return say

    def receive(
        self, node: str | None, body: bytes, schemas: Mapping[str, Schema], buckets: Buckets
    ) -> None:
        """Take a message for one of this node's machines; `node` is who has sent it, if known."""
        envelope = wire.decode(body, self._cluster.name, schemas, buckets)
        at = self.places.get(envelope.sender)
        guest = is_guest(envelope.sender)
        if at is None and envelope.sender not in self._mailboxes and not guest:
            raise WireError(f"'{envelope.sender}' is not of this cluster")
        if not guest and node is not None and node != (at or envelope.sender):
            raise WireError(f"'{node}' may not speak for '{envelope.sender}'")
        if envelope.to not in self._machines:
            raise WireError(f"'{envelope.to}' does not run on '{self._node}'")
        if not self._roles.may(envelope.sender, envelope.to, envelope.message):
            kind = type(envelope.message).__name__
            raise WireError(f"'{envelope.sender}' may not send {kind} to '{envelope.to}'")
        if guest:
            self._guests.heard(envelope.sender, node)
        if not self._begun or (at or envelope.sender) in self._deaf:
            return
        received = MessageReceived(envelope.sender, envelope.message)
        self._driver.post(envelope.to, received, entry_of(at, envelope.cause), len(body))

    def inbox(self, node: str | None, client: str, life: int) -> Iterable[Any]:
        """The stream of messages for a client in one of its lives."""
        if is_guest(client):
            return self._guests.heard(client, node).read(life)
        if client not in self._mailboxes:
            raise WireError(f"'{client}' is not a client of this cluster")
        if node is not None and node != client:
            raise WireError(f"'{node}' may not read what is for '{client}'")
        return self._mailboxes[client].read(life)

    # --- what people ask ------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """How the ways to others are doing."""
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

    def fault(self, what: dict[str, Any]) -> None:
        """Rehearse a failure of the network between this node and another, or end it."""
        if not self._cluster.faults:
            raise UserError(
                "does not allow rehearsed failures ('faults: allowed')", name=self._cluster.name
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
        self._events.tell("fault", kind=kind, fault=kind, peer=other, **told)

    # --- stopping --------------------------------------------------------------------------

    def close_inboxes(self) -> None:
        """Clients are told that there is no more; the server can stop then."""
        for mailbox in self._mailboxes.values():
            mailbox.close()
        self._guests.close()

    def close_links(self) -> None:
        """Nothing more goes to other nodes."""
        for link in self._links.values():
            link.close()


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= SLOWEST_S:
        raise UserError(f"should be from 0 to {SLOWEST_S:.0f}", name="seconds")
    return float(value)
