"""The lanes of a node on Spark: what the machines ask of them, and what a crash leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from australis.diagram import text
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.errors import Stopped
from australis.kernel.machine import Event
from australis.live.node import spark_lanes
from australis.live.node.spark_lanes import SparkLanes
from australis.live.trial import Computed, computed
from australis.protocols.dpc.effects import (
    Checkpointed,
    LaneRestored,
    RunStable,
    RunTentative,
    StableDone,
    TentativeDone,
)

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


@pytest.fixture(scope="module")
def diagram() -> Diagram:
    return text.load(DIAGRAM, "lanes.yaml")


@pytest.fixture(scope="module")
def known(diagram: Diagram) -> Computed:
    return computed(diagram, Path(), BASE + KNOWN)


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

    def open(self) -> LaneRestored:
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
            warm=self.warm,
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

    def inputs(self, after: int, upto: int) -> list[tuple[int, tuple[pa.RecordBatch | None, ...]]]:
        log = self.known.logs["s1"]
        return [(n, (log.get(n),)) for n in range(after + 1, upto + 1)]

    def ask(self, after: int, upto: int) -> None:
        self.lanes.run_stable(RunStable("counts", after, upto, after), self.inputs(after, upto))

    def run(self, after: int, upto: int) -> None:
        self.ask(after, upto)
        self.until(lambda: StableDone("counts", upto, upto) in self.told)

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
    assert one.open() == LaneRestored("counts", BASE, BASE, BASE)
    one.run(BASE, BASE + 10)
    assert one.logged(BASE, BASE + 10) == one.wanted(BASE, BASE + 10) != []

    one.lanes.fork("counts", 1)
    for number in (BASE + 11, BASE + 12):
        asked = RunTentative("counts", 1, number, 0)
        one.lanes.run_tentative(asked, one.inputs(number - 1, number))
    said = [BASE + 11, BASE + 12]
    one.until(lambda: [e.bucket for e in one.told if isinstance(e, TentativeDone)] == said)
    told = [e.batch for e in one.told if isinstance(e, TentativeDone) and e.batch is not None]
    assert told == one.wanted(BASE + 10, BASE + 12) != [], "all inputs were there"
    one.lanes.drop("counts", 1)

    one.run(BASE + 10, BASE + 20)
    one.lanes.close()
    restored = one.open()
    assert (restored.upto, restored.end) == (BASE + 20, BASE + 20)
    one.run(BASE + 20, BASE + 24)
    assert one.logged(BASE, BASE + 24) == one.wanted(BASE, BASE + 24)


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
        if upto < BASE + KNOWN and StableDone("counts", upto, upto) in one.told:
            one.lanes.checkpoint("counts")
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
    lane.query.stop()
    lane.query = Failed("Exception: no more space")  # type: ignore[assignment]
    with pytest.raises(Stopped, match="no more space"):
        lane.check()


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


def test_half_of_a_snapshot_is_none(make: Callable[..., Lanes]) -> None:
    one = make("a", warm=False)
    one.open()
    one.run(BASE, BASE + 6)
    one.lanes.close()
    checkpoint = one.directory / "checkpoints" / "counts"
    (checkpoint / "offsets" / "0").unlink()
    checkpoint.with_name("counts.installing").touch()
    assert one.open() == LaneRestored("counts", BASE, BASE, BASE), "as if the disk were empty"
    assert not checkpoint.with_name("counts.installing").exists()
    one.run(BASE, BASE + 6)
    assert one.logged(BASE, BASE + 6) == one.wanted(BASE, BASE + 6)


def test_a_fork_before_the_first_batch(make: Callable[..., Lanes]) -> None:
    one = make("a", warm=False)
    one.open()
    one.ask(BASE, BASE + 4)
    one.lanes.fork("counts", 1)
    for number in range(BASE + 5, BASE + 9):
        asked = RunTentative("counts", 1, number, 0)
        one.lanes.run_tentative(asked, one.inputs(number - 1, number))
    one.until(lambda: sum(isinstance(e, TentativeDone) for e in one.told) == 4)
    one.until(lambda: StableDone("counts", BASE + 4, BASE + 4) in one.told)
    one.lanes.drop("counts", 1)
    one.run(BASE + 4, BASE + 8)
    assert one.logged(BASE, BASE + 8) == one.wanted(BASE, BASE + 8)
