"""Windows of so many tuples: results stay what they are beside a NULL."""

from __future__ import annotations

import pandas as pd
import pytest

from australis.diagram.aggregates import AggregateCall
from australis.diagram.model import CountWindow
from australis.spark.count_window import _members, _results, _windows_done

BIG = 2**62 + 1


def results(function: str, values: list[object]) -> list[object]:
    """One call over windows of two tuples."""
    rows = pd.DataFrame(
        {
            "_key": "k",
            "_stime": pd.to_datetime(range(len(values)), unit="s"),
            "a0": pd.Series([0 if v is None else v for v in values]),
            "n0": [v is None for v in values],
        }
    )
    window = CountWindow(2, 2)
    place = rows.index.to_numpy()
    done = _windows_done(rows["_key"].map(lambda _: len(rows)).to_numpy(), window)
    members = _members(place, done, window)
    frame = _results(rows, members, [AggregateCall(function, ("v",))], [True])
    return [None if pd.isna(v) else v for v in frame["r0"]]


@pytest.mark.parametrize("function", ["min", "max", "first", "last"])
def test_a_large_integer_survives_beside_a_window_of_nulls(function: str) -> None:
    assert results(function, [BIG, BIG, None, None]) == [BIG, None]


@pytest.mark.parametrize("function", ["min", "last", "sum", "avg"])
def test_a_batch_of_nothing_but_nulls_gives_nulls(function: str) -> None:
    assert results(function, [None, None, None, None]) == [None, None]


def test_sums_that_overflow_are_null() -> None:
    assert results("sum", [BIG, BIG, 1, 2]) == [None, 3]
