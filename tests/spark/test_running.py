"""A running diagram from Python: somebody else's session, iteration, and failures that arrive."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark.harness import LIMIT_S, START_US

import australis as au
from australis.kernel.errors import Stopped, UserError
from australis.runtime.run import Running
from australis.spark.lane import BUSY

SCHEMA = "t timestamp, v int"


def row(second: int, v: int) -> dict[str, object]:
    at = datetime.datetime.fromtimestamp(START_US / 1e6 + second, datetime.UTC)
    return {"t": at, "v": v}


@pytest.fixture
def theirs(spark: SparkSession) -> Iterator[SparkSession]:
    """A session as Spark makes it: ANSI mode, and the time zone of its machine."""
    settings = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "Asia/Tokyo"}
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        assert spark.conf.get(key) == settings[key], "a run must leave the user's settings alone"
        spark.conf.set(key, value)


def test_settings_of_the_users_session_do_not_matter(theirs: SparkSession, tmp_path: Path) -> None:
    d = au.diagram("settings")
    source = d.source("a", push=True, schema=SCHEMA, time="t")
    d.map("m", source, {"hour": "hour(t)", "ratio": "10 div v"})
    with Running(d.done(), tmp_path / "state", spark=theirs) as running:
        running.start()
        running.push("a", [row(1, 0), row(2, 5)])
        running.end("a")
        assert running.wait(LIMIT_S)
        got = running.table("m").to_pylist()
    hour = (START_US // 3_600_000_000) % 24
    assert [(r["hour"], r["ratio"]) for r in got] == [(hour, None), (hour, 2)]


def failing(frame: DataFrame) -> DataFrame:
    """Fails on rows that stand beside others, in the worker, where nobody checks beforehand."""

    def alone(parts):  # type: ignore[no-untyped-def]
        for part in parts:
            yield part if len(part) < 2 else 1 // 0

    return frame.select("_stime", F.expr("cast(v as int) as v")).mapInPandas(
        alone, "_stime timestamp, v int"
    )


def test_a_failure_reaches_whoever_waits(spark: SparkSession, tmp_path: Path) -> None:
    d = au.diagram("failing")
    source = d.source("a", push=True, schema=SCHEMA, time="t")
    d.spark("unlucky", source, function=failing)
    raised: list[BaseException] = []

    def iterate(running: Running) -> None:
        try:
            list(running.stream("unlucky"))
        except BaseException as error:
            raised.append(error)

    with Running(d.done(), tmp_path / "state", spark=spark) as running:
        running.start()
        reader = threading.Thread(target=iterate, args=(running,), daemon=True)
        reader.start()
        running.push("a", [row(1, 1), row(2, 13), row(60, 2), row(90, 3)])
        reader.join(LIMIT_S)
        assert not reader.is_alive(), "the iteration still waits for a lane that is dead"
        assert isinstance(raised[0], Stopped)
        assert "ZeroDivisionError" in str(raised[0])
        with pytest.raises(Stopped, match="unlucky"):
            running.push("a", [row(100, 1)])
        with pytest.raises(Stopped):
            running.wait(LIMIT_S)


def test_results_as_they_come(spark: SparkSession, tmp_path: Path) -> None:
    d = au.diagram("live")
    source = d.source("a", push=True, schema=SCHEMA, time="t")
    d.filter("odd", source, "v % 2 = 1")
    with Running(d.done(), tmp_path / "state", spark=spark) as running:
        running.start()
        results = iter(running.stream("odd"))
        running.push("a", [row(second, second) for second in range(10)])
        assert [next(results)["v"] for _ in range(4)] == [1, 3, 5, 7]
        running.end("a")
        assert [r["v"] for r in results] == [9]
        assert running.wait(LIMIT_S)
        with pytest.raises(UserError, match="not a result"):
            running.stream("a")
        with pytest.raises(UserError, match="ended"):
            running.push("a", [row(20, 1)])


class TooBusy:
    """A query as it is after one of Spark's Python processes has taken too long to start."""

    def exception(self) -> str:
        return f"Job aborted: {BUSY}."


def test_a_lane_is_started_again_when_the_machine_was_too_busy(
    spark: SparkSession, tmp_path: Path
) -> None:
    d = au.diagram("busy")
    source = d.source("a", push=True, schema=SCHEMA, time="t")
    d.filter("odd", source, "v % 2 = 1")
    with Running(d.done(), tmp_path / "state", spark=spark) as running:
        running.start()
        results = iter(running.stream("odd"))
        running.push("a", [row(second, second) for second in range(5)])
        assert next(results)["v"] == 1
        lane = running.lanes["odd"]
        lane.query.stop()
        lane.query = TooBusy()  # type: ignore[assignment]
        running.push("a", [row(second, second) for second in range(5, 10)])
        running.end("a")
        assert [r["v"] for r in results] == [3, 5, 7, 9]
        assert running.wait(LIMIT_S)
        assert not isinstance(lane.query, TooBusy)
