"""Applies the checkers of the simulated world to the records of a run with real processes.

The records are what the client received and when, the logs on the nodes' disks, and the schedule of
faults. Checkers that inspect running machines use the nodes' traces, if there are any (`traced`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from australis.kernel.durations import SECOND
from australis.kernel.machine import Message
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.proxies import Insertions, RecDone, Skipped, Tentatives, Undo
from australis.protocols.dpc.topology import dpc_options
from australis.runtime.client import Change, ChangeKind
from australis.runtime.files import FileDisk
from australis.runtime.testbed import Computed, Testbed, lateness, stable_upto
from australis.scenarios import replayed, traced
from australis.scenarios.traced import topology_of
from australis.scenarios.verdict import Judged
from australis.sim.dpc.checkers.corrected import Corrected
from australis.sim.dpc.checkers.delay import BoundedDelay
from australis.sim.dpc.checkers.logs import EqualLogs
from australis.sim.dpc.checkers.masked import ShortFailuresMasked
from australis.sim.dpc.checkers.progress import ForwardProgress
from australis.sim.dpc.checkers.stable import StableAtClients
from australis.sim.dpc.probes import Checker, Violation
from australis.sim.dpc.run import FOR_EVER_US, in_time, more_us
from australis.sim.dpc.truth import Truth, merge
from australis.sim.faults import Fault
from australis.streams.log import StableLog

BUSY_US = SECOND
"""The extra time that anything may take on a machine that other processes use too."""


@dataclass(frozen=True)
class Schedule:
    """The schedule of faults, in microseconds since a run began."""

    faults: tuple[Fault, ...]
    end_us: int
    recovery_us: int
    """The time that a node needs to recover, beyond that of a simulated node."""
    lost_us: int | None = None
    """When the replicas of a fragment began to lose their disks, all of them in the end, after
    which nothing is promised in time; None: they did not."""

    full_us: int | None = None
    """When a log was full for the first time, and held something up; None: none ever was."""

    @property
    def promised_us(self) -> int:
        """The moment up to which results are promised in time."""
        known = (at for at in (self.lost_us, self.full_us) if at is not None)
        return min([self.end_us, *known])


@dataclass(frozen=True)
class Judgement:
    """What the checkers say of a finished testbed."""

    broken: tuple[str, ...]
    """The broken promises; empty if all were kept."""
    judged: Judged


def broken_promises(testbed: Testbed) -> list[str]:
    """The broken promises of a finished testbed whose schedule of faults is not known."""
    return [*judge(testbed, testbed.computed()).broken]


def judge(
    testbed: Testbed, known: Computed, began_s: float = 0.0, schedule: Schedule | None = None
) -> Judgement:
    """Apply the checkers to a finished testbed; with a schedule of faults those of delays too."""
    record = _Record(testbed, known, began_s)
    oracle: Any = record
    clients = {name: place.stream for name, place in testbed.cluster.clients.items()}
    # What is gone then is for `LossTold` to judge.
    promised = None if schedule is None or schedule.lost_us is None else 0
    checkers: list[Checker] = [
        StableAtClients(oracle, clients, promised),
        Corrected(clients),
        EqualLogs(oracle),
    ]
    timely = None if schedule is None else _Timely.of(record, schedule)
    checkers += [] if timely is None else timely.checkers
    found = [said for checker in checkers if (said := record.tell(checker))]
    faults = None if schedule is None else schedule.faults
    lanes = replayed.judge(testbed, record.known, record.upto, faults)
    found += [*lanes.broken, *traced.broken_promises(testbed, faults or ())]
    in_time = (0, 0, 0.0) if timely is None else timely.judged
    cut = tuple(traced.incomplete(testbed))
    return Judgement(tuple(found), Judged(*in_time, lanes.compared, lanes.precise, cut))


class _Record:
    """The records as events for checkers: buckets count from the cluster's first.

    It also serves them as the oracle of the fault-free run.
    """

    def __init__(self, testbed: Testbed, known: Computed, began_s: float) -> None:
        self.testbed = testbed
        self._began_s = began_s
        self._first = testbed.base_bucket + 1
        self.heard = [
            (name, heard)
            for name, place in testbed.cluster.clients.items()
            for heard in testbed.heard_of[place.stream]
        ]
        """What each client heard."""
        self.upto = max(testbed.base_bucket, *map(stable_upto, testbed.heard_of.values()))
        self.known = known

    def same(self, stream: str, bucket: Bucket) -> bool:
        """Whether a fault-free run has this content in that bucket."""
        wanted = self.known.logs[stream].get(bucket.number + self._first)
        return _rows(wanted) == _rows(bucket.batch)

    def end(self, stream: str) -> int:
        """The last bucket for which the fault-free content is known."""
        return self.upto - self._first

    def tell(self, checker: Checker) -> str:
        """Give a checker all events; return its violation."""
        try:
            for node, stream, buckets in self._logs():
                checker.appended(node, stream, buckets[0].number - 1, buckets)
            for client, one in self.heard:
                at = self.moment(one.at)
                if at < 0 and isinstance(checker, ShortFailuresMasked):
                    continue  # while nodes start, those that are not there yet are an outage
                checker.delivered(client, self._message(one.change), at)
            checker.finish()
        except Violation as broken:
            return str(broken)
        return ""

    def moment(self, at_s: float) -> int:
        """Microseconds since the run began."""
        return int((at_s - self._began_s) * SECOND)

    @property
    def full_us(self) -> int | None:
        """When a log was full for the first time; None: none ever was."""
        at_s = traced.first_full_s(self.testbed)
        return None if at_s is None else self.moment(at_s - time.time() + time.monotonic())

    def bucket(self, number: int, batch: pa.RecordBatch | None = None) -> Bucket:
        """The number by which checkers know a bucket."""
        return Bucket(number - self._first, 0, batch)

    def _message(self, change: Change) -> Message:
        match change.kind:
            case ChangeKind.INSERTION:
                return Insertions(self.bucket(change.bucket, change.batch))
            case ChangeKind.TENTATIVE:
                return Tentatives(self.bucket(change.bucket, change.batch))
            case ChangeKind.UNDO:
                return Undo(change.bucket - self._first)
            case ChangeKind.SKIPPED:
                return Skipped(-1, change.bucket - self._first)
            case ChangeKind.REC_DONE:
                return RecDone()

    def _logs(self) -> Iterator[tuple[str, str, list[Bucket]]]:
        """The logs of all nodes, up to the last bucket with known content."""
        testbed = self.testbed
        for node in testbed.cluster.nodes:
            for path in sorted((testbed.base / testbed.cluster.state / node).glob("*/logs/*")):
                if buckets := self._log(path):
                    yield node, path.name, buckets

    def _log(self, path: Path) -> list[Bucket]:
        testbed, disk = self.testbed, FileDisk(path)
        log = StableLog(disk, self.known.schemas[path.name], testbed.diagram.buckets)
        after = max(log.truncated_to, testbed.base_bucket)
        upto = min(log.buckets.closed_by(log.boundary_us), self.upto)
        there = dict(log.read(after, upto))
        disk.close()
        return [self.bucket(n, there.get(n)) for n in range(after + 1, upto + 1)]

    def closed(self, lag_s: float) -> Iterator[tuple[Bucket, int]]:
        """The moment at which a source with this lag closed each bucket, empty ones included."""
        for number in range(self._first, self.upto + 1):
            end_s = self.testbed.diagram.buckets.end(number) / SECOND
            yield self.bucket(number), self.moment(end_s + lag_s)


def _rows(batch: pa.RecordBatch | None) -> list[dict[str, Any]]:
    return [] if batch is None else batch.to_pylist()


@dataclass(frozen=True)
class _Timely:
    """The checkers that depend on when each part really worked."""

    masked: ShortFailuresMasked
    delay: BoundedDelay
    progress: ForwardProgress
    clients: tuple[str, ...]
    end_us: int

    @classmethod
    def of(cls, record: _Record, schedule: Schedule) -> _Timely:
        """The checkers of a finished run."""
        schedule = replace(schedule, full_us=record.full_us)
        testbed = record.testbed
        options = dpc_options(testbed.cluster, testbed.diagram)
        topology = topology_of(testbed)
        truth = _SlowTruth(topology, schedule.faults, options, schedule.promised_us)
        truth.recovery_us = schedule.recovery_us
        hops = 1 + max(o.hops_ahead for replica in topology.replicas for o in replica.outputs)
        slack = options.bucket_us + BUSY_US
        after = (schedule.promised_us, FOR_EVER_US)
        # The standby takes over while its source is silent: that is not yet told apart from a cut.
        paired = {m for p in topology.pairs.values() for m in (*p.members, p.witness)}
        silent = [(f.at_us, truth.settled_us(f)) for f in schedule.faults if f.node in paired]
        outages = {c.name: merge([*truth.outages(c), *silent, after]) for c in topology.clients}
        shortest = options.max_delay_us - hops * options.hop_us - slack
        more = more_us(options, topology.clients)
        settling = truth.switch_us + options.max_delay_us + slack
        masked = ShortFailuresMasked(outages, shortest, settling, more_us=more)
        good = {c.name: truth.good_paths(c) for c in topology.clients if in_time(options, c)}
        for paths in good.values():
            for source in topology.pairs:
                paths.pop(source, None)
        failures = merge((fault.at_us, fault.until_us) for fault in schedule.faults)
        bound_us = options.max_delay_us + slack
        delay = BoundedDelay(good, bound_us, from_bucket=0, more_us=more, failures=failures)
        first = min((fault.at_us for fault in schedule.faults), default=schedule.end_us)
        quiet = [h for _, h in record.heard if 0 <= record.moment(h.at) < first]
        lag_s = statistics.median(lateness(quiet, testbed.diagram) or [0.0])
        for bucket, at in record.closed(lag_s):
            for source in testbed.cluster.sources:
                delay.entered(source, [bucket], at)
        down = merge((f.at_us, truth.settled_us(f)) for f in schedule.faults)
        longest = max((end - begin for begin, end in down), default=0)
        names = tuple(outages)
        progress = ForwardProgress(names, longest + settling, schedule.promised_us)
        return cls(masked, delay, progress, names, schedule.promised_us)

    @property
    def checkers(self) -> list[Checker]:
        """All of them."""
        return [self.masked, self.delay, self.progress]

    @property
    def judged(self) -> tuple[int, int, float]:
        """The number of delays that were judged, of those during faults, and the seconds in which
        nothing may be tentative."""
        judged_us = (self.masked.judged_us(client, self.end_us) for client in self.clients)
        return self.delay.checked, self.delay.checked_in_failures, sum(judged_us) / SECOND


class _SlowTruth(Truth):
    """The working times with the longer recovery of real processes."""

    recovery_us = 0

    def settled_us(self, fault: Fault) -> int:
        """When all parts have recovered from a fault and found each other again."""
        return fault.until_us + self._settling_us(fault)

    def _recovery_us(self, fault: Fault) -> int:
        found = super()._recovery_us(fault)
        return found + self.recovery_us if found else 0
