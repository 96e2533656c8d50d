"""Sinks on a node: what they take, write and acknowledge, and where they go on after a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from australis.kernel.errors import Damaged
from australis.kernel.ids import pack_id
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import Consumed, LogDamaged
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.proxies import Insertions, LoggedInsertions, Skipped, Tentatives
from australis.protocols.dpc.spans import Span
from australis.runtime.client import load_cluster
from australis.runtime.node.process import Node
from australis.runtime.node.sinks import SinkFollower
from australis.runtime.testbed import free_ports
from australis.streams.buckets import Buckets
from australis.streams.schema import parse_schema

LIMIT_S = 20
SCHEMA = parse_schema("v int").arrow


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def bucket(number: int, *values: int) -> Bucket:
    """A bucket with these tuples."""
    if not values:
        return Bucket(number, 0)
    rows = [
        {"_type": 0, "_id": pack_id(number, rank), "_stime": None, "v": v}
        for rank, v in enumerate(values)
    ]
    return Bucket(number, 0, pa.RecordBatch.from_pylist(rows, SCHEMA))


class Writer:
    """A sink in memory; what it has written is durable with a flush, if it is told so."""

    def __init__(self, position: int = -1, lazy: bool = False) -> None:
        self.position = self._last = position
        self.lazy = lazy
        self.values: list[int] = []
        self.closed = False

    def write(self, batch: pa.RecordBatch) -> None:
        self.values += batch.column("v").to_pylist()
        self._last = batch.column("_id")[-1].as_py()

    def flush(self) -> None:
        if not self.lazy:
            self.position = self._last

    def close(self) -> None:
        self.position, self.closed = self._last, True


class Followed:
    """A follower fed by hand."""

    def __init__(self, writer: Writer, log: Any = None) -> None:
        self.told: list[Event] = []
        self.damaged: list[tuple[str, str]] = []
        self._log = log
        self.errors: list[BaseException] = []
        self.events: list[str] = []
        self.follower = SinkFollower(
            "sink x", "s", writer, Buckets(), self._no_log,
            lambda machine, event: self.told.append(event), self.errors.append,
            lambda: None, lambda event, **fields: self.events.append(event),
            lambda machine, stream, error: self.damaged.append((machine, stream)),
        )  # fmt: skip
        self.follower.start()

    def _no_log(self, machine: str, stream: str) -> Any:
        assert self._log is not None, machine
        return self._log

    def give(self, *buckets: Bucket) -> None:
        for one in buckets:
            self.follower.deliver("s", Insertions(one))

    @property
    def last(self) -> Event | None:
        return self.told[-1] if self.told else None


@pytest.mark.unit
def test_the_bucket_of_the_last_durable_tuple_is_not_acknowledged() -> None:
    sink = Followed(Writer())
    sink.give(bucket(3, 1, 2), bucket(4), bucket(5))
    until(lambda: sink.last == Consumed(2, 5))
    sink.follower.stop()
    assert not sink.errors


class RottenLog:
    """A log of buckets of one tuple, the seventh of which is damaged."""

    def read(self, after: int, upto: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        for number in range(after + 1, upto + 1):
            if number == 7:
                error = Damaged("rotten")
                error.bucket = 7
                raise error
            yield number, bucket(number, number).batch


@pytest.mark.unit
def test_a_bucket_that_is_damaged_in_the_log_of_its_node_is_read_elsewhere() -> None:
    """What the proxy had delivered behind it is dropped, since it comes again."""
    writer = Writer()
    sink = Followed(writer, RottenLog())
    sink.follower.deliver("s", LoggedInsertions(Span(4, 9, (), "r@a")))
    sink.give(bucket(10, 10))
    until(lambda: LogDamaged("s", 7) in sink.told and sink.last == Consumed(5, 6))
    assert sink.damaged == [("r@a", "s")]
    sink.give(*(bucket(n, n) for n in range(7, 12)))
    until(lambda: sink.last == Consumed(10, 11))
    sink.follower.stop()
    assert writer.values == [5, 6, 7, 8, 9, 10, 11]
    assert not sink.errors


@pytest.mark.unit
def test_what_is_written_but_not_durable_is_taken_and_not_acknowledged() -> None:
    writer = Writer(lazy=True)
    sink = Followed(writer)
    sink.give(bucket(3, 1), bucket(9, 2))
    until(lambda: sink.last == Consumed(-1, 9))
    sink.follower.stop()
    assert (writer.closed, sink.last) == (True, Consumed(8, 9))


@pytest.mark.unit
def test_what_comes_again_after_a_restart_is_left_out() -> None:
    writer = Writer(position=pack_id(3, 0))
    sink = Followed(writer)
    assert sink.follower.begins_after == 2
    sink.give(bucket(3, 1, 2), bucket(4, 3))
    sink.follower.deliver("s", Tentatives(bucket(5, 9)))
    until(lambda: len(writer.values) == 2)
    sink.follower.stop()
    assert writer.values == [2, 3]


@pytest.mark.unit
def test_a_sink_that_never_started_closes_its_writer() -> None:
    writer = Writer()
    SinkFollower(
        "sink x", "s", writer, Buckets(), lambda machine, stream: None,
        lambda machine, event: None, lambda error: None, lambda: None,
    ).stop()  # fmt: skip
    assert writer.closed


@pytest.mark.unit
def test_a_sink_goes_on_behind_a_gap_and_says_which() -> None:
    writer = Writer(position=pack_id(3, 0))
    sink = Followed(writer)
    sink.follower.deliver("s", Skipped(3, 7))
    sink.give(bucket(8, 5))
    until(lambda: writer.values == [5])
    sink.follower.stop()
    assert (sink.events, sink.errors) == (["sink_misses"], [])
    assert sink.follower.gone == [(3, 7)]


@pytest.mark.unit
def test_a_new_sink_begins_with_what_is_kept_and_says_so() -> None:
    writer = Writer()
    sink = Followed(writer)
    sink.follower.deliver("s", Skipped(-1, 7))
    sink.give(bucket(8, 5))
    until(lambda: writer.values == [5])
    sink.follower.stop()
    assert (sink.events, sink.errors) == (["sink_begins_late"], [])


def test_a_sink_goes_on_after_a_restart_while_its_stream_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "diagram.yaml").write_text("""
diagram: small
bucket: 100 ms
sources:
  s1: {push: true, time: arrival, schema: "k int, v int"}
operators:
  big: {filter: s1, where: v > 0}
sinks:
  out: {from: big, jsonl: out.jsonl}
""")
    (tmp_path / "cluster.yaml").write_text(f"""
cluster: small
diagram: diagram.yaml
max_delay: 1 s
heartbeat: 50 ms
hop: 50 ms
epoch: {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}
nodes:
  a: {{address: "127.0.0.1:{free_ports(1)[0]}", engine: reference}}
replicas: {{big: [a]}}
sources: {{s1: a}}
""")
    cluster, diagram, base = load_cluster(tmp_path / "cluster.yaml")
    errors: list[BaseException] = []
    out = tmp_path / "out.jsonl"

    def lines() -> int:
        return out.read_text().count("\n") if out.exists() else 0

    for once in (1, 2, 3):
        node = Node(cluster, diagram, "a", base=base, on_error=errors.append).start()
        for value in range(1, 4):
            node.push("s1", [{"k": once, "v": value}])
        until(lambda once=once: lines() == 3 * once)  # type: ignore[misc]
        written = node.status()["sinks"]["sink out"]["upto"]
        until(lambda: node.status()["sinks"]["sink out"]["upto"] > written + 10)  # noqa: B023
        node.stop()
    assert not errors
    assert lines() == 9
