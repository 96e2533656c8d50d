"""The copy of a source's log and journal at its standby, and the source that goes on from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from australis.diagram.diagram_file import load
from australis.diagram.model import Source
from australis.kernel.errors import Stopped
from australis.kernel.machine import Event, Message
from australis.protocols.dpc.effects import BucketClosed, LimitSource
from australis.protocols.dpc.messages import ConsumerHeard
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.source_pair import (
    AcknowledgeRows,
    CopyStored,
    FollowSource,
    LeadSource,
    RowsJournalled,
    SendCopy,
    SourceClaim,
    SourceCopy,
    SourceHeld,
    SourceMember,
    SourceView,
    Standing,
    StoreCopy,
)
from australis.runtime.files import FileDisk
from australis.runtime.logs import SharedLog
from australis.runtime.node import paired
from australis.runtime.node.families import FAMILIES
from australis.runtime.node.feed import SourceFeed
from australis.runtime.node.paired import PairedSource, read_standing, write_standing
from australis.runtime.node.wire import Wire, WireError
from australis.streams.buckets import Buckets

VIEW = SourceView(2, "s@a", False, 1, 5)
BUCKETS = Buckets(100_000)
ROWS = [{"k": i, "v": f"row {i}", "at": 1_000_000 + 20_000 * i} for i in range(100)]
"""Five rows a bucket."""


def source(kind: str) -> Source:
    text = f"""
diagram: small
bucket: 100 ms
sources:
  s: {{{kind}, schema: "k int, v string, at bigint", time: at, unit: us}}
operators:
  kept: {{filter: s, where: k >= 0}}
"""
    return load(text, "small.yaml").sources[0]


class Node:
    """One proxy of the source, without the rest of its node."""

    def __init__(self, directory: Path, node: str, source: Source) -> None:
        self.directory = directory / node
        self.source = source
        self.events: list[Event] = []
        self.errors: list[BaseException] = []
        self.log = SharedLog(FileDisk(self.directory / "log"), source.schema, BUCKETS)
        if self.log.boundary_us == 0:
            self.log.restart_at(5)
        self.port = PairedSource(
            *(f"s@{node}", source, self.log, self.directory),
            lambda name, event: self.events.append(event),
            lambda event, **fields: None,
            self.errors.append,
        )
        other = {"a": "s@b", "b": "s@a"}[node]
        self.machine = SourceMember(
            *(f"s@{node}", "s", other, "w", (), DpcOptions()),
            first=node == "a",
            standing=Standing(),
        )
        self.port.start(self._open)

    def _open(self) -> SourceFeed:
        return SourceFeed(
            *(self.source, self.log, self.machine),
            lambda name, event: self.events.append(event),
            self.errors.append,
            lambda: time.time_ns() // 1000,
            state=self.directory,
            base=self.directory.parent,
            began=(time.time_ns() // 1000, 0),
            room=lambda: True,
            member=self.port.name,
        )

    def until(self, what: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 20
        while not (found := what()):
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, self.events
            time.sleep(0.01)
        return found

    def lead(self) -> SourceFeed:
        self.port.lead(LeadSource("s"))
        feed = self.until(lambda: self.port.feed)
        assert isinstance(feed, SourceFeed)
        return feed

    def closed(self, bucket: int) -> bool:
        return any(isinstance(e, BucketClosed) and e.upto >= bucket for e in self.events)

    def journalled(self) -> int:
        return max((e.rows for e in self.events if isinstance(e, RowsJournalled)), default=0)

    def copy(self, after: int, rows_after: int, *, whole: bool = False) -> SourceCopy:
        """A copy as it arrives at the other node."""
        template = SourceCopy(VIEW, 1, 5, 0, after, after, rows_after, self.journalled(), whole)
        (copy,) = self.port.copies(SendCopy("s@b", template))
        found = across(copy)
        assert isinstance(found, SourceCopy)
        return found

    def store(self, copy: SourceCopy) -> CopyStored:
        before = len(self.events)
        self.port.store(StoreCopy("s", copy))
        stored = self.until(lambda: self.events[before:])[0]
        assert isinstance(stored, CopyStored)
        return stored

    def catch_up(self, leader: Node) -> list[CopyStored]:
        """Store copies until one is not partial."""
        found = [self.store(leader.copy(5, -1, whole=True))]
        while (last := found[-1].copy).partial:
            found.append(self.store(leader.copy(last.upto, last.rows_upto)))
        return found

    def close(self) -> None:
        self.port.stop()

    @property
    def tuples(self) -> list[dict[str, Any]]:
        batches = [batch for _, batch in self.log.read(5, self.log.closed)]
        return pa.Table.from_batches(batches).to_pylist() if batches else []


def across(message: Message) -> Message:
    """The message as another node takes it."""
    wire, schemas = Wire("c", FAMILIES), {"s": source("push: true").schema}
    return wire.decode(wire.encode("s@a", "s@b", message), schemas, BUCKETS).message


@pytest.fixture
def push(tmp_path: Path) -> tuple[Node, Node]:
    one = source("push: true")
    return Node(tmp_path, "a", one), Node(tmp_path, "b", one)


def give(feed: SourceFeed, node: Node, rows: list[dict[str, Any]]) -> None:
    """Push rows, and acknowledge them as soon as they are in the journal."""
    assert feed.proxy.push_handle is not None
    known = node.journalled()
    pushing = threading.Thread(target=feed.proxy.push_handle.push, args=(rows,))
    pushing.start()
    node.until(lambda: node.journalled() >= known + len(rows))
    assert pushing.is_alive(), "not acknowledged before the standby has it"
    node.port.acknowledge(AcknowledgeRows("s", node.journalled()))
    pushing.join(10)
    assert not pushing.is_alive()


def test_a_standby_goes_on_with_the_log_and_the_rows_that_were_acknowledged(
    push: tuple[Node, Node],
) -> None:
    a, b = push
    feed = a.lead()
    give(feed, a, ROWS[:42])
    a.until(lambda: a.closed(15))
    (stored,) = b.catch_up(a)
    assert stored.copy.rows_upto == 42
    assert b.log.digest(b.log.closed) == a.log.digest(a.log.closed)
    give(feed, a, ROWS[42:53])
    a.until(lambda: a.closed(18))
    last = b.store(a.copy(stored.copy.upto, stored.copy.rows_upto))
    assert last.copy.rows_upto == b.port.rows == 53
    a.close()
    feed = b.lead()
    give(feed, b, ROWS[53:])
    b.until(lambda: b.closed(28))
    b.close()
    assert [row["k"] for row in b.tuples] == list(range(len(b.tuples)))
    assert len(b.tuples) > 90
    begun = a.tuples
    assert b.tuples[: len(begun)] == begun


def test_a_leader_that_is_deposed_refuses_what_it_has_not_acknowledged(
    push: tuple[Node, Node],
) -> None:
    a, b = push
    feed = a.lead()
    handle = feed.proxy.push_handle
    assert handle is not None
    refused: list[BaseException] = []

    def push_some() -> None:
        try:
            handle.push(ROWS[:3])
        except Stopped as error:
            refused.append(error)

    pushing = threading.Thread(target=push_some)
    pushing.start()
    a.until(lambda: a.journalled() == 3)
    a.port.follow(FollowSource("s"))
    pushing.join(10)
    assert "before its standby had the rows" in str(refused[0])
    a.until(lambda: a.port.feed is None)
    b.lead()
    a.store(b.copy(5, -1, whole=True))
    assert (a.port.rows, a.log.rows) == (0, 0)
    a.close()
    b.close()


def test_a_long_copy_comes_in_parts(
    push: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = push
    give(a.lead(), a, ROWS)
    a.until(lambda: a.closed(28))
    monkeypatch.setattr(paired, "COPY_BYTES", 1000)
    stored = b.catch_up(a)
    assert len(stored) > 3
    assert [one.copy.partial for one in stored] == [True] * (len(stored) - 1) + [False]
    assert b.port.rows == 100
    assert b.log.digest(b.log.closed) == a.log.digest(a.log.closed)
    assert b.log.memo == a.log.memo
    a.close()
    b.close()


def test_the_log_of_files_comes_out_the_same_at_the_standby(tmp_path: Path) -> None:
    lines = [f'{{"k": {row["k"]}, "v": "{row["v"]}", "at": {row["at"]}}}' for row in ROWS]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    one = source("jsonl: rows.jsonl, speed: 2")
    a, b = Node(tmp_path, "a", one), Node(tmp_path, "b", one)
    a.lead()
    a.until(lambda: a.closed(14))
    (stored,) = b.catch_up(a)
    a.close()
    assert b.port.restored.end == stored.copy.upto
    b.lead()
    b.until(lambda: b.port.feed is not None and b.port.feed.proxy.stats.ended)
    copy = b.copy(5, -1, whole=True)
    b.close()
    assert [row["k"] for row in b.tuples] == list(range(100))
    again = Node(tmp_path, "a", one)
    again.store(copy)
    assert again.log.boundary_us == b.log.boundary_us, "that it has ended is known"
    assert again.log.digest(30) == b.log.digest(30)
    again.close()


def test_a_limit_holds_for_a_source_that_is_started_later(push: tuple[Node, Node]) -> None:
    a, b = push
    b.port.limit(LimitSource("s", 5))
    assert b.lead().full
    assert not a.lead().full
    for node in push:
        node.close()


def test_a_standing_survives(tmp_path: Path) -> None:
    path = tmp_path / "s" / "standing"
    assert read_standing(path) == Standing()
    write_standing(path, Standing(VIEW, 1, True, 7))
    assert read_standing(path) == Standing(VIEW, 1, True, 7)
    path.write_bytes(b"\xc1")
    with pytest.raises(Stopped, match="is damaged"):
        read_standing(path)


# --- on the wire --------------------------------------------------------------------------------


def test_messages_of_a_pair_go_round(push: tuple[Node, Node]) -> None:
    sign = SourceCopy(VIEW, -1, 5, 3, -1, -1, -1, -1)
    dated = replace(sign, trimmed_upto=4, incarnation=2, restored_upto=3, asked=(1, 99), at_us=100)
    heard = ConsumerHeard("r for out", 1, 4, 250_000)
    held = SourceHeld(VIEW, 1, 1, 5, -1, (heard,), 99)
    for message in (VIEW, SourceClaim(VIEW), SourceHeld(VIEW, 1, 1, 5, -1), held, sign, dated):
        assert across(message) == message
    for node in push:
        node.close()


def test_a_copy_that_is_not_whole_is_refused(push: tuple[Node, Node]) -> None:
    a, b = push
    give(a.lead(), a, ROWS[:42])
    a.until(lambda: a.closed(14))
    copy = a.copy(5, -1, whole=True)
    wrong = {
        "whose last bucket is missing": replace(copy, upto=copy.upto + 1),
        "rows that are not those": replace(copy, rows_upto=copy.rows_upto + 1),
        "without its digest": replace(copy, memo=None),
        "a digest that is not": replace(copy, memo=replace(copy.memo, digest=1)),
        "for another proxy": SourceClaim(replace(VIEW, leader="s@b")),
    }
    for why, message in wrong.items():
        with pytest.raises(WireError, match=why):
            across(message)
    a.close()
    b.close()
