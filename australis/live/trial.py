"""A cluster on this machine put to the test: started, disturbed, listened to, and judged.

    with Trial(path, "counts") as trial:
        trial.wait_until_stable()
        trial.kill("a")
        ...
        verdict = trial.verdict()

Its nodes are real processes. A client writes down what it hears and when; in the end that
is compared with a computation of the whole stream at once, over the same tuples.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.errors import Stopped
from australis.live.client import Change, Connection, Kind, load_cluster, producers_of
from australis.live.epoch import began_us, keep_epoch
from australis.live.operate import Operator
from australis.live.processes import end, identity
from australis.live.rehearse import Network
from australis.live.sources import open_reader
from australis.live.sources.replay import stamped
from australis.reference import ReferenceEngine
from australis.streams.schema import Schema
from australis.streams.source import SourceStream

NODE = (sys.executable, "-m", "australis.cli.main", "node")
LATEST = 100
"""So many of the latest changes a trial remembers in any case."""
PATIENCE_S = 240.0
"""So long Spark may take to get going on a busy machine."""


@dataclass(frozen=True)
class Heard:
    """A change, and when it came."""

    at: float
    change: Change


class Trial:
    """The processes of a cluster, and one client."""

    def __init__(
        self,
        path: Path,
        stream: str,
        *,
        hedge: int = 1,
        cores: Mapping[str, Collection[int]] | None = None,
        within: Mapping[str, Sequence[str]] | None = None,
        keep: bool = True,
    ) -> None:
        """What `cores` a node and its Spark may use; a command `within` which it runs.

        A long trial need not `keep` the tuples that it heard; it cannot be judged then.
        """
        self.path = path
        self.stream = stream
        self.heard: list[Heard] = []
        self.kills: list[tuple[float, str]] = []
        """When which nodes were killed."""
        self._hedge = hedge
        self._cores = cores or {}
        self._within = within or {}
        self._keep = keep
        cluster, diagram, base = load_cluster(path, needs_epoch=False)
        keep_epoch(cluster, diagram, base)
        self.cluster, self.diagram, self.base = load_cluster(path)
        self._operator = Operator(self.cluster, self.base)
        self._network = Network(self._operator)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._connection: Connection | None = None
        self._error: BaseException | None = None

    @property
    def base_bucket(self) -> int:
        """The last bucket before the cluster's epoch."""
        assert self.cluster.epoch_us is not None
        return self.diagram.buckets.closed_by(self.cluster.epoch_us)

    @property
    def began_us(self) -> int:
        """When its clocks began, on the wall; sources count from the epoch then."""
        return began_us(self.base / self.cluster.state, time.time_ns() // 1000)

    # --- the processes ----------------------------------------------------------------

    def __enter__(self) -> Trial:
        try:
            for node in self.cluster.nodes:
                self.start(node)
            self._connection = Connection(self.cluster, self.diagram, self.base, None)
            threading.Thread(target=self._listen, name="listener", daemon=True).start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything."""
        try:
            if self._connection is not None:
                self._connection.close()
            for process in self._processes.values():
                self._signal(process, signal.SIGCONT)
            end([who for p in self._processes.values() if (who := identity(p.pid))])
        finally:
            for process in self._processes.values():
                self._signal(process, signal.SIGKILL)  # whatever it has left behind
                process.wait()

    def start(self, node: str) -> None:
        """Start a node, or start it again."""
        log = self.base / self.cluster.state / f"{node}.txt"
        cores = self._cores.get(node)
        with log.open("ab") as said:
            self._processes[node] = subprocess.Popen(
                [*self._within.get(node, ()), *NODE, node, "--cluster", str(self.path)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores),
            )

    def process(self, node: str) -> subprocess.Popen[bytes]:
        """The process of a node."""
        return self._processes[node]

    def kill(self, node: str) -> None:
        """kill -9 a node with its Spark."""
        self._signal(self._processes[node], signal.SIGKILL)
        self._processes[node].wait()
        self.kills.append((time.time(), node))

    def pause(self, node: str) -> None:
        """Let a node and its Spark stand still."""
        self._signal(self._processes[node], signal.SIGSTOP)

    def resume(self, node: str) -> None:
        """Let them go on."""
        self._signal(self._processes[node], signal.SIGCONT)

    @staticmethod
    def _signal(process: subprocess.Popen[bytes], what: signal.Signals) -> None:
        """Signal a node and all it has started."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, what)

    def cut(self, nodes: Iterable[str], other: str) -> None:
        """Nothing gets through between these and another."""
        for node in nodes:
            self._network.cut(node, other)

    def heal(self, nodes: Iterable[str], other: str) -> None:
        """It does again."""
        for node in nodes:
            self._network.heal(node, other)

    # --- what happens --------------------------------------------------------------------

    @property
    def _replicas(self) -> list[str]:
        machines = producers_of(self.cluster, self.diagram, self.stream)
        return [machine.partition("@")[2] for machine in machines]

    def states(self) -> dict[str, str]:
        """What each replica says of the stream."""
        answers = self._operator.ask_all(self._replicas, "status")
        return {
            node: "" if answer is None else str(answer["outputs"][self.stream]["state"])
            for node, answer in answers.items()
        }

    def ends(self) -> dict[str, int]:
        """How far the log of each replica reaches."""
        answers = self._operator.ask_all(self._replicas, "status")
        return {
            node: -1 if answer is None else int(answer["outputs"][self.stream]["end"])
            for node, answer in answers.items()
        }

    def followed(self) -> str:
        """The replica whose log the client reads now."""
        assert self._connection is not None
        (subscription,) = self._connection.subscriptions
        return subscription.reads_from

    def wait_until_stable(self, buckets: int = 5, timeout_s: float = PATIENCE_S) -> None:
        """Until all replicas are stable, and the client has heard of so many buckets."""
        self.until(lambda: self.stable_buckets >= buckets, "nothing stable came", timeout_s)
        self.until(lambda: set(self.states().values()) == {"STABLE"}, "not all stable", timeout_s)

    def until(self, what: Callable[[], bool], otherwise: str, timeout_s: float = 60.0) -> float:
        """Wait for something; how long it took."""
        began = time.monotonic()
        while not what():
            self._check()
            if time.monotonic() - began > timeout_s:
                raise Stopped(f"{otherwise} within {timeout_s:.0f} s: {self.states()}")
            time.sleep(0.01)
        return time.monotonic() - began

    def wait(self, seconds: float) -> None:
        """Let it run."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._check()
            time.sleep(min(left, 0.2))

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _listen(self) -> None:
        try:
            assert self._connection is not None
            subscription = self._connection.subscribe(self.stream, hedge=self._hedge)
            for change in subscription:
                self.heard.append(Heard(time.monotonic(), change))
                if not self._keep:
                    del self.heard[:-LATEST]
        except BaseException as error:
            self._error = error

    # --- what the client heard --------------------------------------------------------------

    @property
    def stable_buckets(self) -> int:
        """How many stable buckets it has."""
        return sum(1 for h in list(self.heard) if h.change.kind is Kind.STABLE)

    @property
    def stable_upto(self) -> int:
        """The last of them."""
        found = (h.change.bucket for h in reversed(self.heard) if h.change.kind is Kind.STABLE)
        return next(found, -1)

    @property
    def uncorrected(self) -> bool:
        """Whether something tentative has not been corrected yet."""
        for h in reversed(self.heard):
            if h.change.kind in (Kind.DONE, Kind.TENTATIVE):
                return h.change.kind is Kind.TENTATIVE
        return False

    def tentative(self, since: float = 0.0) -> list[Heard]:
        """The tentative buckets with tuples since some moment."""
        return [
            h
            for h in list(self.heard)
            if h.at >= since and h.change.kind is Kind.TENTATIVE and h.change.rows
        ]

    def silence(self, since: float, until: float) -> float:
        """The longest time in which nothing new was heard."""
        return longest_gap(news(self.heard), since, until)

    def verdict(self) -> Verdict:
        """The stable tuples, compared with what one computation of it all gives."""
        changes = [h.change for h in list(self.heard)]
        stable = [c for c in changes if c.kind is Kind.STABLE]
        upto = stable[-1].bucket if stable else -1
        expected = computed_at_once(self.diagram, self.base, self.stream, upto).to_pylist()
        skipped = any(c.kind is Kind.SKIPPED for c in changes)
        return judge(expected, rows_of(stable), skipped=skipped)


def rows_of(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """The tuples of some changes, in their order."""
    return [row for c in changes if c.batch is not None for row in c.batch.to_pylist()]


def news(heard: Iterable[Heard]) -> list[float]:
    """The moments at which something was heard of a bucket for the first time."""
    newest, moments = -1, []
    for h in list(heard):
        if h.change.kind in (Kind.STABLE, Kind.TENTATIVE) and h.change.bucket > newest:
            newest = h.change.bucket
            moments.append(h.at)
    return moments


def lateness(heard: Iterable[Heard], diagram: Diagram) -> list[float]:
    """For each bucket, how long after its end it was first heard of; the clocks' offset included."""
    newest, found = -1, []
    for h in heard:
        if h.change.kind in (Kind.STABLE, Kind.TENTATIVE) and h.change.bucket > newest:
            newest = h.change.bucket
            found.append(h.at - diagram.buckets.end(newest) / 1e6)
    return found


def longest_gap(moments: Iterable[float], since: float, until: float) -> float:
    """The longest time between two moments, the ends of the stretch included.

    >>> longest_gap([1.0, 2.0, 4.5], 1.5, 5.0)
    2.5
    """
    inside = [since, *(m for m in moments if since < m < until), until]
    return max(b - a for a, b in pairwise(inside))


@dataclass(frozen=True)
class Verdict:
    """How what was heard differs from what should have been."""

    expected: int
    got: int
    lost: int
    duplicated: int
    equal: bool
    """Whether it is the same sequence, tuple for tuple."""


def judge(
    expected: list[dict[str, Any]], got: list[dict[str, Any]], *, skipped: bool = False
) -> Verdict:
    """Compare two sequences of tuples by their ids and contents."""
    wanted, have = {row["_id"] for row in expected}, [row["_id"] for row in got]
    return Verdict(
        len(expected),
        len(got),
        len(wanted - set(have)),
        len(have) - len(set(have)),
        expected == got and not skipped,
    )


@dataclass(frozen=True)
class Computed:
    """All streams of a diagram as they are without any fault."""

    schemas: dict[str, Schema]
    logs: dict[str, dict[int, pa.RecordBatch]]
    """The buckets of each that are not empty."""


def computed(diagram: Diagram, base: Path, upto: int) -> Computed:
    """All streams up to a bucket, from all tuples of all sources, which are read once more."""
    buckets = diagram.buckets
    schemas = {source.name: source.schema for source in diagram.sources}
    logs: dict[str, dict[int, pa.RecordBatch]] = {}
    for source in diagram.sources:
        reader = open_reader(source, base)
        if reader is None:
            raise Stopped(f"'{source.name}' cannot be read again")
        tuples = SourceStream(source.schema, buckets, slack_us=source.slack_us)
        for release in stamped(reader, source, buckets, 0):
            tuples.offer(release.rows)
            if release.rows.num_rows and tuples.due_boundary() > buckets.end(upto):
                break
        step = tuples.close(buckets.end(upto))
        logs[source.name] = {} if step is None else dict(step.buckets)
    for fragment in cut(diagram):
        for plan in fragment.plans:
            engine = ReferenceEngine(plan, schemas, buckets)
            inputs = [list(logs[i].values()) for i in plan.inputs]
            _, made = engine.step(engine.initial, inputs, upto)
            schemas[plan.output] = engine.schema
            logs[plan.output] = {number: batch for number, batch in made if batch.num_rows}
    return Computed(schemas, logs)


def computed_at_once(diagram: Diagram, base: Path, stream: str, upto: int) -> pa.Table:
    """One of them as a table."""
    found = list(computed(diagram, base, upto).logs[stream].values())
    return pa.Table.from_batches(found) if found else pa.table({})


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
