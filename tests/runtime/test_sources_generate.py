"""Generated connections: the same from the same options, and true to what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from australis.diagram.model import Source
from australis.kernel.errors import UserError
from australis.runtime.sources import check_options, open_reader
from australis.runtime.sources.attacks import FLOOD, SCAN, START_US
from australis.runtime.sources.generate import (
    BLOCK_ROWS,
    CONNECTIONS,
    ConnectionOptions,
    ConnectionReader,
    read_options,
    truth,
)
from australis.streams.buckets import stime_values
from australis.streams.schema import Schema, parse_schema

pytestmark = pytest.mark.unit

SECOND = 1_000_000


def generate(skip: int = 0, **options: Any) -> pa.Table:
    reader = ConnectionReader(ConnectionOptions(**options), CONNECTIONS.names)
    return pa.Table.from_batches([c.rows for c in reader.chunks(skip)], CONNECTIONS.attributes)


def source(schema: Schema = CONNECTIONS, **options: Any) -> Source:
    options = {"generator": "connections", **options}
    return Source(name="g", kind="generate", schema=schema, time="time", options=options)


def test_the_same_options_give_the_same_rows_and_others_do_not() -> None:
    rows = generate(duration_us=60 * SECOND)
    assert rows.equals(generate(duration_us=60 * SECOND))
    assert not rows.equals(generate(duration_us=60 * SECOND, seed=2))
    assert not rows.equals(generate(duration_us=60 * SECOND, site=1))


def test_skipping_gives_the_tail() -> None:
    rows = generate(duration_us=90 * SECOND)
    for skip in (1, BLOCK_ROWS - 1, BLOCK_ROWS, 50_000, rows.num_rows - 1, rows.num_rows):
        assert generate(skip, duration_us=90 * SECOND).equals(rows.slice(skip))


@pytest.mark.parametrize("rate", [0.5, 3.7, 1000.0])
def test_times_grow_and_lie_within_the_run(rate: float) -> None:
    duration = int(20_000 / rate) * SECOND
    rows = generate(rate=rate, duration_us=duration)
    stimes = stime_values(rows.column("time"))
    assert (np.diff(stimes) >= 0).all()
    assert stimes[0] >= START_US
    assert stimes[-1] < START_US + duration
    is_ordinary = pc.starts_with(rows.column("src"), "10.")
    assert rows.filter(is_ordinary).num_rows == int(rate * duration / SECOND)


def test_only_attackers_cross_the_thresholds_of_the_query() -> None:
    duration = 150 * SECOND
    tables = [generate(duration_us=duration, site=site, seed=7) for site in range(3)]
    rows = pa.concat_tables(tables)
    busy: set[str] = set()
    scanning: set[str] = set()
    for start in range(0, 100, 10):
        lo = pa.scalar(START_US + start * SECOND, CONNECTIONS.attributes.field("time").type)
        hi = pa.scalar(START_US + (start + 60) * SECOND, lo.type)
        within = pc.and_(pc.greater_equal(rows["time"], lo), pc.less(rows["time"], hi))
        counts = (
            rows.filter(within)
            .group_by("src")
            .aggregate([("port", "count"), ("port", "count_distinct")])
        )
        busy |= set(counts.filter(pc.greater(counts["port_count"], 100))["src"].to_pylist())
        many = pc.greater(counts["port_count_distinct"], 10)
        scanning |= set(counts.filter(many)["src"].to_pylist())
        ordinary = counts.filter(pc.starts_with(counts["src"], "10."))
        assert pc.max(ordinary["port_count"]).as_py() < 90
        assert pc.max(ordinary["port_count_distinct"]).as_py() <= 4
    told = truth(ConnectionOptions(duration_us=duration, seed=7))
    scanners = {attack.src for attack in told["scan"]}
    flooders = {attack.src for attack in told["flood"]}
    assert scanning == scanners
    assert busy == scanners | flooders
    assert scanners
    assert flooders


def test_attacks_are_where_the_truth_says() -> None:
    options = ConnectionOptions(duration_us=300 * SECOND, scans=2, floods=1, seed=3)
    rows = pa.Table.from_batches(
        [c.rows for c in ConnectionReader(options, CONNECTIONS.names).chunks(0)]
    )
    told = truth(options)
    assert all(attack.src.startswith("203.0.113.") for attack in told["scan"])
    assert all(attack.src.startswith("198.51.100.") for attack in told["flood"])
    for attack in told["scan"] + told["flood"]:
        mine = rows.filter(pc.equal(rows["src"], attack.src))
        stimes = stime_values(mine["time"])
        kind = SCAN if attack.kind == "scan" else FLOOD
        assert mine.num_rows == kind.connections == attack.connections
        assert stimes[0] == attack.start_us
        assert stimes[-1] < attack.end_us
        ports = pc.count_distinct(mine["port"]).as_py()
        assert ports == (kind.connections if kind is SCAN else 1)
        assert 0 < pc.min(mine["port"]).as_py() <= pc.max(mine["port"]).as_py() < 65536
    assert {a.src for a in told["scan"]} == {
        s for s in rows["src"].to_pylist() if s.startswith("203.")
    }


def test_no_attacks_and_no_end() -> None:
    options = ConnectionOptions(scans=0, floods=0, rate=100_000)
    assert truth(options) == {"scan": [], "flood": []}
    chunks = ConnectionReader(options, ("src",)).chunks(50_000_000)
    assert next(chunks).rows.schema.names == ["src"]


def test_hosts_are_skewed() -> None:
    rows = generate(duration_us=120 * SECOND, scans=0, floods=0)
    counts = sorted(rows.group_by("src").aggregate([("port", "count")])["port_count"].to_pylist())
    assert counts[-1] > 4 * counts[len(counts) // 2]


def test_options_of_a_source() -> None:
    given = source(rate=50, duration="2 min", site=2, start="2026-03-01", hosts=7, speed=8)
    assert read_options(given) == ConnectionOptions(
        rate=50.0, duration_us=120 * SECOND, site=2, hosts=7, start_us=1_772_323_200 * SECOND
    )
    check_options(given)
    some = source(parse_schema("time timestamp, port int"), duration="1 s")
    reader = open_reader(some, None)  # type: ignore[arg-type]
    assert reader is not None
    assert next(reader.chunks(0)).rows.schema == some.schema.attributes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"generator": "birds"}, "which is not one of connections"),
        ({"rate": 0}, "which is not a number above 0"),
        ({"rate": "fast"}, "which is not a number"),
        ({"duration": "soon"}, "that is not a duration"),
        ({"site": 300}, "which is above 255"),
        ({"seed": -1}, "a whole number of at least 0"),
        ({"start": "noon"}, "which is not a time such as"),
        ({"colour": "red"}, "unknown option 'colour'"),
    ],
)
def test_mistakes(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_options(source(**options))


def test_a_schema_that_is_not_generated() -> None:
    with pytest.raises(UserError, match="declares 'port string'"):
        open_reader(source(parse_schema("time timestamp, port string")), None)  # type: ignore[arg-type]
