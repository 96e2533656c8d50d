"""What a Spark job is handed of a stream, when, and what is acknowledged; without Spark."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from runtime.test_view import batch, stable

from australis.kernel.errors import Stopped, UserError
from australis.runtime import spark_feed
from australis.runtime.client import Change, ChangeKind
from australis.runtime.spark_feed import StreamFeed, Window, open_feed
from australis.spark.reader import BEFORE_ALL, StableReader, Tuples, read_tuples
from australis.streams.schema import parse_schema

pytestmark = pytest.mark.unit

LIMIT_S = 30


class Cluster:
    """Stands for a connection, and the subscription it makes."""

    def __init__(self, trimmed_upto: int = 10, end: int = 20) -> None:
        self.diagram = SimpleNamespace(bucket_us=100_000)
        self.schema = parse_schema("v int")
        self.logs = trimmed_upto, end
        self.changes: queue.Queue[Any] = queue.Queue()
        self.after: int | None = None
        self.how: dict[str, Any] = {}
        self.acknowledged = -1

    def kept(self, stream: str) -> tuple[int, int]:
        return self.logs

    def subscribe(self, stream: str, client: str | None, *, after: int, **how: Any) -> Cluster:
        self.after, self.how = after, how
        return self

    def __iter__(self) -> Iterator[Change]:
        while (change := self.changes.get()) is not None:
            yield change

    def acknowledge(self, upto: int) -> None:
        self.acknowledged = upto

    def close(self) -> None:
        self.changes.put(None)

    def says(self, *changes: Change) -> None:
        for change in changes:
            self.changes.put(change)


def feed_of(cluster: Cluster, client: str | None = "c", **options: Any) -> StreamFeed:
    return StreamFeed(cluster, "s", client, options.pop("starting", None), **options)  # type: ignore[arg-type]


def values(pieces: list[bytes]) -> list[int]:
    return [v for p in pieces for b in read_tuples(Tuples(p)) for v in b.column("v").to_pylist()]


def soon(feed: StreamFeed, after: int | None) -> tuple[int, int]:
    """The next micro-batch that there is something to do in."""
    deadline = time.monotonic() + LIMIT_S
    while (found := feed.latest(after)) is None:
        assert time.monotonic() < deadline
    return found


# --- buckets that wait -------------------------------------------------------------------------


def test_a_window() -> None:
    window = Window(4)
    window.add(5, batch(5, [1, 2]))
    window.add(6, None)
    window.add(7, batch(7, [3]))
    assert [len(b) for b in window.between(4, 7)] == [2, 1]
    assert [len(b) for b in window.between(5, 7)] == [1]
    window.drop(5)
    assert window.nbytes == batch(7, [3]).nbytes  # type: ignore[union-attr]
    with pytest.raises(AssertionError, match="was done with"):
        window.between(4, 7)


def test_pieces_are_of_a_decent_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_feed, "PIECE_BYTES", 40)
    pieces = list(spark_feed._pieces([batch(1, list(range(10)))] * 2, ["_id", "_stime", "v"]))
    assert len(pieces) == 10
    assert values(pieces) == [*range(10), *range(10)]
    assert pa.ipc.open_stream(pieces[0]).schema.names == ["_id", "_stime", "v"]


# --- where it begins ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "starting", "after"),
    [("c", None, 10), (None, None, 20), ("c", "latest", 20), (None, "earliest", 10), ("c", "7", 6)],
)
def test_where_it_begins(client: str | None, starting: str | None, after: int) -> None:
    cluster = Cluster()
    feed_of(cluster, client, starting=starting).begin()
    assert cluster.after == after
    assert cluster.how == {"guest": client is None, "stable_only": True, "hold": True}


def test_from_a_checkpoint_it_goes_on_behind_it() -> None:
    cluster = Cluster()
    feed_of(cluster, starting="latest").latest(15)
    assert cluster.after == 15


def test_what_was_dropped_before_it_began_is_not_missing() -> None:
    cluster = Cluster()
    feed = feed_of(cluster)
    cluster.says(Change(ChangeKind.SKIPPED, 13), stable(14, 1))
    assert soon(feed, None) == (13, 14)
    cluster.says(Change(ChangeKind.SKIPPED, 16))
    with pytest.raises(UserError, match="'s' is no longer in the logs from bucket 15 to 16"):
        soon(feed, 14)


@pytest.mark.parametrize("first", [{"after": 10}, {"after": None}])
def test_what_it_was_told_to_begin_with_is_missing(first: dict[str, int | None]) -> None:
    cluster = Cluster()
    feed = feed_of(cluster, None, starting="11")
    cluster.says(Change(ChangeKind.SKIPPED, 13), stable(14, 1))
    with pytest.raises(
        UserError, match=r"bucket 11 to 13: begin anew .* a 'client' of the cluster"
    ):
        soon(feed, first["after"])


# --- micro-batches -----------------------------------------------------------------------------


def test_what_is_read_again_is_the_same() -> None:
    cluster = Cluster()
    feed = feed_of(cluster)
    cluster.says(stable(11, 1, 2), stable(12), stable(13, 3))
    feed.begin()
    feed.read(10, 13)
    assert soon(feed, None) == (10, 13)
    assert values(feed.read(10, 13)) == values(feed.read(10, 13)) == [1, 2, 3]
    feed.commit(13)
    assert cluster.acknowledged == 13
    cluster.says(stable(14, 4))
    assert soon(feed, 13) == (13, 14)
    assert values(feed.read(13, 14)) == [4]


def test_empty_buckets_make_no_micro_batch_until_there_are_many() -> None:
    cluster = Cluster()
    feed = feed_of(cluster)
    idle = spark_feed.IDLE_US // 100_000
    cluster.says(*(stable(10 + i) for i in range(1, idle)))
    feed.begin()
    feed.read(10, 10 + idle - 1)
    assert feed.latest(None) is None
    cluster.says(stable(10 + idle))
    assert soon(feed, None) == (10, 10 + idle)
    assert feed.read(10, 10 + idle) == []


def test_what_waits_is_bounded() -> None:
    """It is not read on before a micro-batch has taken what is there; one is never too large."""
    cluster = Cluster()
    one = batch(1, [1])
    assert one is not None
    feed = feed_of(cluster, max_bytes=3 * one.nbytes)
    cluster.says(*(stable(10 + i, i) for i in range(1, 31)))
    feed.begin()
    deadline = time.monotonic() + LIMIT_S
    while not feed._full:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.1)
    after, taken = 10, []
    assert soon(feed, None) == (10, 13)
    while len(taken) < 30:
        begin, upto = soon(feed, None if after == 10 else after)
        assert begin == after
        assert upto - after <= 3
        taken += values(feed.read(begin, upto))
        after = upto
    assert taken == list(range(1, 31))


def test_what_was_planned_is_read_however_little_room_there_is_now() -> None:
    cluster = Cluster()
    cluster.says(*(stable(10 + i, i) for i in range(1, 31)))
    feed = feed_of(cluster, max_bytes=1)
    assert values(feed.read(10, 40)) == list(range(1, 31))


def test_up_to_a_target() -> None:
    cluster = Cluster()
    feed = feed_of(cluster)
    cluster.says(stable(11, 1), stable(12), stable(13, 2), stable(14, 3))
    assert feed.latest(None, target=13) == (10, 13)
    assert feed.latest(13, target=13) is None


def test_all_there_is_as_a_table() -> None:
    cluster = Cluster(10, 12)
    cluster.says(stable(11, 1), stable(12, 2), stable(13, 3))
    assert values(feed_of(cluster, None, starting="earliest").everything()) == [1, 2]
    larger = Cluster(10, 12)
    larger.says(stable(11, 1), stable(12, 2))
    small = feed_of(larger, None, starting="earliest", max_bytes=1)
    with pytest.raises(UserError, match="'s' holds more than 1 bytes: read it as a stream"):
        small.everything()


def test_a_cluster_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_feed, "START_TIMEOUT_S", 0.05)
    with pytest.raises(Stopped, match=r"bucket 11 of 's' did not come in 50 ms: are the nodes"):
        feed_of(Cluster()).read(10, 11)


# --- offsets -----------------------------------------------------------------------------------


def test_offsets_say_where_the_first_micro_batch_began() -> None:
    cluster = Cluster()
    reader = StableReader("nothing", {})
    reader._opened = feed_of(cluster)
    start = reader.initialOffset()
    assert start == {"bucket": BEFORE_ALL}
    assert reader.partitions(start, start) == []
    assert reader.latestOffset(start, None) == start
    cluster.says(stable(11, 1), stable(12, 2))
    reader._opened.read(10, 12)
    end = reader.latestOffset(start, None)
    assert end == {"bucket": 12, "began": 10}
    again = Cluster(trimmed_upto=12, end=30)
    restarted = StableReader("nothing", {})
    restarted._opened = feed_of(again)
    again.says(stable(11, 1), stable(12, 2))
    assert [p.data for p in restarted.partitions(start, end)] == [
        p.data for p in reader.partitions(start, end)
    ]
    assert again.after == 10
    again.says(stable(13, 3))
    restarted._opened.read(12, 13)
    assert restarted.latestOffset(end, None) == {"bucket": 13, "began": 10}


def test_options() -> None:
    with pytest.raises(UserError, match=r"'stream' is missing: \.option\('stream', 'alerts'\)"):
        open_feed({"cluster": "x.yaml"})
    with pytest.raises(UserError, match="'client' reads a stream: without one, read as a guest"):
        open_feed({"cluster": "x.yaml", "stream": "s", "client": "c"}, table=True)
