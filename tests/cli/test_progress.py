"""What a long run says of what still lies before it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from australis.cli.progress import _ahead, span
from australis.diagram.model import Source
from australis.runtime.files import FileDisk
from australis.runtime.logs import SharedLog
from australis.runtime.progress import StreamProgress, progress_of
from australis.runtime.proxy import SourceProxy
from australis.runtime.sources import lines as lines_module
from australis.runtime.sources import open_reader
from australis.streams.buckets import Buckets
from australis.streams.schema import parse_schema

SCHEMA = parse_schema("t bigint, n int")
BUCKETS = Buckets(100_000)
ROWS = 1_000


def csv_source(directory: Path, **options: object) -> Source:
    path = directory / "data.csv"
    rows = "".join(f"{1_000_000 + n * 10_000},{n}\n" for n in range(ROWS))
    path.write_text("t,n\n" + rows)
    return Source(
        name="s", kind="csv", schema=SCHEMA, time="t", options={"path": str(path), **options}
    )


class OneLane:
    """What a run shows of itself: one source, one lane that has not begun."""

    def __init__(self, directory: Path) -> None:
        disks = {name: FileDisk(directory / "logs" / name) for name in ("s", "out")}
        self.logs = {name: SharedLog(disk, SCHEMA, BUCKETS) for name, disk in disks.items()}
        self.sources = {
            "s": SourceProxy(
                csv_source(directory), self.logs["s"], directory,
                base=directory, on_append=lambda s: None,
            )
        }  # fmt: skip
        plan = SimpleNamespace(output="out", inputs=("s",))
        self.fragments = (SimpleNamespace(plans=(plan,)),)
        self.queries = {"out": SimpleNamespace(at=-1)}
        self.wait_of = lambda stream: {"stream": "s", "since": None, "stands": False}


def test_a_lane_with_a_whole_file_before_it(tmp_path: Path) -> None:
    running: Any = OneLane(tmp_path)
    found = progress_of(running)
    assert (found["s"].complete, found["s"].share) == (False, 0.0)
    assert _ahead(found["s"], True) == "reading, 0% read"
    assert _ahead(found["out"], False) == ""
    running.sources["s"].start()
    assert running.sources["s"].join(20)
    found = progress_of(running)
    assert (found["s"].complete, found["s"].share) == (True, 1.0)
    assert (found["out"].unread_tuples, found["out"].behind_us) == (ROWS, 10_100_000)
    assert _ahead(found["out"], False) == "1,000 tuples, 00:10 of stream time"
    assert found["out"].as_json() == {
        "tuples": 0, "complete": False, "upto": None, "read": None,
        "unread_tuples": ROWS, "behind_s": 10.1, "waits_for": None, "since": None,
    }  # fmt: skip


def test_how_much_of_its_files_a_reader_has_read(tmp_path: Path) -> None:
    reader = open_reader(csv_source(tmp_path), tmp_path)
    assert reader is not None
    shares = []
    defaults = lines_module.file_blocks.__defaults__
    lines_module.file_blocks.__defaults__ = (1_000,)
    try:
        for _ in reader.chunks(0):
            shares.append(reader.share)
    finally:
        lines_module.file_blocks.__defaults__ = defaults
    assert shares == sorted(shares)
    assert (shares[0], reader.share) == (0.0, 1.0)
    assert len(shares) > 10


def test_a_compressed_file_is_measured_as_it_is_stored(tmp_path: Path) -> None:
    csv_source(tmp_path)
    packed = tmp_path / "data.csv.gz"
    with pa.output_stream(str(packed), compression="gzip") as out:
        out.write((tmp_path / "data.csv").read_bytes())
    reader = open_reader(
        Source(name="s", kind="csv", schema=SCHEMA, time="t", options={"path": str(packed)}),
        tmp_path,
    )
    assert reader is not None
    assert sum(chunk.rows.num_rows for chunk in reader.chunks(0)) == ROWS
    assert reader.share == 1.0


def test_what_is_said_of_a_stream() -> None:
    assert _ahead(StreamProgress(5, 1, False), True) == "reading"
    assert _ahead(StreamProgress(5, 1, True), True) == ""
    quiet = StreamProgress(5, 1, False, waits_for="s2", since="2026-01-01T00:00:05Z")
    assert _ahead(quiet, False) == "waits for s2 since 2026-01-01T00:00:05Z"
    assert span(400_000) == "0.4 s"
