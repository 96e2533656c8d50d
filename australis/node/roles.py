"""The authorisation of messages between machines.

A machine reads from its producers and is read by its consumers, replicas coordinate with each
other, and so do the two proxies of a source and their witness; a cluster has no other messages. A certificate lets a node send for its own
machines, and this module refuses messages that the role of a machine, or of a client, does
not allow.
"""

from __future__ import annotations

from collections.abc import Iterable

from australis.kernel.machine import Message
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


class Roles:
    """The roles of all machines of a topology towards each other."""

    def __init__(self, topology: Topology) -> None:
        self._may: dict[tuple[str, str], set[type[Message]]] = {}
        for replica in topology.replicas:
            for producers in replica.producers.values():
                self._reads(replica.name, producers)
            for peer in replica.peers:
                self._allow(replica.name, peer, REPLICA)
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
        return type(message) in self._may.get((sender, to), ())
