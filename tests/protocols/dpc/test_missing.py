"""What tentative buckets say is missing in them (thesis 5.8.3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from australis.protocols.dpc.missing import MAX_RUNS, Lacking, Missing, absent, share, union

parts = st.lists(
    st.builds(absent, st.lists(st.sampled_from("abc"), max_size=2), *[st.integers(-1, 9)] * 2)
)


def buckets(missing: Missing) -> set[tuple[str, int]]:
    return {
        (one.source, number)
        for one in missing
        for after, upto in one.runs
        for number in range(after + 1, upto + 1)
    }


@given(parts)
def test_a_union_has_what_some_part_has_in_as_few_runs_as_possible(some: list[Missing]) -> None:
    found = union(some)
    assert buckets(found) == set().union(*map(buckets, some))
    assert [one.source for one in found] == sorted({one.source for one in found})
    for one in found:
        assert all(b < c for (_, b), (c, _) in zip(one.runs, one.runs[1:], strict=False))
    assert union([found, found]) == found


def test_a_stateless_lane_lacks_only_what_is_missing_now() -> None:
    lane = Lacking(0)
    assert lane.add(4, 5, (), ["s1"]) == absent(["s1"], 4, 5)
    assert lane.add(5, 6, absent(["s2"], 5, 6), []) == absent(["s2"], 5, 6)
    assert lane.add(6, 7, (), []) == ()


def test_a_window_lacks_what_it_reaches_back_to() -> None:
    lane = Lacking(2)
    lane.add(4, 5, (), ["s1"])
    assert lane.add(5, 6, (), []) == absent(["s1"], 4, 5)
    assert lane.add(6, 7, (), []) == absent(["s1"], 4, 5)
    assert lane.add(7, 8, (), []) == ()
    lane.add(8, 20, (), ["s1"])
    assert lane.add(20, 21, (), []) == absent(["s1"], 18, 20), "a gap, as far as it reaches back"


def test_unbounded_state_never_forgets() -> None:
    lane = Lacking(None)
    lane.add(4, 5, (), ["s1"])
    lane.add(5, 6, absent(["s2"], 1, 3), [])
    assert buckets(lane.add(6, 99, (), [])) == {("s1", 5), ("s2", 2), ("s2", 3)}


def test_a_share_counts_from_the_first_missing_bucket() -> None:
    assert share(absent(["s1"], 11, 15), 15, sources=3) == 1 - 4 / 12
    assert share(absent(["s1"], 11, 15), 17, sources=2) == 1 - 4 / 12
    assert share(absent(["s1", "s2"], 4, 5), 5, sources=2) == 0.0
    assert share(absent(["s1"], 20, 30), 25, sources=1) == 0.0, "what is claimed makes no sense"
    assert share((), 5, sources=0) == 1.0


def test_there_are_not_too_many_runs() -> None:
    found = union(absent(["s1"], 3 * n, 3 * n + 1) for n in range(2 * MAX_RUNS))
    assert len(found[0].runs) == MAX_RUNS
    assert found[0].runs[0][0] == 0
    assert found[0].runs[-1] == (6 * MAX_RUNS - 3, 6 * MAX_RUNS - 2)
