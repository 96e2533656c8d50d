"""A client knows when each stable bucket entered, whatever the clocks on its way show."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.proxies import Insertions
from australis.sim.dpc.probes import Checker
from australis.sim.world import Clock


class EntryTimesKnown(Checker):
    """Entry times at clients are those of the sources, but for the errors of estimated clocks.

    A bucket enters with the first of its input buckets. The run is not ended: what a wrong entry
    time leads to is for other checkers to find.
    """

    name = "entered"

    def __init__(
        self,
        sources: Mapping[str, Set[str]],
        clocks: Mapping[str, Clock],
        error_us: int,
        pairs: Collection[str] = (),
    ) -> None:
        """A checker, given the sources that each client's stream is computed from.

        Of `pairs` that have two proxies, by whose own clocks the copies of a log are, those buckets
        are checked that hold rows: it is known which proxy made them.
        """
        self._pairs = pairs
        self._made: dict[tuple[str, int, bytes], int] = {}
        self._sources = sources
        self._clocks = clocks
        self.error_us = error_us
        self._entered: dict[str, dict[int, int]] = {
            name: {} for s in sources.values() for name in s
        }
        self._heard: dict[str, int] = dict.fromkeys(sources, -1)
        self._forgotten = -1
        self._wrong = ""
        self.checked = 0
        self.worst = 0

    def extended(self, node: str, stream: str, new: Sequence[Bucket], *, leads: bool) -> None:
        for bucket in new:
            if leads and bucket.batch is not None:
                made = (stream, bucket.number, bucket.batch.value)
                self._made[made] = self._world(node, bucket)

    def entered(self, source: str, new: Sequence[Bucket], now: int) -> None:
        times = self._entered.setdefault(source, {})
        for bucket in new:
            if source not in self._pairs:
                times.setdefault(bucket.number, self._world(source, bucket))
            elif bucket.batch is not None:
                made = (source, bucket.number, bucket.batch.value)
                times.setdefault(bucket.number, self._made[made])

    def _world(self, node: str, bucket: Bucket) -> int:
        return self._clocks[node].world(bucket.entered_us)

    def delivered(self, client: str, what: Any, now: int) -> None:
        if isinstance(what, Insertions):
            self._check(client, what.bucket, now)
            self._heard[client] = max(self._heard[client], what.bucket.number)
            self._forget(min(self._heard.values()))

    def _forget(self, upto: int) -> None:
        for number in range(self._forgotten + 1, upto + 1):
            for times in self._entered.values():
                times.pop(number, None)
        self._forgotten = max(self._forgotten, upto)

    def _check(self, client: str, bucket: Bucket, now: int) -> None:
        times = [self._entered[source].get(bucket.number) for source in self._sources[client]]
        known = [at for at in times if at is not None]
        if len(known) < len(times):
            return  # bounded logs: a source that no longer has it was not asked
        off_us = self._world(client, bucket) - min(known)
        self.checked += 1
        self.worst = max(self.worst, abs(off_us))
        if abs(off_us) > self.error_us and not self._wrong:
            self._wrong = (
                f"{client} took bucket {bucket.number} at {now / 1e6:.3f} s for"
                f" {abs(off_us) / 1e6:.3f} s {'younger' if off_us > 0 else 'older'} than it was;"
                f" clocks are known to {self.error_us / 1e6:.3f} s"
            )

    def finish(self) -> None:
        if self._wrong:
            self.fail(self._wrong)
