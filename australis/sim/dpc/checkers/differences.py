"""Replicas whose logs differ are noticed at once, stop, and nothing else is said to differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from australis.protocols.dpc.effects import AnnounceDifference
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.topology import Topology
from australis.sim.dpc.probes import Checker

HEARTBEATS = 4
"""The number of heartbeats within which a difference is announced and the replicas stop."""


class DifferencesAnnounced(Checker):
    """What differs is announced within a few heartbeats, and only what differs.

    The stopped replicas are those without a majority of equal logs: both of two, the odd one of
    three. A replica that goes on is right.
    """

    name = "differences"

    def __init__(
        self, topology: Topology, heartbeat_us: int, now: Callable[[], int], *, expected: bool
    ) -> None:
        """A checker of logs that are all equal, unless differences are `expected`."""
        self._now = now
        self._expected = expected
        self._allowed_us = HEARTBEATS * heartbeat_us
        self._logs: dict[str, dict[str, dict[int, Any]]] = {}
        """The buckets that each replica has logged, by stream and replica."""
        for replica in topology.replicas:
            for output in replica.outputs:
                self._logs.setdefault(output.stream, {})[replica.name] = {}
        self._differ: dict[str, dict[frozenset[str], tuple[int, int]]] = {s: {} for s in self._logs}
        """The first bucket in which two replicas really differ, and since when."""
        self._announced: set[tuple[str, str]] = set()

    def appended(self, node: str, stream: str, end: int, new: Sequence[Bucket]) -> None:
        if not self._expected:
            return
        logs, differ = self._logs[stream], self._differ[stream]
        for bucket in new:
            logs[node][bucket.number] = bucket.batch
            for peer, log in logs.items():
                both = frozenset((node, peer))
                number = bucket.number
                if number in log and both not in differ and log[number] != bucket.batch:
                    differ[both] = number, self._now()
        if new:
            self._check_stopped(node, stream)

    def _check_stopped(self, node: str, stream: str) -> None:
        """Check that a replica still has a majority with it, or lost that only now."""
        mine = [since for both, (_, since) in self._differ[stream].items() if node in both]
        replicas = len(self._logs[stream])
        if 2 * (replicas - len(mine)) <= replicas and self._now() - max(mine) > self._allowed_us:
            self.fail(f"{node} goes on with {stream} though its replicas differ")

    def differs(self, node: str, effect: AnnounceDifference) -> None:
        numbers = [number for number, _ in self._differ.get(effect.stream, {}).values()]
        for one in effect.differences:
            if not any(one.after < number <= one.bucket for number in numbers):
                truth = f"it differs first in {numbers}" if numbers else "it does not"
                self.fail(f"{node} says that {effect.stream} differs ({one.text}), but {truth}")
        if effect.differences and not effect.reader:
            self._announced.add((node, effect.stream))

    def finish(self) -> None:
        for stream, differ in self._differ.items():
            for both, (number, since) in differ.items():
                late = self._now() - since > self._allowed_us
                for node in sorted(both):
                    if late and (node, stream) not in self._announced:
                        self.fail(f"{node} does not announce that bucket {number} differs")
