"""Every Nexmark query on Spark gives what DuckDB computes over the same files.

Results are compared as multisets, event times included: streams order them by
`_stime`, DuckDB in no order at all. Integers, strings, times and decimals must be
equal (decimals by value: the two engines choose different scales). Doubles, which
only averages are, may differ in the last digits: rows are sorted by their exact
columns first, then compared one by one.
"""

from __future__ import annotations

import math
import shutil
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import australis as au
from examples.nexmark.generate import Clock, write
from examples.nexmark.oracle import HERE, oracle, queries

EVENTS = 20_000
RATE = 200
"""100 seconds of event time: ten windows of 10 seconds."""
MIDNIGHT = datetime(2024, 1, 1, 23, 59, 10, tzinfo=UTC)
"""Half of the events fall on the next day, so that daily windows are two."""
EVENING = datetime(2024, 1, 1, 18, 59, 10, tzinfo=UTC)
"""The hour turns from what query 14 calls day to what it calls other."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[datetime, Path]:
    folders = {start: tmp_path_factory.mktemp("nexmark") for start in (MIDNIGHT, EVENING)}
    for start, folder in folders.items():
        write(EVENTS, Clock(RATE, start), 1, folder)
    return folders


@pytest.mark.parametrize("query", queries())
def test_nexmark_query_agrees_with_duckdb(
    query: str, data: dict[datetime, Path], tmp_path: Path, spark: Any
) -> None:
    files = data[EVENING if query == "q14" else MIDNIGHT]
    shutil.copytree(files, tmp_path / "data")
    shutil.copy(HERE / "side_input.py", tmp_path)
    diagram = au.load(shutil.copy(HERE / f"{query}.yaml", tmp_path))
    with au.start(diagram, state=tmp_path / "state", spark=spark) as running:
        running.wait()
        found = running.table(diagram.sinks[0].stream)
    expected = oracle(query, files)
    assert expected.num_rows > 0
    assert_same_rows(found.select(expected.column_names), expected)


def assert_same_rows(found: pa.Table, expected: pa.Table) -> None:
    """Equal as multisets; on failure the message shows some rows, not thousands."""
    doubles = {f.name for f in expected.schema if pa.types.is_floating(f.type)}
    ours, theirs = _sorted_rows(found, doubles), _sorted_rows(expected, doubles)
    exact, should_be = Counter(row[0] for row in ours), Counter(row[0] for row in theirs)
    missing, extra = should_be - exact, exact - should_be
    wrong = (
        f"missing {missing.total()}: {list(missing)[:3]}, extra {extra.total()}: {list(extra)[:3]}"
    )
    assert not missing, wrong
    assert not extra, wrong
    for (key, some), (_, others) in zip(ours, theirs, strict=True):
        close = all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(some, others, strict=True))
        assert close, f"{key}: {some}, not {others}"


def _sorted_rows(table: pa.Table, doubles: set[str]) -> list[tuple[tuple[Any, ...], list[float]]]:
    rows = [
        (
            tuple(_exact(value) for name, value in row.items() if name not in doubles),
            [row[name] for name in sorted(doubles)],
        )
        for row in table.to_pylist()
    ]
    # By text, so that a null in a wrong result fails the comparison and not the sorting.
    return sorted(rows, key=repr)


def _exact(value: Any) -> Any:
    return value.normalize() if isinstance(value, Decimal) else value


def test_the_comparison_sees_what_it_should() -> None:
    table = pa.table({"k": [1, 1, 2], "x": [0.5, 0.25, 1.0]})
    assert_same_rows(table.take([2, 1, 0]), table)
    assert_same_rows(pa.table({"k": [1, 1, 2], "x": [0.5, 0.25, 1.0 + 1e-15]}), table)
    for wrong in ({"k": [1, 2, 2], "x": [0.5, 0.25, 1.0]}, {"k": [1, 1, 2], "x": [0.5, 0.3, 1.0]}):
        with pytest.raises(AssertionError):
            assert_same_rows(pa.table(wrong), table)
    with pytest.raises(AssertionError):
        assert_same_rows(table.slice(1), table)
