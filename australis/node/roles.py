"""The authorisation of messages between machines.

A machine reads from its producers and is read by its consumers, replicas coordinate with each
other, and so do the two proxies of a source and their witness; a cluster has no other messages. A certificate lets a node send for its own
machines, and this module refuses messages that the role of a machine, or of a client, does
not allow.
"""

from __future__ import annotations

from collections.abc import Iterable

from australis.deployment.cluster import keeper_machine, proposer_machine, steward_machine
from australis.kernel.machine import Message
from australis.protocols.change.messages import Deployed, Progress, ProgressRequest, Versions
from australis.protocols.dpc.messages import (
    Heartbeat,
    HeartbeatReply,
    NoSnapshot,
    PeerDigests,
    ReconcileAnswer,
    ReconcileDone,
    ReconcileRequest,
    Snapshot,
    SnapshotRequest,
    StableData,
    TentativeData,
)
from australis.protocols.dpc.source_pair import SourceClaim, SourceCopy, SourceHeld, SourceView
from australis.protocols.dpc.subscribers import GUEST
from australis.protocols.dpc.topology import Topology
from australis.protocols.register.messages import (
    Accepted,
    Conflict,
    Install,
    Installed,
    Outdated,
    Prepare,
    Promise,
    Propose,
)

CONSUMER: tuple[type[Message], ...] = (Heartbeat,)
"""The messages that a consumer sends to a producer."""
PRODUCER: tuple[type[Message], ...] = (HeartbeatReply, StableData, TentativeData)
"""The messages that a producer sends to a consumer."""
REPLICA: tuple[type[Message], ...] = (
    ReconcileRequest,
    ReconcileAnswer,
    ReconcileDone,
    PeerDigests,
    SnapshotRequest,
    Snapshot,
    NoSnapshot,
)
"""The messages that replicas of one fragment send to each other."""


MEMBER: tuple[type[Message], ...] = (SourceCopy, SourceHeld)
"""The messages that the two proxies of a source send to each other."""


_SERVICES = (steward_machine, proposer_machine, keeper_machine)
_BETWEEN: dict[tuple[object, object], tuple[type[Message], ...]] = {
    (steward_machine, steward_machine): (Versions, Deployed, ProgressRequest, Progress),
    (proposer_machine, keeper_machine): (Prepare, Propose, Install),
    (keeper_machine, proposer_machine): (Promise, Accepted, Conflict, Outdated, Installed),
}
"""The messages between the services of nodes."""


class Roles:
    """The roles of all machines of a topology towards each other."""

    def __init__(self, topology: Topology, nodes: Iterable[str] = ()) -> None:
        """The roles of a topology on these nodes, each of which has a steward and a proposer."""
        nodes = tuple(nodes)
        self._may: dict[tuple[str, str], set[type[Message]]] = {}
        self._services = {kind(node): (kind, node) for kind in _SERVICES for node in nodes}
        """The services of nodes, by the names of their machines."""
        for replica in topology.replicas:
            for producers in replica.producers.values():
                self._reads(replica.name, producers)
            for peer in replica.peers:  # who joins has peers that do not count on it yet
                self._allow(replica.name, peer, REPLICA)
                self._allow(peer, replica.name, REPLICA)
        self._clients = {client.name for client in topology.clients}
        for client in topology.clients:
            self._reads(client.name, client.producers)
        for pair in topology.pairs.values():
            for member, other in (pair.members, pair.members[::-1]):
                self._allow(member, other, MEMBER)
                self._allow(member, pair.witness, (SourceClaim,))
                self._allow(pair.witness, member, (SourceView,))

    def _reads(self, consumer: str, producers: Iterable[str]) -> None:
        for producer in producers:
            self._allow(consumer, producer, CONSUMER)
            self._allow(producer, consumer, PRODUCER)

    def _allow(self, sender: str, to: str, kinds: Iterable[type[Message]]) -> None:
        self._may.setdefault((sender, to), set()).update(kinds)

    def may(self, sender: str, to: str, message: Message) -> bool:
        """Whether the sender may send this message; a guest may read from any producer."""
        if sender.startswith(GUEST):
            return isinstance(message, CONSUMER)
        one, other = self._services.get(sender), self._services.get(to)
        if one is not None and other is not None:
            return isinstance(message, _BETWEEN.get((one[0], other[0]), ()))
        if one is not None and isinstance(message, Deployed):
            return to in self._clients
        return type(message) in self._may.get((sender, to), ())
