"""Both worlds supply the same ports: one body of tests for simulated and live logs and engines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Protocol

import pyarrow as pa
import pytest
from streams.sim_disk import SimDisk

from australis.diagram.build import DiagramBuilder
from australis.diagram.fragments import Plan, cut
from australis.kernel.machine import Event
from australis.node.ports import EnginePort, LogPort, SourcePort
from australis.protocols.dpc.effects import (
    BucketClosed,
    Checkpoint,
    Checkpointed,
    DropLane,
    ForkLane,
    InstallSnapshot,
    LimitSource,
    RestoredLog,
    RunStable,
    RunTentative,
    ShipSnapshot,
    SkipAhead,
    SkippedAhead,
    SnapshotInstalled,
    StableDone,
    TentativeDone,
)
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.options import DpcOptions, LogBounds
from australis.protocols.dpc.proxies import SourceMachine
from australis.protocols.dpc.spans import Span, StableBuckets
from australis.runtime.files import FileDisk
from australis.runtime.logs import SharedLog
from australis.runtime.node import snapshots
from australis.runtime.node.engine import LiveEngine
from australis.runtime.node.exchange import SnapshotExchange
from australis.runtime.node.feed import SourceFeed
from australis.runtime.node.lane_work import LaneWork
from australis.runtime.node.lanes import LaneSettings
from australis.runtime.node.reference_lanes import ReferenceLanes
from australis.sim.dpc.engine import PlanEngine, SharedEngine
from australis.sim.dpc.hosts import Costs, ReplicaHost, SourceHost
from australis.sim.dpc.probes import Probe
from australis.sim.dpc.store import SimLog
from australis.sim.network import Network
from australis.sim.world import Clock, World
from australis.streams.buckets import Buckets
from australis.streams.schema import TIMESTAMP, Schema, parse_schema

pytestmark = pytest.mark.unit

BUCKETS = Buckets(500_000)
SCHEMA = parse_schema("v int")
OUT = parse_schema("n bigint, total bigint")
LIMIT_S = 20


def plan() -> Plan:
    """Counts over two buckets, so that there is a state to keep, to fork and to restore."""
    d = DiagramBuilder("d", bucket="500 ms")
    s = d.source("s", push=True, schema="v int")
    d.aggregate("out", s, window="1 s", compute={"n": "count(*)", "total": "sum(v)"})
    return cut(d.done())[0].plans[0]


def batch(number: int, schema: Schema = SCHEMA) -> pa.RecordBatch:
    """Two tuples of a bucket."""
    stimes = [BUCKETS.end(number) - 20, BUCKETS.end(number) - 10]
    header = [
        pa.array([0, 0], pa.int8()),
        pa.array([number << 24, (number << 24) + 1], pa.int64()),
        pa.array(stimes, TIMESTAMP),
    ]
    values = [pa.array([number, 1], field.arrow) for field in schema]
    return pa.RecordBatch.from_arrays([*header, *values], schema=schema.arrow)


def spans(after: int, upto: int, missing: tuple[int, ...] = ()) -> tuple[tuple[Span, ...]]:
    """What the only input has in these buckets; the missing ones are not listed."""
    held = StableBuckets(after)
    numbers = [n for n in range(after + 1, upto + 1) if n not in missing or n == upto]
    held.add([Bucket(n, 7, None if n in missing else batch(n)) for n in numbers], upto)
    return (held.between(after, upto),)


# --- logs ----------------------------------------------------------------------------------------


def sim_log() -> tuple[LogPort, Callable[[list[Bucket]], None]]:
    log = SimLog()

    def append(buckets: list[Bucket]) -> None:
        log.append(buckets)
        log.sync()

    return log, append


def live_log() -> tuple[LogPort, Callable[[list[Bucket]], None]]:
    log = SharedLog(SimDisk(), SCHEMA, BUCKETS)

    def append(buckets: list[Bucket]) -> None:
        log.note_entries(buckets[0].number - 1, [(b.number, b.entered_us) for b in buckets])
        there = [(b.number, b.batch) for b in buckets if b.batch is not None]
        log.append(there, BUCKETS.end(buckets[-1].number))

    return log, append


@pytest.mark.parametrize("make", [sim_log, live_log])
def test_a_log_lists_what_differs_and_the_last_bucket(make: Any) -> None:
    log, append = make()
    append([Bucket(0, 10, batch(0)), Bucket(1, 20), Bucket(2, 30, batch(2)), Bucket(3, 30)])
    for after, upto in [(-1, 3), (0, 2), (1, 1), (-1, 0)]:
        whole = StableBuckets(after)
        whole.add(tuple(log.listed(after, upto)), upto)
        assert [whole.get(n).entered_us for n in range(after + 1, upto + 1)] == [
            (10, 20, 30, 30)[n] for n in range(after + 1, upto + 1)
        ]
        found = {n: b.batch for n in range(after + 1, upto + 1) if (b := whole.get(n)).batch}
        assert found == {n: batch(n) for n in (0, 2) if after < n <= upto}
        bare = StableBuckets(after)
        bare.add(tuple(log.entry_times(after, upto)), upto)
        for n in range(after + 1, upto + 1):
            found = bare.get(n)
            assert (found.entered_us, found.batch) == (whole.get(n).entered_us, None)


@pytest.mark.parametrize("make", [sim_log, live_log])
def test_a_log_forgets_from_its_beginning(make: Any) -> None:
    log, append = make()
    append([Bucket(n, 10, batch(n)) for n in range(6)])
    log.truncate(2)
    assert [b.number for b in log.listed(2, 5)] == [3, 4, 5]
    log.truncate(1)
    assert [b.batch.num_rows for b in log.listed(2, 5)] == [2, 2, 2]


# --- engines --------------------------------------------------------------------------------------


class Rig(Protocol):
    """An engine, what it has reported, and a crash that leaves what was durable."""

    engine: EnginePort
    told: list[Event]

    def until(self, what: Callable[[], bool]) -> None: ...
    def crash(self) -> RestoredLog: ...
    def fetch_from(self, other: Any, monkeypatch: pytest.MonkeyPatch) -> None: ...
    def close(self) -> None: ...


class SimRig:
    """The engine port of a simulated replica."""

    def __init__(self, directory: Path) -> None:
        self.told: list[Event] = []
        told = self.told

        class Listening(ReplicaHost):
            def take(self, event: Event) -> None:
                told.append(event)

        self.world = World(Network(Random(1)))
        engine = PlanEngine(plan(), {"s": SCHEMA}, BUCKETS)
        self.engine = self.host = Listening(
            self.world, "r", Clock(), Probe([]), lambda: None, {"out": SharedEngine(engine)},
            Costs(), Random(2),
        )  # fmt: skip
        self._begin()

    def _begin(self) -> None:
        host = self.host
        host._states = {s: store.state for s, store in host.stores.items()}
        host._committed = {s: (store.state, store.upto) for s, store in host.stores.items()}

    def until(self, what: Callable[[], bool]) -> None:
        deadline = self.world.now + LIMIT_S * 1_000_000
        while not what():
            assert self.world.now < deadline, self.told
            self.world.run(self.world.now + 1_000)

    def crash(self) -> RestoredLog:
        self.host.incarnation += 1
        self.host._working = False
        for store in self.host.stores.values():
            store.log.crash(Random(3))
        self._begin()
        return self.host.stores["out"].restored("out")

    def fetch_from(self, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Do nothing: here a message holds the checkpoint itself."""

    def close(self) -> None: ...


class LiveRig:
    """The engine port of a node with the reference engine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.told: list[Event] = []
        self.errors: list[BaseException] = []
        self._open()

    def _open(self) -> RestoredLog:
        known = {"s": SCHEMA, "out": OUT}
        lanes = ReferenceLanes(
            {"out": plan()}, known, BUCKETS, self.directory, self.errors.append,
            lambda machine, stream: SharedLog(FileDisk(self.directory), SCHEMA, BUCKETS),
            LaneSettings(),
        )  # fmt: skip
        restored = lanes.restore("out", -1)
        driver: Any = SimpleNamespace(entry="", about=dict, post=self._post)
        nowhere: Any = None
        exchange = SnapshotExchange(
            "b", self.directory / "fetched", nowhere, {"r": "a"}, lambda node: nullcontext(nowhere),
            driver, lambda event, **fields: None, self.errors.append,
        )  # fmt: skip
        self.engine = LiveEngine(
            "r", lanes, LaneWork(["out"]), self._post, exchange.install, lambda stream: LogBounds()
        )
        exchange.engines["r"] = self.engine
        self.engine.start()
        return restored

    def until(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not what():
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, self.told
            time.sleep(0.001)

    def _post(self, machine: str, event: Event, cause: str = "") -> None:
        self.told.append(event)

    def crash(self) -> RestoredLog:
        self.close()
        return self._open()

    def fetch_from(self, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the files of a snapshot written by the other engine, without a network."""

        def fetch(_client: Any, _peer: str, stream: str, files: Path, _timeout_s: float) -> int:
            files.mkdir(parents=True)
            upto: int = other.engine.lanes.snapshot(stream, files)
            return upto

        monkeypatch.setattr(snapshots, "fetch", fetch)

    def close(self) -> None:
        self.engine.lanes.close()


@pytest.fixture(params=[SimRig, LiveRig], ids=["sim", "live"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    made = request.param(tmp_path)
    yield made
    made.close()


def logged(rig: Rig, upto: int) -> dict[int, list[dict[str, Any]]]:
    listed = rig.engine.log("out").listed(-1, upto)
    return {b.number: b.batch.to_pylist() for b in listed if b.batch is not None}


def of_stable(rig: Rig) -> list[tuple[str, int, int]]:
    """What its stable lane has done, without the digests."""
    return [(e.output, e.upto, e.end) for e in rig.told if isinstance(e, StableDone)]


def run(rig: Rig, after: int, upto: int, keep_after: int | None = None, **has: Any) -> None:
    kept = after if keep_after is None else keep_after
    job = RunStable("out", after, upto, kept, spans(after, upto, **has))
    rig.engine.log("out").note_entries(after, [(upto, 7)])
    rig.engine.run_stable(job)
    done = ("out", upto, max(upto, kept))
    rig.until(lambda: done in of_stable(rig))


def test_how_work_is_cut_makes_no_difference(rig: Rig, tmp_path: Path) -> None:
    run(rig, -1, 9, missing=(3, 4, 5))
    at_once = logged(rig, 9)
    assert sum(row["n"] for rows in at_once.values() for row in rows) == 14
    other = type(rig)(tmp_path / "other")  # type: ignore[call-arg]
    for after, upto in [(-1, 0), (0, 4), (4, 5), (5, 9)]:
        missing = tuple(n for n in (3, 4, 5) if after < n <= upto)
        run(other, after, upto, missing=missing)
    assert logged(other, 9) == at_once
    other.close()


def test_a_crash_leaves_the_checkpoint_and_the_log_is_not_written_twice(rig: Rig) -> None:
    run(rig, -1, 3)
    rig.engine.checkpoint(Checkpoint("out"))
    rig.until(lambda: Checkpointed("out", 3) in rig.told)
    run(rig, 3, 7)
    before = logged(rig, 7)
    restored = rig.crash()
    assert (restored.upto, restored.end) == (3, 7)
    rig.told.clear()
    run(rig, 3, 9, keep_after=7)
    assert {n: rows for n, rows in logged(rig, 9).items() if n <= 7} == before
    assert sum(row["n"] for rows in logged(rig, 9).values() for row in rows) == 20


def test_a_tentative_lane_begins_where_the_stable_one_stands_and_leaves_it_alone(rig: Rig) -> None:
    run(rig, -1, 4)
    rig.engine.fork(ForkLane("out", 1))
    for number, inputs in [(5, spans(4, 5)), (6, ((),)), (7, spans(6, 7))]:
        rig.engine.run_tentative(RunTentative("out", 1, number, 40 + number, inputs))
    rig.until(lambda: sum(isinstance(e, TentativeDone) for e in rig.told) == 3)
    said = {e.bucket: e for e in rig.told if isinstance(e, TentativeDone)}
    assert [(e.epoch, e.entered_us) for e in said.values()] == [(1, 45), (1, 46), (1, 47)]
    run(rig, 4, 7)
    stable = logged(rig, 7)
    assert said[5].batch.to_pylist()[0]["n"] == stable[5][0]["n"] == 4
    assert said[7].batch.to_pylist()[0]["n"] == 2, "what was missing is not counted"
    assert stable[7][0]["n"] == 4, "the stable lane knows nothing of that"


def test_a_lane_that_was_dropped_says_nothing_more(rig: Rig) -> None:
    run(rig, -1, 1)
    rig.engine.fork(ForkLane("out", 1))
    rig.engine.drop(DropLane("out", 1))
    rig.engine.run_tentative(RunTentative("out", 1, 2, 0, spans(1, 2)))
    rig.engine.fork(ForkLane("out", 2))
    rig.engine.run_tentative(RunTentative("out", 2, 2, 0, spans(1, 2)))
    rig.until(lambda: any(isinstance(e, TentativeDone) for e in rig.told))
    assert [e.epoch for e in rig.told if isinstance(e, TentativeDone)] == [2]


def test_a_lane_that_skips_ahead_has_an_empty_state_and_a_log_that_begins_later(rig: Rig) -> None:
    run(rig, -1, 3)
    rig.engine.skip_ahead(SkipAhead("out", 9, 10))
    rig.until(lambda: SkippedAhead("out") in rig.told)
    run(rig, 9, 13, keep_after=10)
    listed = rig.engine.log("out").listed(10, 13)
    counts = {b.number: b.batch.to_pylist()[0]["n"] for b in listed if b.batch is not None}
    assert counts == {11: 4, 13: 4}, "the windows of the buckets 10 and 11, and 12 and 13"
    restored = rig.crash()
    assert (restored.upto, restored.trimmed_upto, restored.end) == (9, 10, 13)


def test_a_replica_goes_on_from_the_checkpoint_and_the_log_of_another(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(rig, -1, 4)
    rig.engine.checkpoint(Checkpoint("out"))
    rig.until(lambda: Checkpointed("out", 4) in rig.told)
    run(rig, 4, 9)
    sent = rig.engine.shipment(ShipSnapshot("other", "out", 4, 99))
    assert (sent.stream, sent.upto, sent.at_us) == ("out", 4, 99)
    other = type(rig)(tmp_path / "other")  # type: ignore[call-arg]
    other.fetch_from(rig, monkeypatch)
    other.engine.install(InstallSnapshot("out", 4, 1_000, sent.state))
    other.until(lambda: any(isinstance(e, SnapshotInstalled) for e in other.told))
    (installed,) = [e for e in other.told if isinstance(e, SnapshotInstalled)]
    assert (installed.stream, installed.upto, installed.trimmed_upto) == ("out", 4, -1)
    assert installed.digest == rig.engine.log("out").digest(4)
    entered = StableBuckets(-1)
    entered.add(tuple(other.engine.log("out").entry_times(-1, 4)), 4)
    assert {entered.get(n).entered_us for n in range(5)} == {1_007}, "by its own clock"
    run(other, 4, 9)
    assert logged(other, 9) == logged(rig, 9)
    other.close()


# --- sources --------------------------------------------------------------------------------------


class SourceRig(Protocol):
    """A source, and what it has reported."""

    source: SourcePort
    told: list[Event]

    def wait(self, buckets: int) -> None: ...
    def close(self) -> None: ...


class SimSourceRig:
    """The source port of the simulated world."""

    def __init__(self, directory: Path) -> None:
        self.told: list[Event] = []
        told = self.told

        class Listening(SourceHost):
            def take(self, event: Event) -> None:
                told.append(event)
                super().take(event)

        self.world = World(Network(Random(1)))
        options = DpcOptions(bucket_us=BUCKETS.size_us)
        self.source = host = Listening(
            self.world, "s", Clock(), Probe([]), lambda: SourceMachine("s", ("c",), options),
            batch, Costs(), Random(2),
        )  # fmt: skip
        host.boot(BUCKETS.size_us)

    def wait(self, buckets: int) -> None:
        self.world.run(self.world.now + buckets * BUCKETS.size_us)

    def close(self) -> None: ...


class LiveSourceRig:
    """The source port of a node: generated rows, at fifty times their own speed."""

    speed = 50

    def __init__(self, directory: Path) -> None:
        self.told: list[Event] = []
        self.errors: list[BaseException] = []
        d = DiagramBuilder("d", bucket="500 ms")
        start_us = BUCKETS.size_us
        d.bsort("o", d.source("s", generate="connections", rate=100, speed=self.speed,
                              start="1970-01-01T00:00:00.500Z"))  # fmt: skip
        source = d.done().sources[0]
        now_us = time.time_ns() // 1000
        self.source = SourceFeed(
            *(source, SharedLog(SimDisk(), source.schema, BUCKETS)),
            SourceMachine("s", ("c",), DpcOptions(bucket_us=BUCKETS.size_us)),
            lambda name, event: self.told.append(event),
            self.errors.append,
            lambda: time.time_ns() // 1000,
            state=directory,
            base=directory,
            began=(now_us, start_us),
            room=lambda: True,
        )
        self.source.start()

    def wait(self, buckets: int) -> None:
        time.sleep(buckets * BUCKETS.size_us / 1e6 / self.speed)
        assert not self.errors, self.errors

    def close(self) -> None:
        self.source.stop()


@pytest.fixture(params=[SimSourceRig, LiveSourceRig], ids=["sim", "live"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SourceRig]:
    made = request.param(tmp_path)
    yield made
    made.close()


def closed(rig: SourceRig) -> list[int]:
    """The last bucket of each report."""
    return [e.upto for e in rig.told if isinstance(e, BucketClosed)]


def until_closed(rig: SourceRig, upto: int) -> None:
    for _ in range(2_000):
        if closed(rig)[-1:] >= [upto]:
            return
        rig.wait(1)
    pytest.fail(f"bucket {upto} is not closed: {closed(rig)}")


def test_a_source_reports_each_bucket_once_when_it_is_in_its_log(source: SourceRig) -> None:
    until_closed(source, 20)
    reported = closed(source)
    assert reported == sorted(set(reported))
    listed = list(source.source.log("s").listed(-1, reported[-1]))
    assert [b.number for b in listed] == sorted({b.number for b in listed})
    assert listed[-1].number == reported[-1]
    assert sum(b.batch is not None for b in listed) > 10


def test_a_source_closes_nothing_beyond_its_limit_until_it_is_raised(source: SourceRig) -> None:
    until_closed(source, 5)
    limit = closed(source)[-1]
    source.source.limit(LimitSource("s", limit))
    source.wait(20)
    held = closed(source)[-1]
    source.wait(40)
    assert closed(source)[-1] == held
    source.source.limit(LimitSource("s", held + 1_000))
    until_closed(source, held + 10)
