"""The checkers of the simulated world, over what a run with real processes has left behind.

What the client heard and when, what stands in the logs on the nodes' disks, and what failed when:
from that they judge as in the simulated world. Those that look into running machines do so in
the nodes' traces, if they kept any (`traced`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from australis.kernel.durations import SECOND
from australis.kernel.machine import Message
from australis.live.client import Change, Kind
from australis.live.files import FileDisk
from australis.live.trial import Trial, computed, lateness
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.proxies import Insertions, RecDone, Skipped, Tentatives, Undo
from australis.protocols.dpc.topology import deploy, dpc_options
from australis.scenarios import traced
from australis.sim.dpc.checkers.corrected import Corrected
from australis.sim.dpc.checkers.delay import BoundedDelay
from australis.sim.dpc.checkers.logs import EqualLogs
from australis.sim.dpc.checkers.masked import ShortFailuresMasked
from australis.sim.dpc.checkers.stable import StableAtClients
from australis.sim.dpc.faults import Fault
from australis.sim.dpc.faults import Kind as FaultOf
from australis.sim.dpc.probes import Checker, Violation
from australis.sim.dpc.truth import Truth
from australis.streams.log import StableLog

BUSY_US = SECOND
"""So much longer than planned for things may take on a machine that others use too."""


@dataclass(frozen=True)
class Schedule:
    """What failed when, in microseconds since a run began."""

    faults: tuple[Fault, ...]
    end_us: int
    recovery_us: int
    """So long a node needs after a fault, beyond what one in the simulated world does."""


def broken_promises(
    trial: Trial, began_s: float = 0.0, schedule: Schedule | None = None
) -> list[str]:
    """What the checkers say of a trial that is over; nothing if all promises were kept.

    With a schedule of what failed, they also judge what came when.
    """
    record = _Record(trial, began_s)
    oracle: Any = record
    clients = {record.client: trial.stream}
    checkers: list[Checker] = [
        StableAtClients(oracle, clients),
        Corrected(clients),
        EqualLogs(oracle),
    ]
    if schedule is not None:
        checkers += _timely(record, schedule)
    wiped = {f.node for f in schedule.faults if f.kind is FaultOf.WIPE} if schedule else set()
    found = [said for checker in checkers if (said := record.tell(checker))]
    return [*found, *traced.broken_promises(trial, wiped)]


class _Record:
    """What was recorded, as checkers are told of it: buckets count from the cluster's first.

    To them it is also the oracle that knows what a run without faults has.
    """

    def __init__(self, trial: Trial, began_s: float) -> None:
        self.trial = trial
        (self.client,) = trial.cluster.clients
        self._began_s = began_s
        self._first = trial.base_bucket + 1
        self.heard = list(trial.heard)
        stable = (h.change.bucket for h in self.heard if h.change.kind is Kind.STABLE)
        self._upto = max(stable, default=trial.base_bucket)
        self._known = computed(trial.diagram, trial.base, self._upto)

    def same(self, stream: str, bucket: Bucket) -> bool:
        """Whether a run without faults has this in that bucket."""
        wanted = self._known.logs[stream].get(bucket.number + self._first)
        return _rows(wanted) == _rows(bucket.batch)

    def end(self, stream: str) -> int:
        """How far is known what it has."""
        return self._upto - self._first

    def tell(self, checker: Checker) -> str:
        """Let a checker see it all; what it objects to."""
        try:
            for node, stream, buckets in self._logs():
                checker.appended(node, stream, buckets[0].number - 1, buckets)
            for one in self.heard:
                checker.delivered(self.client, self._message(one.change), self.moment(one.at))
            checker.finish()
        except Violation as broken:
            return str(broken)
        return ""

    def moment(self, at_s: float) -> int:
        """A moment in microseconds since the run began."""
        return int((at_s - self._began_s) * SECOND)

    def bucket(self, number: int, batch: pa.RecordBatch | None = None) -> Bucket:
        """A bucket as checkers number it."""
        return Bucket(number - self._first, 0, batch)

    def _message(self, change: Change) -> Message:
        match change.kind:
            case Kind.STABLE:
                return Insertions(self.bucket(change.bucket, change.batch))
            case Kind.TENTATIVE:
                return Tentatives(self.bucket(change.bucket, change.batch))
            case Kind.UNDO:
                return Undo(change.bucket - self._first)
            case Kind.SKIPPED:
                return Skipped(-1, change.bucket - self._first)
            case Kind.DONE:
                return RecDone()

    def _logs(self) -> Iterator[tuple[str, str, list[Bucket]]]:
        """What is in the logs of all nodes, as far as is known what should be."""
        trial = self.trial
        for node in trial.cluster.nodes:
            for path in sorted((trial.base / trial.cluster.state / node).glob("*/logs/*")):
                if buckets := self._log(path):
                    yield node, path.name, buckets

    def _log(self, path: Path) -> list[Bucket]:
        trial, disk = self.trial, FileDisk(path)
        log = StableLog(disk, self._known.schemas[path.name], trial.diagram.buckets)
        after = max(log.truncated_to, trial.base_bucket)
        upto = min(log.buckets.closed_by(log.boundary_us), self._upto)
        there = dict(log.read(after, upto))
        disk.close()
        return [self.bucket(n, there.get(n)) for n in range(after + 1, upto + 1)]

    def closed(self, lag_s: float) -> Iterator[tuple[Bucket, int]]:
        """When a source closed each bucket, if it was so late; empty ones do."""
        for number in range(self._first, self._upto + 1):
            end_s = self.trial.diagram.buckets.end(number) / SECOND
            yield self.bucket(number), self.moment(end_s + lag_s)


def _rows(batch: pa.RecordBatch | None) -> list[dict[str, Any]]:
    return [] if batch is None else batch.to_pylist()


def _timely(record: _Record, schedule: Schedule) -> list[Checker]:
    """The checkers that need to know what really worked when."""
    trial = record.trial
    options = dpc_options(trial.cluster, trial.diagram)
    topology = deploy(trial.diagram, trial.cluster.machines, trial.cluster.readers)
    truth = _SlowTruth(topology, schedule.faults, options, schedule.end_us)
    truth.recovery_us = schedule.recovery_us
    hops = 1 + max(o.hops_ahead for replica in topology.replicas for o in replica.outputs)
    slack = options.bucket_us + BUSY_US
    outages = {c.name: truth.outages(c) for c in topology.clients}
    shortest = options.max_delay_us - hops * options.hop_us - slack
    masked = ShortFailuresMasked(outages, shortest, truth.switch_us + options.max_delay_us + slack)
    good = {client.name: truth.good_paths(client) for client in topology.clients}
    first = min((fault.at_us for fault in schedule.faults), default=schedule.end_us)
    quiet = [h for h in record.heard if 0 <= record.moment(h.at) < first]
    delay = BoundedDelay(good, options.max_delay_us + slack, from_bucket=0)
    lag_s = statistics.median(lateness(quiet, trial.diagram) or [0.0])
    for bucket, at in record.closed(lag_s):
        for source in trial.cluster.sources:
            delay.entered(source, [bucket], at)
    return [masked, delay]


class _SlowTruth(Truth):
    """Processes need longer to recover than the simulated world's nodes."""

    recovery_us = 0

    def _recovery_us(self, fault: Fault) -> int:
        found = super()._recovery_us(fault)
        return found + self.recovery_us if found else 0
