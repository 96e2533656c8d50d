"""A testbed: a real cluster on this machine, with injected faults and a checked client.

    with Testbed(path, "counts") as testbed:
        testbed.wait_until_stable()
        testbed.kill("a")
        ...
        verdict = testbed.verdict()

Its nodes are real processes. A client records what it receives and when; in the end that
is compared with one computation of the whole stream over the same tuples.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from australis.diagram.fragments import cut
from australis.diagram.model import Diagram, Spark
from australis.kernel.errors import Stopped
from australis.reference import ReferenceEngine
from australis.runtime.admin import AdminClient
from australis.runtime.client import Change, ChangeKind, Connection, load_cluster, producers_of
from australis.runtime.epoch import began_us, keep_epoch
from australis.runtime.fault_injection import Network
from australis.runtime.node.driver import SHIFT
from australis.runtime.processes import end, identity
from australis.runtime.sources import open_reader
from australis.runtime.sources.replay import stamped
from australis.runtime.undisturbed import undisturbed
from australis.streams.schema import Schema
from australis.streams.source import SourceStream

NODE = (sys.executable, "-m", "australis.cli.main", "node")
LISTENING_PORTS = range(10_000, 32_768)
"""Ports below those that Linux gives to outgoing connections."""
LATEST = 100
"""The number of latest changes that a testbed keeps in any case."""
START_TIMEOUT_S = 240.0
"""The longest time that Spark may take to start on a busy machine."""


@dataclass(frozen=True)
class Heard:
    """A change, and the time of its arrival."""

    at: float
    change: Change


class Testbed:
    """The processes of a cluster, and one client."""

    def __init__(
        self,
        path: Path,
        stream: str,
        *,
        also: Iterable[str] = (),
        hedge: int | None = None,
        cores: Mapping[str, Collection[int]] | None = None,
        within: Mapping[str, Sequence[str]] | None = None,
        clocks: Mapping[str, float] | None = None,
        keep: bool = True,
    ) -> None:
        """A testbed; `cores` gives the CPU cores of each node, `within` a command that wraps it, and
        `clocks` how many seconds its clock is ahead.

        It reads one stream, and `also` others, each as the client of the cluster that reads it.

        A long run need not `keep` the tuples that it received, but then has no verdict.
        """
        self.path = path
        self.stream = stream
        self.heard_of: dict[str, list[Heard]] = {one: [] for one in (stream, *also)}
        """What was received of each stream."""
        self.kills: list[tuple[float, str]] = []
        """The kills as pairs of time and node."""
        self._hedge = hedge
        self._cores = cores or {}
        self._within = within or {}
        self.clocks = clocks or {}
        self._keep = keep
        cluster, diagram, base = load_cluster(path, needs_epoch=False)
        keep_epoch(cluster, diagram, base)
        self.cluster, self.diagram, self.base = load_cluster(path)
        self._operator = AdminClient(self.cluster, self.base)
        self._network = Network(self._operator)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = ExitStack()
        self._connection: Connection | None = None
        self._error: BaseException | None = None
        self._closing = threading.Event()

    @property
    def base_bucket(self) -> int:
        """The last bucket before the cluster's epoch."""
        assert self.cluster.epoch_us is not None
        return self.diagram.buckets.closed_by(self.cluster.epoch_us)

    @property
    def began_us(self) -> int:
        """The wall-clock time at which its sources started to count from the epoch."""
        return began_us(self.base / self.cluster.state, time.time_ns() // 1000)

    # --- the processes ----------------------------------------------------------------

    def __enter__(self) -> Testbed:
        try:
            for place in self.cluster.nodes.values():
                self._ports.enter_context(_reserved(place.host, place.port))
            for node in self.cluster.nodes:
                self.start(node)
            self._connection = Connection(self.cluster, self.diagram, self.base, None)
            for stream in self.heard_of:
                listen = partial(self._listen, stream)
                threading.Thread(target=listen, name=f"listener {stream}", daemon=True).start()
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
        self._closing.set()
        try:
            if self._connection is not None:
                self._connection.close()
            for process in self._processes.values():
                self._signal(process, signal.SIGCONT)
            end([who for p in self._processes.values() if (who := identity(p.pid))])
        finally:
            for process in self._processes.values():
                self._signal(process, signal.SIGKILL)  # its remaining child processes
                process.wait()
            self._ports.close()

    def start(self, node: str) -> None:
        """Start a node, or start it again."""
        log = self.base / self.cluster.state / f"{node}.txt"
        cores = self._cores.get(node)
        with log.open("ab") as said:
            self._processes[node] = subprocess.Popen(
                [*self._within.get(node, ()), *NODE, node, "--cluster", str(self.path)],
                env={**os.environ, SHIFT: str(self.clocks.get(node, 0.0))},
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
        """Pause a node and its Spark (SIGSTOP)."""
        self._signal(self._processes[node], signal.SIGSTOP)

    def resume(self, node: str) -> None:
        """Resume a paused node and its Spark."""
        self._signal(self._processes[node], signal.SIGCONT)

    @staticmethod
    def _signal(process: subprocess.Popen[bytes], what: signal.Signals) -> None:
        """Signal a node and all it has started."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, what)

    def cut(self, nodes: Iterable[str], other: str) -> None:
        """Cut the network between these nodes and another."""
        for node in nodes:
            self._network.cut(node, other)

    def heal(self, nodes: Iterable[str], other: str) -> None:
        """End the cut between these nodes and another."""
        for node in nodes:
            self._network.heal(node, other)

    # --- what happens --------------------------------------------------------------------

    def _replicas(self, stream: str) -> list[str]:
        machines = producers_of(self.cluster, self.diagram, stream)
        return [machine.partition("@")[2] for machine in machines]

    def states(self, stream: str | None = None) -> dict[str, str]:
        """The state of a stream at each of its replicas."""
        stream = stream or self.stream
        answers = self._operator.ask_all(self._replicas(stream), "status")
        return {
            node: "" if answer is None else str(answer["outputs"][stream]["state"])
            for node, answer in answers.items()
        }

    def ends(self) -> dict[str, int]:
        """The last bucket in the log of each replica."""
        answers = self._operator.ask_all(self._replicas(self.stream), "status")
        return {
            node: -1 if answer is None else int(answer["outputs"][self.stream]["end"])
            for node, answer in answers.items()
        }

    def followed(self) -> str:
        """The replica whose log the client reads now."""
        assert self._connection is not None
        (subscription,) = self._connection.subscriptions
        return subscription.reads_from

    def wait_until_stable(self, buckets: int = 5, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until all replicas of each stream that is read are stable, and the client has this
        number of stable buckets of each, and nothing tentative."""

        def came() -> bool:
            return all(stable_buckets(heard) >= buckets for heard in self.heard_of.values())

        def stable() -> bool:
            states = {s for stream in self.heard_of for s in self.states(stream).values()}
            return states == {"STABLE"} and not self.uncorrected

        self.until(came, "nothing stable came", timeout_s)
        self.until(stable, "not all stable", timeout_s)

    def until(self, what: Callable[[], bool], otherwise: str, timeout_s: float = 60.0) -> float:
        """Wait for a condition; returns how long that took."""
        began = time.monotonic()
        while not what():
            self._check()
            if time.monotonic() - began > timeout_s:
                raise Stopped(f"{otherwise} within {timeout_s:.0f} s: {self._states_told()}")
            time.sleep(0.01)
        return time.monotonic() - began

    def _states_told(self) -> str:
        """The states of all nodes, and the last words of those that have ended."""
        said = [f"{stream} {self.states(stream)}" for stream in self.heard_of]
        for node, process in self._processes.items():
            if process.poll() is not None:
                log = self.base / self.cluster.state / f"{node}.txt"
                last = "".join(log.read_text(errors="replace").splitlines()[-1:])
                said.append(f"{node} has ended with exit code {process.returncode}: {last}")
        return "; ".join(said)

    def wait(self, seconds: float) -> None:
        """Let it run."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._check()
            time.sleep(min(left, 0.2))

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _listen(self, stream: str) -> None:
        heard = self.heard_of[stream]
        try:
            assert self._connection is not None
            while not any(map(self._operator.says_hello, self._replicas(stream))):
                if self._closing.wait(0.1):
                    return  # a Spark node may take longer to start than a client waits for one
            subscription = self._connection.subscribe(stream, hedge=self._hedge)
            for change in subscription:
                heard.append(Heard(time.monotonic(), change))
                if not self._keep:
                    del heard[:-LATEST]
        except BaseException as error:
            self._error = error

    # --- what the client heard --------------------------------------------------------------

    @property
    def heard(self) -> list[Heard]:
        """What was received of the stream."""
        return self.heard_of[self.stream]

    @property
    def stable_upto(self) -> int:
        """The last stable bucket that the client has."""
        return stable_upto(self.heard)

    def computed(self) -> Computed:
        """All streams without any fault, up to the last stable bucket of any that was read."""
        upto = max(map(stable_upto, self.heard_of.values()))
        return computed(self.diagram, self.base, max(upto, self.base_bucket))

    @property
    def uncorrected(self) -> bool:
        """Whether something tentative has not been corrected yet."""
        return any(map(waits_for_corrections, self.heard_of.values()))

    def tentative(self, since: float = 0.0) -> list[Heard]:
        """The tentative buckets with tuples since some moment."""
        return [
            h
            for h in list(self.heard)
            if h.at >= since and h.change.kind is ChangeKind.TENTATIVE and h.change.rows
        ]

    def silence(self, since: float, until: float) -> float:
        """The longest time in which nothing new arrived."""
        return longest_gap(news(self.heard), since, until)

    def verdict(self) -> Comparison:
        """The stable tuples, compared with what one computation of it all gives."""
        changes = [h.change for h in list(self.heard)]
        stable = [c for c in changes if c.kind is ChangeKind.INSERTION]
        upto = stable[-1].bucket if stable else -1
        expected = computed_at_once(self.diagram, self.base, self.stream, upto).to_pylist()
        skipped = any(c.kind is ChangeKind.SKIPPED for c in changes)
        return judge(expected, rows_of(stable), skipped=skipped)


def stable_buckets(heard: Sequence[Heard]) -> int:
    """The number of stable buckets that were received."""
    return sum(1 for h in list(heard) if h.change.kind is ChangeKind.INSERTION)


def stable_upto(heard: Sequence[Heard]) -> int:
    """The last stable bucket that was received, -1 if there is none."""
    stable = (h.change.bucket for h in reversed(heard) if h.change.kind is ChangeKind.INSERTION)
    return next(stable, -1)


def waits_for_corrections(heard: Sequence[Heard]) -> bool:
    """Whether something tentative that was received has not been corrected yet."""
    last = (ChangeKind.REC_DONE, ChangeKind.TENTATIVE)
    kinds = (h.change.kind for h in reversed(heard) if h.change.kind in last)
    return next(kinds, ChangeKind.REC_DONE) is ChangeKind.TENTATIVE


def rows_of(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """The tuples of some changes, in their order."""
    return [row for c in changes if c.batch is not None for row in c.batch.to_pylist()]


def news(heard: Iterable[Heard]) -> list[float]:
    """The times at which each newer bucket first arrived, stable or tentative."""
    newest, moments = -1, []
    for h in list(heard):
        if (
            h.change.kind in (ChangeKind.INSERTION, ChangeKind.TENTATIVE)
            and h.change.bucket > newest
        ):
            newest = h.change.bucket
            moments.append(h.at)
    return moments


def lateness(heard: Iterable[Heard], diagram: Diagram) -> list[float]:
    """The delay from each bucket's end to its first arrival, including the clocks' offset."""
    newest, found = -1, []
    for h in heard:
        if (
            h.change.kind in (ChangeKind.INSERTION, ChangeKind.TENTATIVE)
            and h.change.bucket > newest
        ):
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
class Comparison:
    """The difference between the received and the expected tuples."""

    expected: int
    got: int
    lost: int
    duplicated: int
    equal: bool
    """Whether it is the same sequence, tuple for tuple."""


def judge(
    expected: list[dict[str, Any]], got: list[dict[str, Any]], *, skipped: bool = False
) -> Comparison:
    """Compare two sequences of tuples by their ids and contents."""
    wanted, have = {row["_id"] for row in expected}, [row["_id"] for row in got]
    return Comparison(
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

    def table(self, stream: str) -> pa.Table:
        """One of them as a table."""
        found = list(self.logs[stream].values())
        return pa.Table.from_batches(found) if found else pa.table({})


def computed(diagram: Diagram, base: Path, upto: int) -> Computed:
    """All streams up to a bucket, from all tuples of all sources, which are read once more.

    What a user's function gives is taken from one undisturbed run on Spark.
    """
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
    functions = any(isinstance(operator, Spark) for operator in diagram.operators)
    ran = undisturbed(diagram, base, upto) if functions else {}
    for fragment in cut(diagram):
        for plan in fragment.plans:
            if any(isinstance(operator, Spark) for operator in plan.operators):
                schemas[plan.output], logs[plan.output] = ran[plan.output]
                continue
            engine = ReferenceEngine(plan, schemas, buckets)
            inputs = [list(logs[i].values()) for i in plan.inputs]
            _, made = engine.step(engine.initial, inputs, upto)
            schemas[plan.output] = engine.schema
            logs[plan.output] = {number: batch for number, batch in made if batch.num_rows}
    return Computed(schemas, logs)


def computed_at_once(diagram: Diagram, base: Path, stream: str, upto: int) -> pa.Table:
    """One of them as a table."""
    return computed(diagram, base, upto).table(stream)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that are unused now, and that no outgoing connection is given.

    A node that is restarted needs its port again.
    """
    taken: list[socket.socket] = []
    try:
        for port in random.sample(LISTENING_PORTS, len(LISTENING_PORTS)):
            if len(taken) == count:
                break
            probe = socket.socket()
            taken.append(probe)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                taken.pop().close()
        return [int(probe.getsockname()[1]) for probe in taken]
    finally:
        for probe in taken:
            probe.close()


@contextmanager
def _reserved(host: str, port: int) -> Iterator[None]:
    """Keep a port from other testbeds while its node is down.

    The system gives no other process a port that is bound here, and a node may still listen on it.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # an address of another network namespace
            probe.bind((host, port))
        yield
