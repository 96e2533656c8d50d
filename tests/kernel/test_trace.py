"""The trace of a run: what followed from what, one hash over all, bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from australis.kernel.trace import NO_CAUSE, Trace

ENTRIES = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab"), st.text(max_size=5)))


def filled(entries: list[tuple[int, str, str]], keep: int | None = None) -> Trace:
    trace = Trace(keep)
    for at, node, text in entries:
        trace.add(NO_CAUSE, at, node, text)
    return trace


def test_a_story_leads_from_the_first_cause_to_the_output() -> None:
    trace = Trace()
    started = trace.add(NO_CAUSE, 0, "a", "started")
    sent = trace.add(started, 0, "a", "sends to b")
    trace.add(started, 0, "a", "sends to c")
    arrived = trace.add(sent, 5, "b", "hears from a")
    told = trace.add(arrived, 5, "b", "tells the client")
    assert [e.text for e in trace.story(told)] == [
        "started",
        "sends to b",
        "hears from a",
        "tells the client",
    ]
    assert [e.at_us for e in trace.story(arrived)] == [0, 0, 5]


def test_a_story_begins_where_memory_begins() -> None:
    trace = Trace(keep=2)
    at = NO_CAUSE
    for n in range(5):
        at = trace.add(at, n, "a", f"step {n}")
    assert [e.text for e in trace.story(at)] == ["step 3", "step 4"]
    assert trace.story(1) == []


def test_only_the_last_entries_are_kept() -> None:
    trace = filled([(n, "a", str(n)) for n in range(100)], keep=10)
    assert [e.text for e in trace] == [str(n) for n in range(90, 100)]
    assert trace.length == 100


def test_all_entries_are_kept_if_asked_for() -> None:
    assert len(list(filled([(n, "a", "") for n in range(20_000)]))) == 20_000


@given(ENTRIES)
def test_the_digest_does_not_depend_on_what_is_kept(entries: list[tuple[int, str, str]]) -> None:
    assert filled(entries, keep=0).digest == filled(entries, keep=None).digest


@given(ENTRIES, ENTRIES)
def test_equal_runs_have_equal_digests_and_others_do_not(
    one: list[tuple[int, str, str]], other: list[tuple[int, str, str]]
) -> None:
    assert (filled(one).digest == filled(other).digest) == (one == other)


def test_the_digest_sees_causes_and_order() -> None:
    first, second, third = Trace(), Trace(), Trace()
    first.add(0, 1, "a", "x")
    first.add(0, 1, "a", "y")
    second.add(0, 1, "a", "y")
    second.add(0, 1, "a", "x")
    third.add(0, 1, "a", "x")
    third.add(1, 1, "a", "y")
    assert len({first.digest, second.digest, third.digest}) == 3


def test_the_last_entry_that_contains_something() -> None:
    trace = filled([(1, "a", "fork 1"), (2, "b", "fork 2"), (3, "a", "drop")])
    found = trace.last("fork")
    assert found is not None
    assert (found.at_us, found.node) == (2, "b")
    assert trace.last("crash") is None


def test_an_entry_is_one_line_with_time_and_node() -> None:
    (entry,) = filled([(1_500_000, "merge/1", "wakes up")])
    assert str(entry).split() == ["1.5000", "merge/1", "wakes", "up"]
