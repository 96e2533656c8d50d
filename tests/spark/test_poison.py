"""Rows on which a user's function raises: left out by every replica alike, and told."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from australis.diagram import diagram_file
from australis.diagram.fragments import Plan, cut
from australis.kernel.errors import OperatorFailed
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import (
    ForkLane,
    RunStable,
    RunTentative,
    StableDone,
    TentativeDone,
)
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.spans import Span
from australis.runtime.node.lanes import LaneSettings
from australis.runtime.node.spark_lanes import SparkLanes
from australis.spark.analyse import analyse
from australis.streams.schema import TIMESTAMP
from australis.streams.source import SourceStream

pytestmark = pytest.mark.timeout(300)

HERE = Path(__file__).parent
FIRST = 1_767_312_000
"""The number of the first bucket: one second each."""
ROWS, BUCKETS = 20, 4
DIAGRAM = """
diagram: poisoned
bucket: 1 s
sources:
  a: {push: true, time: t, schema: "t timestamp, k int, v int"}
operators:
  out: {spark: a, function: "poisonous.py:FUNCTION"}
"""


def log_of_source(diagram: Any) -> dict[int, pa.RecordBatch]:
    source = diagram.sources[0]
    stream = SourceStream(source.schema, diagram.buckets)
    at = [FIRST * 1_000_000 + i * (1_000_000 // ROWS) + 1 for i in range(ROWS * BUCKETS)]
    columns = {
        "_stime": pa.array(at, TIMESTAMP),
        "t": pa.array(at, TIMESTAMP),
        "k": pa.array([i % 3 for i in range(len(at))], pa.int32()),
        "v": pa.array(range(len(at)), pa.int32()),
    }
    stream.offer(pa.RecordBatch.from_pydict(columns, stream.row_schema))
    step = stream.end()
    assert step is not None
    return dict(step.buckets)


class Lane:
    """The lanes of one plan, driven by hand."""

    def __init__(
        self, spark: SparkSession, text: str, directory: Path, *, warm: bool = False
    ) -> None:
        self.spark, self.directory, self.warm = spark, directory, warm
        self.diagram = diagram_file.load(text, "poisoned.yaml")
        self.plan: Plan = cut(self.diagram)[-1].plans[-1]
        self.schemas = analyse(spark, self.diagram, HERE)
        self.log = log_of_source(self.diagram)
        self.told: list[Event] = []
        self.events: list[dict[str, Any]] = []
        self.errors: list[BaseException] = []
        self.first = min(self.log) - 1

    def open(self) -> None:
        self.lanes = SparkLanes(
            {"out": self.plan},
            self.schemas,
            self.diagram.buckets,
            self.directory,
            lambda: self.spark,
            HERE,
            self.errors.append,
            lambda machine, stream: None,
            LaneSettings(warm=self.warm, tell=self._tell),
        )
        self.lanes.restore("out", self.first)
        self.lanes.start(self.told.append)

    def _tell(self, event: str, **fields: Any) -> None:
        self.events.append({"event": event, **fields})

    def span(self, after: int, upto: int) -> Span:
        return Span(
            after, upto, tuple(Bucket(n, 0, self.log.get(n)) for n in range(after + 1, upto + 1))
        )

    def run(self, after: int, upto: int) -> None:
        after, upto = self.first + after, self.first + upto
        self.lanes.run_stable(RunStable("out", after, upto, after, ((self.span(after, upto),),)))
        self.until(
            lambda: any(isinstance(e, StableDone) and min(e.upto, e.end) >= upto for e in self.told)
        )

    def until(self, what: Any) -> None:
        deadline = time.monotonic() + 120
        while not what():
            if self.errors:
                raise self.errors[0]
            assert time.monotonic() < deadline, (self.told[-3:], self.events)
            time.sleep(0.02)

    def out(self) -> dict[int, list[dict[str, Any]]]:
        found = self.lanes.log("out").read(self.first, self.first + BUCKETS)
        return {n: b.drop_columns(["_type"]).to_pylist() for n, b in found}

    def rejected(self) -> list[dict[str, Any]]:
        path = self.directory / "rejected" / "out.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def lanes() -> Iterator[list[Lane]]:
    made: list[Lane] = []
    yield made
    for one in made:
        one.lanes.close()


@pytest.mark.parametrize(
    ("function", "why"), [("halves", "cannot be halved"), ("strict", "cannot be halved")]
)
def test_poison_is_left_out_alike_however_batches_are_cut(
    spark: SparkSession, tmp_path: Path, lanes: list[Lane], function: str, why: str
) -> None:
    text = DIAGRAM.replace("FUNCTION", function)
    logs = []
    for name, steps in (("one by one", range(BUCKETS)), ("at once", (0,))):
        one = Lane(spark, text, tmp_path / name)
        lanes.append(one)
        one.open()
        for after in steps:
            one.run(after, after + 1 if len(steps) > 1 else BUCKETS)
        logs.append(one.out())
        refused = one.rejected()
        assert [line["row"]["v"] for line in refused] == [
            v for v in range(ROWS * BUCKETS) if v % 10 == 3
        ]
        assert all(why in line["why"] and line["stream"] == "a" for line in refused)
        assert one.lanes.rejected("out") == 8
        told = [e for e in one.events if e["event"] == "rows_rejected"]
        assert sum(e["rows"] for e in told) == 8
        assert told[0]["operators"] == ["out"]
        one.lanes.close()
    assert logs[0] == logs[1]
    assert sum(map(len, logs[0].values())) == sum(1 for v in range(ROWS * BUCKETS) if v % 10 != 3)


def test_poison_is_known_after_a_restart_and_on_tentative_lanes(
    spark: SparkSession, tmp_path: Path, lanes: list[Lane]
) -> None:
    text = DIAGRAM.replace("FUNCTION", "halves")
    one = Lane(spark, text, tmp_path / "state", warm=True)
    lanes.append(one)
    one.open()
    one.run(0, 2)
    assert len(one.rejected()) == 4
    one.lanes.fork(ForkLane("out", 1))
    at = one.first + 3
    one.lanes.run_tentative(RunTentative("out", 1, at, 0, ((one.span(at - 1, at),),)))
    one.until(lambda: any(isinstance(e, TentativeDone) for e in one.told))
    (done,) = [e for e in one.told if isinstance(e, TentativeDone)]
    assert done.batch is not None
    assert done.batch.num_rows == ROWS - 2
    assert len(one.rejected()) == 4, "what only a tentative lane has met is not written"
    one.lanes.close()
    one.told.clear()
    one.events.clear()
    one.open()
    one.run(2, 3)
    assert len(one.rejected()) == 6
    whole = one.out()
    assert [len(whole[one.first + n]) for n in (1, 2, 3)] == [ROWS - 2] * 3


@pytest.mark.parametrize(
    ("function", "why"), [("of_batches", "several at once"), ("broken", "broken")]
)
def test_a_function_for_whose_failure_no_row_is_to_blame_stops_its_lane(
    spark: SparkSession, tmp_path: Path, lanes: list[Lane], function: str, why: str
) -> None:
    text = DIAGRAM.replace("FUNCTION", function)
    one = Lane(spark, text, tmp_path / "state")
    lanes.append(one)
    one.open()
    with pytest.raises(OperatorFailed, match=why):
        one.run(0, 2)
    assert not (tmp_path / "state" / "rejected" / "out.jsonl").exists()
