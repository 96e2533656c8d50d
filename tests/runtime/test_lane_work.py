"""What Spark's processes are told of a lane's work, and what outsiders are not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from streams.sim_disk import SimDisk

from australis.diagram.build import DiagramBuilder
from australis.diagram.fragments import Plan, cut
from australis.kernel.errors import Stopped
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.spans import Span
from australis.runtime.flight import LaneServer
from australis.runtime.flight_port import Ask, FlightPort
from australis.runtime.logs import SharedLog
from australis.runtime.node.quarantine import Quarantine
from australis.runtime.node.spark_work import Query, Work
from australis.streams.buckets import END_OF_STREAM_US, Buckets
from australis.streams.schema import TIMESTAMP, parse_schema
from australis.streams.source import SourceStream
from australis.streams.sunion import MergedSchema

SCHEMA = parse_schema("v int")
OUT = parse_schema("n bigint")
BUCKETS = Buckets(500_000)


def plan() -> Plan:
    d = DiagramBuilder("d")
    a = d.source("a", push=True, schema="v int")
    d.aggregate("out", a, window="1 s", compute={"n": "count(*)"})
    return cut(d.done())[0].plans[0]


class OneLane:
    """The work of one lane over the log of one source, which is on the same node."""

    def __init__(self, tmp_path: Path, *, rows_per_batch: int = 1000) -> None:
        self.source = SharedLog(SimDisk(), SCHEMA, BUCKETS)
        self.out = SharedLog(SimDisk(), OUT, BUCKETS)
        self.work = Work(lambda query: None, self._committed)
        self.query = Query.of(
            "out", plan(), MergedSchema((SCHEMA,), False), OUT, BUCKETS, None, tmp_path, -1,
            lambda machine, stream: self.source, Quarantine(tmp_path, "out", ["a"]), rows_per_batch,
        )  # fmt: skip
        self.work.lanes["out"] = self.query

    def _committed(self, query: Query, finished: list, state: object) -> None:
        if state is not None:
            self.out.append(finished, query.output.state.frontier_us)

    def append(self, stimes: list[int], boundary_us: int) -> None:
        """The source's log grows, and the lane may work on all of it."""
        log, before = self.source, self.source.closed
        stream = SourceStream(SCHEMA, BUCKETS, boundary_us=log.boundary_us)
        values = pa.array(range(len(stimes)), pa.int32())
        rows = pa.RecordBatch.from_arrays(
            [pa.array(stimes, TIMESTAMP), values], schema=stream.row_schema
        )
        stream.offer(rows)
        step = stream.close(boundary_us)
        assert step is not None
        log.append(step.buckets, step.boundary_us)
        listed = (Bucket(log.closed, boundary_us),)
        self.query.work.add([(Span(before, log.closed, listed, "a"),)])
        self.query.allowed = log.closed

    def stage(self, stime: int) -> str:
        batch = pa.RecordBatch.from_arrays(
            [pa.array([stime], TIMESTAMP), pa.array([1], pa.int64())], names=["_stime", "n"]
        )
        return self.work.stage("out", [batch])


def offsets(checkpoint: Path, batch_id: int, watermark_us: int, *upto: int) -> None:
    folder = checkpoint / "offsets"
    folder.mkdir(exist_ok=True)
    metadata = msgspec.json.encode({"batchWatermarkMs": watermark_us // 1000}).decode()
    lines = ["v1", metadata, *(f'{{"bucket": {bucket}}}' for bucket in upto)]
    (folder / str(batch_id)).write_text("\n".join(lines))


def test_a_lane_is_told_of_stable_buckets(tmp_path: Path) -> None:
    lane = OneLane(tmp_path, rows_per_batch=3)
    assert lane.work.latest("out", -1, "r") == -1
    lane.append([1, 2, 3, 4], 500_000)
    assert lane.work.latest("out", -1, "r") == 0
    lane.append([600_000, 1_100_000, 1_100_001], END_OF_STREAM_US)
    lane.query.took(0)
    assert lane.work.latest("out", 0, "r") == BUCKETS.last


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_give_every_row_once_and_one_boundary(tmp_path: Path, parts: int) -> None:
    lane = OneLane(tmp_path)
    lane.append(list(range(1, 3_000_000, 100_000)), 3_000_000)
    rows = []
    for part in range(parts):
        _, batches = lane.work.read("out", -1, 5, part, parts)
        rows += [row for batch in batches for row in batch.to_pylist()]
    assert sorted(r["v"] for r in rows if r["_type"] == 0) == list(range(30))
    (boundary,) = [r for r in rows if r["_type"] == 2]
    assert rows[-1] == boundary


def test_a_batch_is_appended_once(tmp_path: Path) -> None:
    lane = OneLane(tmp_path)
    offsets(tmp_path, 0, 0, 3)
    lane.work.commit("out", 0, [lane.stage(1_000_000)])
    assert lane.out.rows == 0, "held until the watermark has passed"
    offsets(tmp_path, 1, 2_000_000, 5)
    lane.work.commit("out", 1, [])
    assert lane.out.rows == 1
    lane.work.commit("out", 1, [lane.stage(1_000_000)])
    assert lane.out.rows == 1


@pytest.mark.parametrize(
    ("batch_id", "watermark_us", "upto", "reason"),
    [
        (1, 1_500_000, (5,), "watermark"),
        (1, 2_000_000, (5, 6), "cannot be read"),
        (0, 0, (2,), "does not fit the log"),
    ],
)
def test_what_does_not_fit_stops_the_lane(
    tmp_path: Path, batch_id: int, watermark_us: int, upto: tuple[int, ...], reason: str
) -> None:
    lane = OneLane(tmp_path)
    offsets(tmp_path, 0, 0, 3)
    lane.work.commit("out", 0, [])
    offsets(tmp_path, batch_id, watermark_us, *upto)
    with pytest.raises(Stopped, match=reason):
        lane.work.commit("out", batch_id, [])


def test_only_processes_of_the_run_are_answered(tmp_path: Path) -> None:
    lane = OneLane(tmp_path)
    lane.append([1, 2], 500_000)
    server = LaneServer(lane.work, lambda stopped: None)
    try:
        port = FlightPort(server.address)
        assert port.latest("out", -1, "r") == 0
        assert sum(b.num_rows for b in port.read("out", -1, 0, 0, 1)) == 3
        location, _, _ = server.address.partition("#")
        with pytest.raises(fl.FlightUnauthenticatedError):
            FlightPort(f"{location}#guess").latest("out", -1, "r")
        with pytest.raises(fl.FlightServerError, match="not a question"):
            list(fl.connect(location).do_action(fl.Action("latest", b"\xc1 random bytes")))
        with pytest.raises(fl.FlightServerError, match="unknown lane"):
            port.latest("nosuch", -1, "r")
        secret = server.address.partition("#")[2]
        body = msgspec.msgpack.encode(Ask(secret, "out"))
        with pytest.raises(fl.FlightServerError, match="unknown action"):
            list(fl.connect(location).do_action(fl.Action("shutdown", body)))
    finally:
        server.shutdown()


def test_on_one_machine_only_its_user_reaches_the_lanes(tmp_path: Path) -> None:
    server = LaneServer(OneLane(tmp_path).work, lambda stopped: None)
    scheme, _, path = server.address.partition("#")[0].partition("://")
    directory = Path(path).parent
    assert scheme == "grpc+unix"
    assert directory.stat().st_mode & 0o777 == 0o700
    server.shutdown()
    assert not directory.exists()
