"""The lanes of a node on Spark: what the machines ask of them, and what a crash leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from australis.diagram import diagram_file
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.errors import Stopped
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import (
    Checkpoint,
    Checkpointed,
    DropLane,
    ForkLane,
    RestoredLog,
    RunStable,
    RunTentative,
    SkipAhead,
    SkippedAhead,
    StableDone,
    TentativeDone,
)
from australis.protocols.dpc.messages import Bucket, LogDigest
from australis.protocols.dpc.spans import Span, Spans
from australis.runtime.node import spark_lanes, stalls
from australis.runtime.node.lanes import LaneSettings
from australis.runtime.node.spark_lanes import SparkLanes
from australis.runtime.testbed import Computed, computed

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 120
DIAGRAM = """
diagram: lanes
bucket: 500 ms
sources:
  s1: {generate: connections, rate: 60, duration: 120 s, seed: 7, start: "2026-01-02T00:00:00Z"}
operators:
  counts:
    aggregate: s1
    window: 1 s
    by: [protocol]
    compute: {n: count(*)}
"""
BASE = 2 * 1_767_312_000 - 1
"""The last bucket before its first tuple."""
KNOWN = 120
EMPTY = RestoredLog("counts", BASE, BASE, BASE, digest=LogDigest(BASE, BASE, 0))


@pytest.fixture(scope="module")
def diagram() -> Diagram:
    return diagram_file.load(DIAGRAM, "lanes.yaml")


@pytest.fixture(scope="module")
def known(diagram: Diagram) -> Computed:
    return computed(diagram, Path(), BASE + KNOWN)


def no_log(machine: str, stream: str) -> Any:
    raise AssertionError(f"no log of {stream} at {machine}")


def is_done(told: list[Event], upto: int) -> bool:
    """Whether the stable lane has processed everything up to a bucket."""
    return any(isinstance(e, StableDone) and (e.upto, e.end) == (upto, upto) for e in told)


@dataclass
class Lanes:
    """The lanes of one node; its output is fed and listened to by hand."""

    spark: SparkSession
    diagram: Diagram
    known: Computed
    directory: Path
    warm: bool = True
    told: list[Event] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, event: str, **fields: Any) -> None:
        self.events.append({"event": event, **fields})

    def open(self) -> RestoredLog:
        self.told.clear()
        ((plan,),) = (fragment.plans for fragment in cut(self.diagram))
        self.lanes = SparkLanes(
            {"counts": plan},
            self.known.schemas,
            self.diagram.buckets,
            self.directory,
            lambda: self.spark,
            Path(),
            self.errors.append,
            no_log,
            LaneSettings(warm=self.warm, tell=self.tell),
        )
        restored = self.lanes.restore("counts", BASE)
        self.lanes.start(self.told.append)
        return restored

    def until(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not what():
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, self.told[-5:]
            time.sleep(0.02)

    def inputs(self, after: int, upto: int) -> tuple[Spans, ...]:
        log = self.known.logs["s1"]
        listed = tuple(Bucket(n, 0, log.get(n)) for n in range(after + 1, upto + 1))
        return ((Span(after, upto, listed),),)

    def ask(self, after: int, upto: int) -> None:
        inputs = self.inputs(after, upto)
        self.lanes.run_stable(RunStable("counts", after, upto, after, inputs))

    def run(self, after: int, upto: int) -> None:
        self.ask(after, upto)
        self.until(lambda: is_done(self.told, upto))

    def logged(self, after: int, upto: int) -> list[pa.RecordBatch]:
        return [batch for _, batch in self.lanes.log("counts").read(after, upto)]

    def wanted(self, after: int, upto: int) -> list[pa.RecordBatch]:
        log = self.known.logs["counts"]
        return [log[n] for n in sorted(log) if after < n <= upto]


@pytest.fixture
def make(
    spark: SparkSession, diagram: Diagram, known: Computed, tmp_path: Path
) -> Iterator[Callable[..., Lanes]]:
    made: list[Lanes] = []

    def make(name: str, warm: bool = True) -> Lanes:
        made.append(Lanes(spark, diagram, known, tmp_path / name, warm))
        return made[-1]

    yield make
    for one in made:
        one.lanes.close()


def test_stable_tentative_and_stable_again(make: Callable[..., Lanes]) -> None:
    one = make("a")
    assert one.open() == EMPTY
    one.run(BASE, BASE + 10)
    assert one.logged(BASE, BASE + 10) == one.wanted(BASE, BASE + 10) != []

    one.lanes.fork(ForkLane("counts", 1))
    for number in (BASE + 11, BASE + 12):
        asked = RunTentative("counts", 1, number, 0)
        one.lanes.run_tentative(replace(asked, inputs=one.inputs(number - 1, number)))
    said = [BASE + 11, BASE + 12]
    one.until(lambda: [e.bucket for e in one.told if isinstance(e, TentativeDone)] == said)
    told = [e.batch for e in one.told if isinstance(e, TentativeDone) and e.batch is not None]
    assert told == one.wanted(BASE + 10, BASE + 12) != [], "all inputs were there"
    one.lanes.drop(DropLane("counts", 1))

    one.run(BASE + 10, BASE + 20)
    one.lanes.close()
    restored = one.open()
    assert (restored.upto, restored.end) == (BASE + 20, BASE + 20)
    one.run(BASE + 20, BASE + 24)
    assert one.logged(BASE, BASE + 24) == one.wanted(BASE, BASE + 24)


def test_a_first_batch_without_buckets_is_no_progress(make: Callable[..., Lanes]) -> None:
    one = make("a", warm=False)
    one.open()
    one.until(one.directory.joinpath("checkpoints", "counts", "offsets", "0").exists)
    one.run(BASE, BASE + 10)  # asked while Spark runs a first batch without any
    assert all(e.upto > BASE for e in one.told if isinstance(e, StableDone)), one.told


def test_a_fresh_warm_query_has_its_first_batch_behind_it(make: Callable[..., Lanes]) -> None:
    """The first takes longer than others, and a fork may be needed at any moment."""
    one = make("a")
    one.open()
    one.run(BASE, BASE + 4)
    output = one.lanes._outputs["counts"]
    one.until(lambda: output.warm is not None)
    assert output.warm is not None
    assert output.warm.at == BASE + 4
    one.run(BASE + 4, BASE + 5)
    one.until(lambda: output.warm is not None and output.warm.at == BASE + 5)
    one.run(BASE + 5, BASE + 6)
    assert output.warm.at == BASE + 5, "after that it is let go on now and then only"


def test_a_lane_that_never_rests_is_checkpointed_and_copied(
    make: Callable[..., Lanes], tmp_path: Path
) -> None:
    one, other = make("a"), make("b", warm=False)
    one.open()
    one.run(BASE, BASE + 4)
    upto = BASE + 4

    def go_on() -> None:
        """As a machine does that has the next buckets already."""
        nonlocal upto
        if upto < BASE + KNOWN and is_done(one.told, upto):
            one.lanes.checkpoint(Checkpoint("counts"))
            one.ask(upto, upto + 2)
            upto += 2

    report = one.told.append

    def told(event: Event) -> None:
        report(event)
        go_on()

    one.lanes._report = told
    go_on()
    one.until(lambda: any(isinstance(e, Checkpointed) for e in one.told))
    one.until(lambda: one.lanes._outputs["counts"].warm is not None)
    files = tmp_path / "snapshot"
    covered = one.lanes.snapshot("counts", files)
    one.lanes._report = report
    assert covered >= BASE + 4
    one.lanes.close()  # both are in one session here

    assert other.open().upto == BASE
    assert other.lanes.install("counts", covered, files) == BASE
    other.run(covered, covered + 6)
    assert other.logged(BASE, covered + 6) == one.wanted(BASE, covered + 6)


class Failed:
    """A query that Spark has ended."""

    def __init__(self, why: str) -> None:
        self._why = why

    def exception(self) -> Exception:
        return Exception(self._why)

    @property
    def _jsq(self) -> Any:
        """Spark's own query, whose error has no kind here."""
        return SimpleNamespace(exception=lambda: SimpleNamespace(get=lambda: None))


def test_a_lane_goes_on_when_the_machine_was_too_busy(make: Callable[..., Lanes]) -> None:
    one = make("a", warm=False)
    one.open()
    one.run(BASE, BASE + 4)
    lane = one.lanes._outputs["counts"].stable.lane
    assert lane is not None
    lane.query.stop()
    lane.query = Failed("SparkException: Python worker failed to connect back.")  # type: ignore[assignment]
    one.run(BASE + 4, BASE + 8)
    assert one.logged(BASE, BASE + 8) == one.wanted(BASE, BASE + 8)
    assert [event["event"] for event in one.events] == ["lane_restarted"]
    lane.query.stop()
    lane.query = Failed("Exception: no more space")  # type: ignore[assignment]
    with pytest.raises(Stopped, match="no more space"):
        lane.check(BASE + 8)


def test_a_lane_that_is_far_behind_keeps_no_other_warm(
    make: Callable[..., Lanes], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make("a")
    one.open()
    kept = one.lanes._outputs["counts"]
    one.run(BASE, BASE + 4)
    one.until(lambda: kept.warm is not None and kept.warm.lane is not None)
    monkeypatch.setattr(spark_lanes, "CATCHING_UP_ROWS", 200)
    one.run(BASE + 4, BASE + 14)
    assert kept.warm is None
    one.run(BASE + 14, BASE + 16)
    one.until(lambda: kept.warm is not None)
    assert one.logged(BASE, BASE + 16) == one.wanted(BASE, BASE + 16)


def test_a_lane_that_makes_no_progress_is_told_of(
    make: Callable[..., Lanes], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make("a", warm=False)
    one.open()
    one.run(BASE, BASE + 4)
    monkeypatch.setattr(stalls, "STALLED_AFTER_S", 1.0)
    stable = one.lanes._outputs["counts"].stable
    stable.held = True
    one.until(lambda: one.lanes._outputs["counts"].job is None)
    time.sleep(1.5)
    assert one.events == [], "it has no work"
    one.ask(BASE + 4, BASE + 8)
    one.until(lambda: one.lanes.stalled_s("counts") is not None)
    one.until(lambda: one.events != [])
    (told,) = one.events
    assert (told["event"], told["replica"], told["output"]) == ("stalled", "a", "counts")
    assert (told["upto"], told["asked"], told["level"]) == (BASE + 4, BASE + 8, "warning")
    stable.held = False
    one.until(lambda: is_done(one.told, BASE + 8))
    one.until(lambda: len(one.events) == 2)
    assert one.events[1]["event"] == "stall_ended"
    assert one.events[1]["seconds"] >= 1.0
    assert one.lanes.stalled_s("counts") is None


def test_half_of_a_snapshot_is_none(make: Callable[..., Lanes]) -> None:
    one = make("a", warm=False)
    one.open()
    one.run(BASE, BASE + 6)
    one.lanes.close()
    checkpoint = one.directory / "checkpoints" / "counts"
    (checkpoint / "offsets" / "0").unlink()
    checkpoint.with_name("counts.installing").touch()
    assert one.open() == EMPTY, "as if the disk were empty"
    assert not checkpoint.with_name("counts.installing").exists()
    one.run(BASE, BASE + 6)
    assert one.logged(BASE, BASE + 6) == one.wanted(BASE, BASE + 6)


@pytest.mark.parametrize("before", [0, 4])
def test_a_lane_begins_behind_what_is_gone(make: Callable[..., Lanes], before: int) -> None:
    """It has an empty state, and its log begins where that is right; a crash changes nothing."""
    one = make("a", warm=False)
    one.open()
    if before:
        one.run(BASE, BASE + before)
    after, right = BASE + 31, BASE + 34  # in the middle of a window
    one.lanes.skip(SkipAhead("counts", after, right))
    one.until(lambda: SkippedAhead("counts") in one.told)
    one.lanes.close()
    restored = one.open()
    assert (restored.upto, restored.trimmed_upto, restored.end) == (after, right, right)
    assert restored.digest == LogDigest(right, right, 0)
    one.ask(after, after + 2)
    one.until(lambda: any(isinstance(e, StableDone) for e in one.told))
    assert one.told == [StableDone("counts", after + 2, right)]
    one.lanes.close()
    restored = one.open()
    assert restored.end == right
    one.run(restored.upto, after + 12)
    assert one.logged(right, after + 12) == one.wanted(right, after + 12) != []


def test_a_fork_before_the_first_batch(make: Callable[..., Lanes]) -> None:
    one = make("a", warm=False)
    one.open()
    one.ask(BASE, BASE + 4)
    one.lanes.fork(ForkLane("counts", 1))
    for number in range(BASE + 5, BASE + 9):
        asked = RunTentative("counts", 1, number, 0)
        one.lanes.run_tentative(replace(asked, inputs=one.inputs(number - 1, number)))
    one.until(lambda: sum(isinstance(e, TentativeDone) for e in one.told) == 4)
    one.until(lambda: is_done(one.told, BASE + 4))
    one.lanes.drop(DropLane("counts", 1))
    one.run(BASE + 4, BASE + 8)
    assert one.logged(BASE, BASE + 8) == one.wanted(BASE, BASE + 8)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _number(path: Path) -> int:
    """The micro-batch or the version of a file of a checkpoint; 0 if it has none."""
    number = path.stem.partition("_")[0]
    return int(number) if number.isdigit() else 0


@pytest.mark.parametrize("what", ["state/0/*/*.changelog", "commits/*", "offsets/*", "metadata"])
def test_a_damaged_checkpoint_is_set_aside_before_spark_reads_it(
    make: Callable[..., Lanes], what: str
) -> None:
    one = make("a", warm=False)
    one.open()
    for upto in range(BASE + 4, BASE + 13, 4):
        one.run(upto - 4, upto)
    one.lanes.close()
    checkpoint = one.directory / "checkpoints" / "counts"
    assert (checkpoint / "manifest").exists()
    committed = max(map(_number, (checkpoint / "commits").glob("[0-9]*")))
    # Behind the version that the last commit has, a repeated micro-batch writes its state anew.
    newest = max((p for p in checkpoint.glob(what) if _number(p) <= committed + 1), key=_number)
    _flip(newest)
    assert one.open() == EMPTY
    assert (one.directory / "damaged" / "counts" / "checkpoints" / "metadata").exists()
    one.run(BASE, BASE + 12)
    assert one.logged(BASE, BASE + 12) == one.wanted(BASE, BASE + 12)


def test_a_lane_goes_on_from_a_whole_checkpoint_that_was_checked(
    make: Callable[..., Lanes],
) -> None:
    one = make("a", warm=False)
    one.open()
    one.run(BASE, BASE + 8)
    one.lanes.close()
    assert one.open().upto == BASE + 8
    one.run(BASE + 8, BASE + 12)
    assert one.logged(BASE, BASE + 12) == one.wanted(BASE, BASE + 12)
