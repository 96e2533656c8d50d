"""Entry times: what is stored of them, and what a log knows after it was opened again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from streams.sim_disk import SimDisk

from australis.runtime.logs import SharedLog
from australis.streams.buckets import Buckets
from australis.streams.commits import COMMIT_BYTES
from australis.streams.disk import Disk
from australis.streams.entry_times import EntryTimes
from australis.streams.schema import parse_schema

BUCKETS = Buckets(1_000_000)
SCHEMA = parse_schema("n int")
steps = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=12)


def noted(steps: list[tuple[int, int]]) -> tuple[EntryTimes, dict[int, int]]:
    """Runs of some buckets each, and the entry time of every bucket."""
    times, known, upto = EntryTimes(), {}, -1
    for buckets, at in steps:
        times.note(upto, [(upto + buckets, at)])
        known |= dict.fromkeys(range(upto + 1, upto + buckets + 1), at)
        upto += buckets
    return times, known


@given(steps, st.integers(-2, 40))
def test_what_is_clipped_is_forgotten_and_nothing_else(
    given_steps: list[tuple[int, int]], upto: int
) -> None:
    times, known = noted(given_steps)
    times.clip(upto)
    for number in range(50):
        assert times.at(number) == (known.get(number) if number <= upto else None)


@given(steps, st.integers(-1, 40))
def test_what_is_stored_in_parts_is_the_same(given_steps: list[tuple[int, int]], at: int) -> None:
    times, known = noted(given_steps)
    again = EntryTimes()
    again.note(*times.between(-1, at))
    again.note(*times.between(min(at, times.upto), 50))
    assert {n: again.at(n) for n in known} == known


def opened(disk: Disk) -> SharedLog:
    return SharedLog(disk, SCHEMA, BUCKETS)


def test_a_log_knows_entry_times_after_a_restart() -> None:
    disk = SimDisk()
    log = opened(disk)
    log.note_entries(-1, [(2, 70), (9, 80)])
    log.append([], BUCKETS.end(4))
    again = opened(disk)
    assert [(b.number, b.entered_us) for b in again.entry_times(-1, 4)] == [(2, 70), (4, 80)]
    again.note_entries(4, [(6, 5)])
    again.append([], BUCKETS.end(6))
    assert [b.entered_us for b in opened(disk).entry_times(2, 6)] == [80, 5]


def test_a_source_s_buckets_enter_when_they_are_appended() -> None:
    disk = SimDisk()
    log = opened(disk)
    log.entry_clock = lambda: 33
    log.append([], BUCKETS.end(4))
    assert [(b.number, b.entered_us) for b in opened(disk).entry_times(-1, 4)] == [(4, 33)]


def test_a_commit_file_that_begins_anew_has_all_entry_times() -> None:
    disk = SimDisk()
    log = opened(disk)
    for number in range(5):
        log.note_entries(number - 1, [(number, 10 * number)])
        log.append([], BUCKETS.end(number), b"x" * (COMMIT_BYTES // 2))
    assert [b.entered_us for b in opened(disk).entry_times(-1, 4)] == [0, 10, 20, 30, 40]
