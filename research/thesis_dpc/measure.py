"""Measures one run: what the client received, when, and with what latency."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from australis.kernel.durations import SECOND
from australis.protocols.dpc.proxies import Insertions, RecDone, Tentatives, Undo
from australis.sim.dpc.probes import Checker
from australis.sim.dpc.run import Run
from research.claims import Progress
from research.thesis_dpc.setting import FAILS_AT_US, Setting
from research.thesis_dpc.versions import TwoVersions


class What(Enum):
    """A kind of delivery to a client."""

    STABLE = "stable"
    TENTATIVE = "tentative"
    UNDO = "UNDO"
    REC_DONE = "REC_DONE"


@dataclass(frozen=True)
class Delivery:
    """One delivery to a client."""

    what: What
    at_us: int
    bucket: int
    """The bucket's number; for UNDO the last bucket that stays."""
    rows: int
    new: bool
    """Whether it is the client's first delivery of this bucket."""


@dataclass
class Heard(Checker):
    """All deliveries to the single client of a run, in order.

    The latency of a bucket counts from its start, when its oldest tuple entered, to its first
    delivery.
    """

    bucket_us: int
    name: str = "measure"
    deliveries: list[Delivery] = field(default_factory=list)
    _last: int = -1

    def delivered(self, client: str, what: Any, now: int) -> None:
        match what:
            case Insertions(bucket=b) | Tentatives(bucket=b):
                kind = What.STABLE if isinstance(what, Insertions) else What.TENTATIVE
                count = 0 if b.batch is None else b.batch.num_rows
                self.deliveries.append(Delivery(kind, now, b.number, count, b.number > self._last))
                self._last = max(self._last, b.number)
            case Undo(upto=upto):
                self.deliveries.append(Delivery(What.UNDO, now, upto, 0, False))
            case RecDone():
                self.deliveries.append(Delivery(What.REC_DONE, now, -1, 0, False))

    def latency_us(self, d: Delivery) -> int:
        """The time from the start of the bucket to a delivery."""
        return d.at_us - d.bucket * self.bucket_us

    @property
    def n_tentative(self) -> int:
        """The number of tentative tuples delivered (definition 8, over the whole run)."""
        return sum(d.rows for d in self.deliveries if d.what is What.TENTATIVE)

    def new(self, since_us: int = 0) -> list[Delivery]:
        """The first delivery of each bucket, among those that start from then on."""
        return [d for d in self.deliveries if d.new and d.bucket * self.bucket_us >= since_us]

    @property
    def proc_new_s(self) -> float:
        """Proc_new: the worst latency of a new bucket from just before the failure on."""
        since = FAILS_AT_US - SECOND
        return max(self.latency_us(d) for d in self.new(since)) / SECOND

    @property
    def normal_s(self) -> float:
        """The worst latency of a bucket before the failure."""
        early = [d for d in self.new(SECOND) if d.at_us < FAILS_AT_US]
        return max(self.latency_us(d) for d in early) / SECOND

    @property
    def mean_ms(self) -> float:
        """The average latency of a tuple; tuples are spread evenly over their buckets."""
        waits = [(self.latency_us(d) - self.bucket_us / 2, d.rows) for d in self.new(SECOND)]
        return sum(w * rows for w, rows in waits) / sum(rows for _, rows in waits) / 1000

    @property
    def stable_again_s(self) -> float:
        """When the last correction was complete, in seconds after the failure began."""
        done = [d.at_us for d in self.deliveries if d.what is What.REC_DONE]
        return (max(done) - FAILS_AT_US) / SECOND if done else 0.0


class MeasuredRun(Run):
    """A run whose delays are measured, not checked: some settings exceed the bound on purpose.

    All other promises are checked as usual; but a second version of a node is not given what its
    node has of a replay, so that what it says does not follow from that.
    """

    def _of_lanes(self) -> list[Checker]:
        second = issubclass(self.scenario.replica_host, TwoVersions)
        return [] if second else super()._of_lanes()

    def _timely(self) -> list[Checker]:
        return []


def measure(setting: Setting) -> Heard:
    """Run a setting to its end; a broken promise is an error."""
    heard = Heard(setting.bucket_us)
    outcome = MeasuredRun(setting.scenario(), extra=lambda run: [heard]).execute()
    if outcome.violation is not None:
        raise outcome.violation
    return heard


def measure_all(settings: Sequence[Setting], progress: Progress, what: str = "runs") -> list[Heard]:
    """Run all settings, on all cores; return the client's deliveries, in the same order."""
    with ProcessPoolExecutor(max_workers=min(os.cpu_count() or 1, len(settings))) as pool:
        found = []
        for heard in pool.map(measure, settings):
            found.append(heard)
            progress(f"{what}: {len(found)} of {len(settings)} runs")
    return found
