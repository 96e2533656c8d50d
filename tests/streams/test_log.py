"""The stable log over a disk that crashes, tears writes, fills up and rots."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams.sim_disk import SimDisk
from streams.stream_data import BUCKETS, SIZE, simple_rows

from australis.kernel.errors import Damaged, Stopped
from australis.kernel.ids import pack_id
from australis.streams import commits as commits_module
from australis.streams.canonical import by_bucket, canonical_order
from australis.streams.commits import COMMITS, MARK, read_commits
from australis.streams.log import StableLog
from australis.streams.schema import parse_schema

SCHEMA = parse_schema("n int, s string")
SEGMENT_BYTES = 700
"""One to three buckets a segment."""


class FaultyDisk(SimDisk):
    """A disk whose next operations fail after so many steps, a sync among them."""

    steps_left: int | None = None

    def _step(self) -> None:
        if self.steps_left == 0:
            raise OSError(5, "Input/output error")
        if self.steps_left is not None:
            self.steps_left -= 1

    def append(self, name: str, data: bytes) -> None:
        self._step()
        super().append(name, data)

    def sync(self, name: str) -> None:
        self._step()
        super().sync(name)

    def cut(self, name: str, size: int) -> None:
        self._step()
        super().cut(name, size)

    def replace(self, name: str, data: bytes) -> None:
        self._step()
        super().replace(name, data)

    def remove(self, name: str) -> None:
        self._step()
        super().remove(name)

    def heal(self) -> None:
        self.steps_left = self.writes_left = None


def open_log(disk: SimDisk) -> StableLog:
    return StableLog(disk, SCHEMA, BUCKETS, segment_bytes=SEGMENT_BYTES)


def bucket_batch(bucket: int, rows: int, salt: int = 0) -> tuple[int, pa.RecordBatch]:
    stime = bucket * SIZE + 1
    table = pa.Table.from_batches(
        [simple_rows(SCHEMA, [(stime, i, f"{bucket}/{salt}") for i in range(rows)])]
    )
    (made,) = by_bucket(table, canonical_order(table), SCHEMA, BUCKETS)
    return made


@dataclass(frozen=True)
class State:
    """What a log must say: the tuples (id, text), boundary, memo."""

    rows: tuple[tuple[int, str], ...] = ()
    boundary_us: int = 0
    memo: bytes = b""


def texts(batches: list[pa.RecordBatch]) -> tuple[tuple[int, str], ...]:
    return tuple(
        pair
        for batch in batches
        for pair in zip(batch["_id"].to_pylist(), batch["s"].to_pylist(), strict=True)
    )


def observed(log: StableLog, after: int = -1) -> State:
    batches = [batch for _, batch in log.read(after, BUCKETS.last)]
    return State(texts(batches), log.boundary_us, log.memo)


@dataclass
class Appends:
    """Makes appends that follow each other, and what the log must be after each."""

    log: StableLog
    state: State = field(default_factory=State)
    next_bucket: int = 0
    salt: int = 0

    def append(self, shape: list[tuple[int, int]]) -> State:
        """Try to add buckets, each (gap before it, rows); the state if it succeeds."""
        self.salt += 1
        bucket, made = self.next_bucket, []
        for gap, count in shape:
            bucket += gap
            made.append(bucket_batch(bucket, count, self.salt))
            bucket += 1
        rows = self.state.rows + texts([batch for _, batch in made])
        wanted = State(rows, bucket * SIZE, b"m%d" % self.salt)
        self.attempted = wanted
        self.log.append(made, wanted.boundary_us, wanted.memo)
        self.state, self.next_bucket = wanted, bucket
        return wanted

    def reopen(self, disk: SimDisk) -> None:
        """The log is what was acknowledged, or one more append whose commit survived."""
        self.log = open_log(disk)
        found = observed(self.log)
        assert found in (self.state, self.attempted)
        self.state, self.next_bucket = found, found.boundary_us // SIZE


Shape = list[tuple[int, int]]
SHAPES: st.SearchStrategy[Shape] = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=4
)


def crash(disk: SimDisk, data: st.DataObject) -> None:
    disk.crash(lambda unsynced: data.draw(st.integers(0, unsynced)))


@given(st.lists(SHAPES, min_size=1, max_size=5), st.data())
def test_what_returned_survives_a_crash(shapes: list[Shape], data: st.DataObject) -> None:
    disk = SimDisk()
    appends = Appends(open_log(disk))
    for shape in shapes:
        state = appends.append(shape)
        assert observed(appends.log) == state
        assert appends.log.rows == len(state.rows)
        if data.draw(st.booleans()):
            crash(disk, data)
            appends.reopen(disk)
            assert appends.state == state


@given(st.data())
@settings(max_examples=200)
def test_a_failing_disk_loses_nothing_acknowledged(data: st.DataObject) -> None:
    """Appends fail half-way; then the log goes on at once, or after a crash."""
    disk = FaultyDisk()
    appends = Appends(open_log(disk))
    appends.append([(0, 1)])
    for _ in range(data.draw(st.integers(1, 5))):
        disk.writes_left = data.draw(st.none() | st.integers(0, 3))
        disk.steps_left = data.draw(st.none() | st.integers(0, 6))
        try:
            appends.append(data.draw(SHAPES))
        except OSError:
            assert observed(appends.log) == appends.state
        disk.heal()
        if data.draw(st.booleans()):
            crash(disk, data)
            appends.reopen(disk)
    appends.append([(0, 2)])
    disk.crash()
    appends.reopen(disk)
    assert appends.state == appends.attempted


@given(SHAPES, st.integers(0, 4))
def test_a_full_disk_is_as_if_nothing_had_happened(shape: Shape, left: int) -> None:
    """The same append, tried again when there is room, gives the same bytes."""
    full, roomy = SimDisk(), SimDisk()
    for disk in (full, roomy):
        open_log(disk).append([bucket_batch(0, 2)], SIZE, b"first")
    tried = Appends(open_log(full), next_bucket=1)
    full.writes_left = left
    try:
        tried.append(shape)
    except OSError:
        full.writes_left = None
        tried.salt = 0
        tried.append(shape)
    Appends(open_log(roomy), next_bucket=1).append(shape)
    for name in {*full.names(), *roomy.names()} - {MARK}:
        assert full.content()[name] == roomy.content()[name]


def filled(disk: SimDisk, buckets: int = 9) -> StableLog:
    log = open_log(disk)
    for bucket in range(buckets):
        log.append([bucket_batch(2 * bucket, 1 + bucket % 3)], (2 * bucket + 1) * SIZE)
    return log


def all_ids(log: StableLog, after: int = -1) -> list[int]:
    return [i for _, batch in log.read(after, BUCKETS.last) for i in batch["_id"].to_pylist()]


def test_reading_across_segments_after_every_bucket() -> None:
    disk = SimDisk()
    written = filled(disk)
    for log in (written, open_log(disk)):
        ids = all_ids(log)
        assert len(disk.names()) > 4, "several segments"
        assert len(ids) == log.rows == 18
        assert ids == sorted(set(ids))
        for after in range(-1, 18):
            for upto in (3, 8, BUCKETS.last):
                found = [i for _, batch in log.read(after, upto) for i in batch["_id"].to_pylist()]
                assert found == [
                    i for i in ids if pack_id(after + 1, 0) <= i < pack_id(upto + 1, 0)
                ]


@given(st.integers(-1, 20), st.integers(-1, 20))
@settings(max_examples=60, deadline=None)
def test_reads_and_counts_of_any_range(after: int, upto: int) -> None:
    log = filled(SimDisk(), 8)
    found = list(log.read(after, upto))
    assert [number for number, _ in found] == [b for b in range(0, 16, 2) if after < b <= upto]
    if after <= upto:
        assert log.rows_between(after, upto) == sum(batch.num_rows for _, batch in found)
    assert log.first_bucket == 0


@given(st.lists(st.integers(-1, 18), min_size=1, max_size=3), st.data())
@settings(max_examples=80, deadline=None)
def test_truncation_keeps_what_lies_after_it(uptos: list[int], data: st.DataObject) -> None:
    disk = FaultyDisk()
    log = filled(disk)
    ids = all_ids(log)
    for upto in uptos:
        disk.steps_left = data.draw(st.none() | st.integers(0, 4))
        try:
            log.truncate(upto)
        except OSError:
            assert disk.steps_left == 0
        disk.heal()
        if data.draw(st.booleans()):
            crash(disk, data)
            log = open_log(disk)
    kept = all_ids(log, log.truncated_to)
    assert kept == ids[len(ids) - len(kept) :]
    assert set(kept) >= {i for i in ids if i >= pack_id(max(uptos) + 1, 0)}
    assert log.rows == len(kept)
    log.append([bucket_batch(30, 2)], 31 * SIZE)
    again = open_log(disk)
    assert again.rows == len(kept) + 2
    assert again.rows_between(29, 30) == 2


def test_truncation_drops_every_segment_it_may() -> None:
    disk = SimDisk()
    log = filled(disk)
    before = set(disk.names())
    starts = sorted(int(name[:-4]) for name in before - {COMMITS, MARK})
    last = starts[2] - 2
    assert log.truncate(last - 1) == 1, "the second segment still holds one bucket after that"
    assert log.truncate(last) == 1
    assert before - set(disk.names()) == {f"{start:012d}.seg" for start in starts[:2]}
    assert log.first_bucket == starts[2]
    assert log.truncate(starts[2] - 1) == 0
    assert log.truncate(BUCKETS.last) == len(starts) - 3
    assert log.first_bucket == starts[-1], "the last segment stays"


def test_what_was_truncated_cannot_be_read() -> None:
    disk = SimDisk()
    log = filled(disk)
    ids = all_ids(log)
    log.truncate(9)
    assert log.first_bucket is not None
    gone = [i for i in ids if i < pack_id(log.first_bucket, 0)]
    assert gone
    for reader in (log, open_log(disk)):
        for after in range(-1, reader.truncated_to):
            with pytest.raises(Stopped, match="no longer in the log"):
                list(reader.read(after, BUCKETS.last))
        rest = all_ids(reader, reader.truncated_to)
        assert rest == ids[len(gone) :], "a consumer that has read all that went reads on"
        assert reader.rows_between(reader.first_bucket or 0, BUCKETS.last) < reader.rows
        with pytest.raises(Stopped):
            list(reader.read(-1, 3))


def test_what_nobody_needs_any_more_is_remembered_with_the_next_append() -> None:
    disk = SimDisk()
    log = filled(disk)
    assert log.truncate(1) == 0, "its segment holds more"
    assert (log.trimmed_upto, log.truncated_to) == (1, -1)
    assert open_log(disk).trimmed_upto == -1
    log.append([], 40 * SIZE)
    again = open_log(disk)
    assert (again.trimmed_upto, again.truncated_to) == (1, -1)
    assert all_ids(again) == all_ids(log)
    again.truncate(9)
    assert open_log(disk).trimmed_upto == again.trimmed_upto == 9
    again.restart_at(50)
    assert open_log(disk).trimmed_upto == 50


def test_a_damaged_byte_stops_the_reader() -> None:
    """Whatever byte of a segment rots, nobody reads wrong or missing tuples."""
    disk = SimDisk()
    filled(disk, 3)
    for name, content in disk.content().items():
        if not name.endswith(".seg"):
            continue
        for at in range(len(content)):
            bad = rotten(disk, name, at)
            with pytest.raises(Damaged):
                observed(open_log(bad))


def test_a_damaged_byte_in_the_commits_or_the_mark_loses_nothing() -> None:
    disk = SimDisk()
    wanted = observed(filled(disk, 4))
    for name in (COMMITS, MARK):
        for at in range(disk.size(name)):
            bad = rotten(disk, name, at)
            assert observed(open_log(bad)) == wanted
            assert observed(open_log(bad)) == wanted, "also when it is opened again"


def test_a_damaged_commit_is_never_taken_for_a_torn_one() -> None:
    """Both copies of any commit are destroyed, the last one included."""
    disk = SimDisk()
    filled(disk, 4)
    starts = _starts(disk)
    for start, end in zip(starts, [*starts[1:], disk.size(COMMITS)], strict=True):
        half = (end - start) // 2
        bad = rotten(rotten(disk, COMMITS, start + 20), COMMITS, start + half + 20)
        with pytest.raises(Damaged, match="commit"):
            open_log(bad)


def test_commits_that_are_cut_or_lost_are_damage() -> None:
    """Except in the second copy of the last one, which is whole."""
    disk = SimDisk()
    wanted = observed(filled(disk, 4))
    size = disk.size(COMMITS)
    half = (size - _starts(disk)[-1]) // 2
    for length in range(size):
        cut = _copy(disk)
        cut.cut(COMMITS, length)
        if length >= size - half:
            assert observed(open_log(cut)) == wanted
        else:
            with pytest.raises(Damaged, match="commit"):
                open_log(cut)
    for lost in ((COMMITS,), (COMMITS, MARK)):
        gone = _copy(disk)
        for name in lost:
            gone.remove(name)
        with pytest.raises(Damaged, match="commits"):
            open_log(gone)


def test_old_segments_do_not_fit_new_commits() -> None:
    """An old version of a file is put back, of the same length and with whole frames."""
    disk, other = SimDisk(), SimDisk()
    filled(disk, 3)
    twin = Appends(open_log(other), salt=5)
    for bucket in range(3):
        twin.append([(1 if bucket else 0, 1 + bucket % 3)])
    for name in disk.names():
        if name.endswith(".seg"):
            mixed = _copy(disk)
            mixed.replace(name, other.content()[name])
            with pytest.raises(Damaged, match=r"other tuples|tuples of|is damaged|ends at"):
                open_log(mixed)


def test_a_crash_is_never_taken_for_damage() -> None:
    """An append that was not acknowledged is there or not, however much of it survived."""
    for written in (COMMITS, ".seg", MARK):
        before = SimDisk()
        filled(before, 3)
        after = _copy(before)
        open_log(after).append([bucket_batch(7, 2)], 8 * SIZE)
        names = [n for n in after.names() if n.endswith(written)]
        if written == COMMITS:  # its data was synced before
            before = _copy(after, but=before, names=(COMMITS, MARK))
        elif written == MARK:
            before = _copy(after, but=before, names=(MARK,))
        for name in names:
            whole = after.content()[name]
            for kept in range(before.size(name), len(whole) + 1):
                torn = _copy(before)
                torn.replace(name, whole[:kept])
                assert open_log(torn).boundary_us in (5 * SIZE, 8 * SIZE)
                zeros = _copy(before)
                zeros.replace(name, whole[:kept] + bytes(len(whole) - kept))
                assert open_log(zeros).boundary_us in (5 * SIZE, 8 * SIZE)


def _starts(disk: SimDisk) -> list[int]:
    """Where each commit begins."""
    starts, data = [], disk.content()[COMMITS]
    at = 0
    while at < len(data):
        starts.append(at)
        at += 2 * (12 + int.from_bytes(data[at + 4 : at + 8], "little"))
    assert len(starts) == len(read_commits(disk).commits)
    return starts


def _copy(disk: SimDisk, but: SimDisk | None = None, names: tuple[str, ...] = ()) -> SimDisk:
    """The same files, except for those that are to be as on another disk."""
    copy = SimDisk()
    for name, content in disk.content().items():
        if name not in names:
            copy.replace(name, content)
        elif but is not None and name in but.names():
            copy.replace(name, but.content()[name])
    return copy


def rotten(disk: SimDisk, name: str, at: int) -> SimDisk:
    rotten = SimDisk()
    for other, content in disk.content().items():
        changed = bytearray(content)
        if other == name:
            changed[at] ^= 0xFF
        rotten.replace(other, bytes(changed))
    return rotten


def test_zeros_at_the_end_are_torn() -> None:
    """Some file systems give a file its length before its bytes."""
    disk = SimDisk()
    before = observed(filled(disk, 2))
    disk.append(COMMITS, bytes(20))
    log = open_log(disk)
    assert observed(log) == before
    log.append([bucket_batch(7, 1)], 8 * SIZE)
    assert open_log(disk).boundary_us == 8 * SIZE


def test_a_lost_segment_is_noticed() -> None:
    disk = SimDisk()
    filled(disk)
    for name in disk.names():
        if name.endswith(".seg"):
            lost = SimDisk()
            for other, content in disk.content().items():
                if other != name:
                    lost.replace(other, content)
            with pytest.raises(Stopped):
                open_log(lost)


def test_appends_must_follow() -> None:
    log = filled(SimDisk(), 3)
    boundary, before = log.boundary_us, observed(log)
    log.append([], boundary + SIZE, b"idle")
    for bucket, upto in ((4, 9), (5, 9), (9, 9), (10, 9)):
        with pytest.raises(Stopped, match="does not follow"):
            log.append([bucket_batch(bucket, 1)], upto * SIZE)
    with pytest.raises(Stopped, match="does not follow"):
        log.append([bucket_batch(8, 1), bucket_batch(7, 1)], 9 * SIZE)
    with pytest.raises(Stopped, match="lies before"):
        log.append([], boundary)
    assert observed(log) == State(before.rows, boundary + SIZE, b"idle")


def test_the_commit_file_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits_module, "COMMIT_BYTES", 200)
    disk = SimDisk()
    appends = Appends(open_log(disk))
    for _ in range(30):
        appends.append([(0, 1)])
        assert disk.size(COMMITS) < 400
    disk.crash()
    appends.reopen(disk)
    assert appends.next_bucket == 30


def test_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    filled(disk, 1)
    monkeypatch.setattr(commits_module, "FORMAT", 3)
    with pytest.raises(Stopped, match="format 2"):
        open_log(disk)
