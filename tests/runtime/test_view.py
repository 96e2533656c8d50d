"""What a view holds after any changes a client can be told, and how one waits for it."""

from __future__ import annotations

import queue
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.kernel.errors import Stopped, UserError
from australis.kernel.ids import pack_id
from australis.runtime.client import Change, ChangeKind
from australis.runtime.contents import LOOSE, Contents, Keep
from australis.runtime.view import View
from australis.streams.buckets import Buckets
from australis.streams.schema import TupleType, parse_schema

pytestmark = pytest.mark.unit

SCHEMA = parse_schema("v int").arrow
BUCKETS = Buckets(100_000)
LIMIT_S = 30
Row = tuple[bool, int, int]
"""Whether it is tentative, its bucket and its value."""


def batch(bucket: int, values: list[int]) -> pa.RecordBatch | None:
    """The tuples of a bucket as a log has them; an empty bucket has none."""
    if not values:
        return None
    rows = [
        {"_type": 0, "_id": pack_id(bucket, i), "_stime": BUCKETS.end(bucket), "v": v}
        for i, v in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def stable(bucket: int, *values: int) -> Change:
    return Change(ChangeKind.INSERTION, bucket, batch(bucket, list(values)))


def tentative(bucket: int, *values: int) -> Change:
    return Change(ChangeKind.TENTATIVE, bucket, batch(bucket, list(values)))


def rows(table: pa.Table) -> list[Row]:
    return [
        (row["_type"] == TupleType.TENTATIVE, row["_id"] >> 24, row["v"])
        for row in table.to_pylist()
    ]


class Client:
    """A client proxy that says what the rules allow, and what is true after it."""

    def __init__(self) -> None:
        self.have = self.told = 99
        self.correcting = False
        self.changes: list[Change] = []
        self.stable: list[Row] = []
        self.believed: dict[int, list[Row]] = {}
        self.newest = -1

    def _undo(self) -> None:
        self.changes.append(Change(ChangeKind.UNDO, self.have))
        self.believed.clear()

    def _settle(self) -> None:
        if self.correcting and self.told <= self.have:
            self.correcting = False
            self.changes.append(Change(ChangeKind.REC_DONE, -1))

    def say_stable(self, values: list[int]) -> None:
        if self.told > self.have and not self.correcting:
            self._undo()
            self.correcting = True
        self.have += 1
        self.changes.append(stable(self.have, *values))
        self.stable += [(False, self.have, v) for v in values]
        self.believed.pop(self.have, None)
        self._settle()

    def say_tentative(self, values: list[int]) -> None:
        self.told = max(self.told, self.have) + 1
        self.changes.append(tentative(self.told, *values))
        self.believed[self.told] = [(True, self.told, v) for v in values]

    def begin_anew(self, values: list[int]) -> None:
        if self.told > self.have:
            self._undo()
            self.changes.append(Change(ChangeKind.REC_DONE, -1))
            self.correcting, self.told = False, self.have
            self.say_tentative(values)

    def skip(self, values: list[int]) -> None:
        if self.told > self.have:
            self._undo()
            self.correcting = True
        self.have += len(values)
        self.changes.append(Change(ChangeKind.SKIPPED, self.have))
        self._settle()

    def expected(self, keep: Keep) -> list[Row]:
        """All that counts, or the last of it."""
        everything = [*self.stable, *(row for said in self.believed.values() for row in said)]
        newest = max([self.have, *self.believed])
        if keep.buckets is not None:
            return [row for row in everything if row[1] > newest - keep.buckets]
        assert keep.tuples is not None
        return everything[-keep.tuples :]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say_stable", "say_stable", "say_tentative", "begin_anew", "skip"]),
        st.lists(st.integers(0, 99), max_size=4),
    ),
    max_size=80,
)
KEEPS = st.one_of(
    st.builds(Keep, tuples=st.integers(1, 100)), st.builds(Keep, buckets=st.integers(1, 40))
)


@settings(deadline=None)
@given(STEPS, KEEPS)
def test_a_view_is_what_is_stable_and_what_has_not_been_taken_back(
    steps: list[tuple[str, list[int]]], keep: Keep
) -> None:
    client, contents = Client(), Contents(SCHEMA, keep)
    before: list[Row] = []
    for step, values in steps:
        getattr(client, step)(values)
        changed = [contents.apply(change) for change in client.changes]
        client.changes.clear()
        now = rows(contents.table())
        assert now == client.expected(keep)
        assert contents.tentative >= sum(said for said, _, _ in now)
        assert any(changed) or now == before, "a change is told"
        before = now


def test_many_small_buckets_are_put_together() -> None:
    contents = Contents(SCHEMA, Keep(tuples=1000))
    for bucket in range(5000):
        contents.apply(stable(bucket, bucket))
    table = contents.table()
    assert table["v"].to_pylist() == list(range(4000, 5000))
    assert table["v"].num_chunks <= 1000 // LOOSE + 1 + LOOSE
    assert contents._stable.rows <= 1000 + LOOSE, "no more than that is held"


def test_of_tentative_tuples_the_last_are_kept_too() -> None:
    contents = Contents(SCHEMA, Keep(tuples=10))
    contents.apply(stable(1, *range(20)))
    for bucket in range(2, 500):
        contents.apply(tentative(bucket, bucket))
    assert contents.tentative == 10
    assert contents._tentative.rows <= 10 + LOOSE
    contents.apply(Change(ChangeKind.UNDO, 1))
    assert contents.tentative == 0
    assert contents.table()["v"].to_pylist() == list(range(10, 20)), "what was stable is there"


def test_what_is_missing_is_counted() -> None:
    contents = Contents(SCHEMA, Keep(tuples=10))
    contents.apply(Change(ChangeKind.SKIPPED, 100))
    assert contents.skipped == 0, "it never asked for what lies before the first bucket"
    contents.apply(stable(101, 1))
    contents.apply(Change(ChangeKind.SKIPPED, 105))
    assert (contents.skipped, contents.upto) == (4, 105)


@pytest.mark.parametrize(
    ("last", "keep"),
    [(5, Keep(tuples=5)), ("1 s", Keep(buckets=10)), ("150 ms", Keep(buckets=2))],
)
def test_last(last: int | str, keep: Keep) -> None:
    assert Keep.of(last, BUCKETS) == keep


@pytest.mark.parametrize("last", [0, -1, "0 s"])
def test_a_view_of_nothing(last: int | str) -> None:
    with pytest.raises(UserError, match="'last' should keep at least one tuple"):
        Keep.of(last, BUCKETS)


# --- waiting -----------------------------------------------------------------------------------


class Feed:
    """Stands for a subscription."""

    stream = "s"

    def __init__(self) -> None:
        self.changes: queue.Queue[Any] = queue.Queue()

    def __iter__(self) -> Iterator[Change]:
        while (change := self.changes.get()) is not None:
            if isinstance(change, Exception):
                raise change
            yield change

    def close(self) -> None:
        self.changes.put(None)


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def view(feed: Feed) -> Iterator[View]:
    with View(feed, Contents(SCHEMA, Keep(tuples=100))) as made:  # type: ignore[arg-type]
        yield made


def test_waiting_for_the_next_change(feed: Feed, view: View) -> None:
    assert not view.wait(0.01)
    assert view.arrow().num_rows == 0
    assert view.arrow().schema == SCHEMA
    feed.changes.put(stable(1, 5))
    assert view.wait(LIMIT_S)
    assert rows(view.arrow()) == [(False, 1, 5)]
    feed.changes.put(stable(2))
    assert view.wait(LIMIT_S, upto=2)
    assert not view.wait(0.05), "an empty bucket does not change the table"
    feed.changes.put(tentative(3, 6))
    assert view.wait(LIMIT_S)
    assert (view.upto, view.tentative) == (2, 1)
    assert list(view.pandas()["v"]) == [5, 6]


def test_a_view_that_is_closed_keeps_its_table(feed: Feed, view: View) -> None:
    feed.changes.put(stable(1, 5))
    assert view.wait(LIMIT_S)
    view.close()
    assert not view.wait()
    assert view.arrow().num_rows == 1


def test_what_ends_a_view_is_told(feed: Feed, view: View) -> None:
    feed.changes.put(Stopped("no room"))
    with pytest.raises(Stopped, match="no room"):
        view.wait(LIMIT_S)
    with pytest.raises(Stopped, match="no room"):
        view.arrow()


def test_without_pandas(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="pandas is not installed"):
        view.pandas()


def test_tentative_tuples_name_the_sources_that_are_missing_in_them() -> None:
    contents = Contents(SCHEMA, Keep(tuples=9), missing=True)
    contents.apply(stable(1, 5))
    contents.apply(Change(ChangeKind.TENTATIVE, 2, batch(2, [6, 7]), ("s1", "s2"), 0.5))
    table = contents.table()
    assert table.column("_missing").to_pylist() == [[], ["s1", "s2"], ["s1", "s2"]]
    contents.apply(stable(2, 6))
    assert contents.table().column("_missing").to_pylist() == [[], []]
