"""Who may say what to whom.

A machine reads from its producers and is read by its consumers, and replicas agree with
each other; nothing else is said in a cluster. A certificate lets a node speak for its own
machines, and this keeps it, or a client, from saying what is not theirs to say.
"""

from __future__ import annotations

from collections.abc import Iterable

from australis.kernel.machine import Message
from australis.protocols.dpc.messages import (
    Heartbeat,
    HeartbeatReply,
    ReconcileAnswer,
    ReconcileDone,
    ReconcileRequest,
    Snapshot,
    SnapshotRequest,
    StableData,
    TentativeData,
)
from australis.protocols.dpc.subscribers import GUEST
from australis.protocols.dpc.topology import Topology

CONSUMER: tuple[type[Message], ...] = (Heartbeat,)
"""What a consumer says to a producer,"""
PRODUCER: tuple[type[Message], ...] = (HeartbeatReply, StableData, TentativeData)
"""what that says to it,"""
REPLICA: tuple[type[Message], ...] = (
    ReconcileRequest,
    ReconcileAnswer,
    ReconcileDone,
    SnapshotRequest,
    Snapshot,
)
"""and what replicas of one fragment say to each other."""


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

    def _reads(self, consumer: str, producers: Iterable[str]) -> None:
        for producer in producers:
            self._allow(consumer, producer, CONSUMER)
            self._allow(producer, consumer, PRODUCER)

    def _allow(self, sender: str, to: str, kinds: Iterable[type[Message]]) -> None:
        self._may.setdefault((sender, to), set()).update(kinds)

    def may(self, sender: str, to: str, message: Message) -> bool:
        """Whether one may say this to the other; a guest may read from anyone."""
        if sender.startswith(GUEST):
            return isinstance(message, CONSUMER)
        return type(message) in self._may.get((sender, to), ())
