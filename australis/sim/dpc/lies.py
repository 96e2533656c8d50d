"""Disks that lie: what they give back is not what was written (`sim.faults.Lie`)."""

from __future__ import annotations

from random import Random
from typing import Any

from australis.sim.dpc.hosts import ReplicaHost, SourceHost
from australis.sim.dpc.store import LaneStore, SimLog
from australis.sim.faults import Fault, Lie

LOST_BUCKETS = 8
"""The largest number of buckets that a lost write takes away."""
ROTTEN_AMONG = 12
"""The number of latest buckets of which one rots."""
MARKED = 0.7
"""The share of lost writes that leave the mark of the log, which says how far it was synced."""


class LyingDisks:
    """Makes disks lie, and keeps the old copies that are put back."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._copies: dict[Fault, Any] = {}

    def remember(self, fault: Fault, host: ReplicaHost | SourceHost) -> None:
        """Copy a node's disk, to put it back later."""
        if isinstance(host, SourceHost):
            self._copies[fault] = host.log().copy()
        else:
            self._copies[fault] = {stream: one.copy() for stream, one in host.stores.items()}

    def strike(self, fault: Fault, host: ReplicaHost | SourceHost) -> None:
        """Let the disk of a node, which is down unless it rots, lie from now on."""
        assert isinstance(fault.kind, Lie)
        if fault.kind is Lie.OLD_COPY:
            self._put_back(fault, host)
            return
        logs = _logs(host)
        stream = self._rng.choice(list(logs))
        lost = self._damage(fault.kind, logs[stream])
        if lost >= 0:
            host.probe.lied(host.name, stream, fault.kind, lost)

    def _damage(self, kind: Lie, log: SimLog) -> int:
        """How many buckets are gone; -1 if there was nothing to damage."""
        match kind:
            case Lie.LOST_WRITE:
                buckets = self._rng.randint(1, LOST_BUCKETS)
                return log.lose(buckets, marked=self._rng.random() < MARKED)
            case Lie.MISDIRECTED:
                log.overwritten = bool(log.tuples(1))
                return 0 if log.overwritten else -1
        there = log.tuples(ROTTEN_AMONG)
        log.rotten.update(self._rng.sample(there, min(1, len(there))))
        return 0 if there else -1

    def _put_back(self, fault: Fault, host: ReplicaHost | SourceHost) -> None:
        ends = {stream: log.end for stream, log in _logs(host).items()}
        copied = self._copies.pop(fault)
        if isinstance(host, SourceHost):
            host.put_back(copied)
        else:
            host.stores = copied
        for stream, log in _logs(host).items():
            host.probe.lied(host.name, stream, Lie.OLD_COPY, ends[stream] - log.end)


def _logs(host: ReplicaHost | SourceHost) -> dict[str, SimLog]:
    if isinstance(host, SourceHost):
        return {host.name: host.log()}
    stores: dict[str, LaneStore] = host.stores
    return {stream: store.log for stream, store in stores.items()}
