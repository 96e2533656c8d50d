"""An application's router on a node: the messages that its machines send and receive.

A message for a machine of this node goes directly to the driver, one for another node through
that node's link (`network`), one for a client into its mailbox. Incoming messages are checked first:
their sender, whether that node may speak for it, and whether the two machines may exchange such a
message (`roles`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from australis.kernel.machine import Message, MessageReceived
from australis.node.admission import Rank
from australis.node.roles import Roles
from australis.protocols.dpc.messages import Heartbeat
from australis.protocols.dpc.topology import Topology
from australis.runtime.node import status
from australis.runtime.node.driver import Driver
from australis.runtime.node.entries import entry_of
from australis.runtime.node.events import WARNING, Tell
from australis.runtime.node.guests import Guests, is_guest
from australis.runtime.node.mailbox import Mailbox
from australis.runtime.node.network import Network
from australis.runtime.node.wire import MAX_CLIENT_BYTES, Route, WireError, short
from australis.streams.schema import Schema

MAX_CLIENT_WANTS = 16
"""The number of streams that a client or a guest may want in one heartbeat."""


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
    """The router of all messages between the machines of one application here and elsewhere."""

    def __init__(
        self,
        network: Network,
        space: str,
        cluster: Cluster,
        node: str,
        topology: Topology,
        schemas: Mapping[str, Schema],
        driver: Driver,
        tell: Tell,
    ) -> None:
        """The router of an application in its space; `schemas` may still be filled."""
        self._network = network
        self._space = space
        self._cluster = cluster
        self._node = node
        self._schemas = schemas
        self._buckets = topology.diagram.buckets
        self._driver = driver
        self._tell = tell
        self._roles = self._roles_before = Roles(topology, cluster.nodes)
        self.places = node_of(cluster, topology.diagram)
        self.places |= {r.name: node_of_machine(r.name) for r in topology.replicas}
        self.mailboxes = {client: Mailbox() for client in cluster.clients}
        self._guests = Guests()
        self._begun = False

    def begin(self) -> None:
        """Deliver incoming messages from now on, since the machines have been started."""
        self._begun = True

    def rewire(self, topology: Topology) -> None:
        """Let the machines of a newer topology talk too; what those before say is on its way."""
        self._roles_before, self._roles = self._roles, Roles(topology, self._cluster.nodes)
        self.places |= {r.name: node_of_machine(r.name) for r in topology.replicas}

    def tell_clients(self, machine: str, message: Message) -> None:
        """Tell all clients that are connected, guests too."""
        for client, mailbox in self.mailboxes.items():
            mailbox.send(self._encode(machine, client, message))
        for guest in self._guests.names:
            self._guests.send(guest, self._encode(machine, guest, message))

    def _encode(self, machine: str, to: str, message: Message) -> bytes:
        return self._network.encode(self._space, machine, to, message, self._driver.entry)

    # --- messages -----------------------------------------------------------------------

    def send(self, machine: str, to: str, message: Message) -> None:
        """Send a message from a machine of this node to another one, here or elsewhere."""
        if self._driver.node.runs(to):
            self._driver.post(to, MessageReceived(machine, message), self._driver.entry)
            return
        data = self._encode(machine, to, message)
        if to in self.mailboxes:
            self.mailboxes[to].send(data)
        elif is_guest(to):
            self._guests.send(to, data)
        elif (place := self.places.get(to)) in self._network.links:
            self._network.links[str(place)].send(data)

    def receive(self, caller: str | None, route: Route, size: int) -> None:
        """Take a message for one of these machines from a caller, if that is known.

        Whether it may be taken is decided in the order of what it costs: by its envelope, then
        by its kind. A message over the budget of its sender is dropped.
        """
        rank = self._check_sender(caller, route)
        if rank is not Rank.PEER and size > MAX_CLIENT_BYTES:
            raise WireError(f"'{short(route.sender)}' may not send {size:,} bytes at a time")
        at = self.places.get(route.sender)
        sender = at if at is not None and rank is Rank.PEER else route.sender
        if not self._driver.has_room(rank, sender, size):
            self._over_budget(rank, sender, caller)
            return
        message = self._network.wire.message(route, self._schemas, self._buckets)
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
        if not self._begun or (at or route.sender) in self._network.deaf:
            return
        received = MessageReceived(route.sender, message)
        cause = entry_of(at, route.cause)
        if not self._driver.offer(route.to, received, cause, size, rank, sender):
            self._over_budget(rank, sender, caller)

    def _over_budget(self, rank: Rank, sender: str, caller: str | None) -> None:
        told: dict[str, Any] = {
            "kind": sender,
            "sender": sender,
            "by": caller,
            "rank": rank.name.lower(),
        }
        self._tell("over_budget", level=WARNING, **told)

    def _check_sender(self, caller: str | None, route: Route) -> Rank:
        """Whether the caller may speak for the sender, and the rank of that."""
        at, guest = self.places.get(route.sender), is_guest(route.sender)
        if at is None and route.sender not in self.mailboxes and not guest:
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
            if not self._network.rights.may_read(caller, want.stream, self._space):
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
        return chain([[self._encode(steward, client, first)]], stream)

    def _stream(self, caller: str | None, client: str, incarnation: int) -> Iterable[list[bytes]]:
        if is_guest(client):
            return self._guests.heard(client, caller).read(incarnation)
        if client not in self.mailboxes:
            raise WireError(f"'{short(client)}' is not a client of this cluster")
        if caller is not None and caller != client:
            raise WireError(f"'{caller}' may not read what is for '{client}'")
        return self.mailboxes[client].read(incarnation)

    # --- what people ask ------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The status of the mailboxes."""
        deaf = self._network.deaf
        return {
            "clients": {
                c: status.of_client(mailbox, deaf=c in deaf)
                for c, mailbox in self.mailboxes.items()
            },
            "guests": len(self._guests),
        }

    # --- stopping --------------------------------------------------------------------------

    def close_inboxes(self) -> None:
        """End the streams of all clients, so that the server can stop."""
        for mailbox in self.mailboxes.values():
            mailbox.close()
        self._guests.close()
