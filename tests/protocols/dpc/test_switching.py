"""Table 4.3: each row, and that it comes to rest at the best replica there is."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.protocols.dpc.states import State
from australis.protocols.dpc.switching import REMAIN, Choice, choose

STABLE, UP_FAILURE, STABILIZATION, FAILURE = State
LETTERS = {"S": STABLE, "U": UP_FAILURE, "Z": STABILIZATION, "F": FAILURE}
NAMES = "abcd"


def switch(states: str, curr: str = "a", bck: str | None = None) -> tuple[str, str | None, list]:
    """The choice for replicas a, b, ... in these states, and the rows that led there.

    Of two replicas in the same state the one later in the alphabet is more advanced.
    """
    known = {name: LETTERS[s] for name, s in zip(NAMES, states, strict=False)}
    end, rows = choose(Choice(curr, bck), known, lambda name: (NAMES.index(name),))
    return end.curr, end.bck, list(rows)


def test_row_1_a_stable_curr_stays_and_needs_no_background() -> None:
    assert switch("SS") == ("a", None, [1])
    assert switch("SZ", "a", "b") == ("a", None, [1])


def test_row_2_any_stable_replica_replaces_a_curr_that_is_not() -> None:
    for state in "UZF":
        assert switch(f"{state}SF") == ("b", None, [2, 1])
    assert switch("UZS", "a", "b") == ("c", None, [2, 1])


def test_row_3_tentative_data_and_background_corrections_go_on() -> None:
    assert switch("UZ", "a", "b") == ("a", "b", [3])
    assert switch("UZU", "a", "b") == ("a", "b", [3])


def test_row_4_a_background_that_does_not_correct_is_left() -> None:
    assert switch("U") == ("a", None, [4])
    assert switch("UF", "a", "b") == ("a", None, [4])
    assert switch("UU", "a", "b") == ("a", None, [4])


def test_row_5_a_stabilizing_replica_becomes_the_background() -> None:
    assert switch("UZ") == ("a", "b", [5, 3])
    assert switch("UFZ", "a", "b") == ("a", "c", [5, 3])


def test_row_6_a_stabilizing_curr_stays_where_nothing_better_is() -> None:
    assert switch("ZF") == ("a", None, [6])
    assert switch("ZF", "a", "b") == ("a", None, [6])


def test_row_7_a_stabilizing_curr_becomes_the_background_of_a_failing_replica() -> None:
    assert switch("ZU") == ("b", "a", [7, 3])
    assert switch("ZFU", "a", "b") == ("c", "a", [7, 3])


def test_row_8_of_two_stabilizing_replicas_the_most_advanced_stays() -> None:
    assert switch("ZZ", "a", "b") == ("b", None, [8, 6])
    assert switch("ZZU", "a", "b") == ("c", "b", [8, 7, 3])


def test_row_9_a_failed_curr_is_left_for_one_in_up_failure() -> None:
    assert switch("FU") == ("b", None, [9, 4])
    assert switch("FUZ") == ("b", "c", [9, 5, 3])


def test_row_10_a_failed_curr_is_left_for_one_that_stabilizes() -> None:
    assert switch("FZ") == ("b", None, [10, 6])


def test_row_11_where_all_have_failed_nothing_is_gained_by_switching() -> None:
    assert switch("FF") == ("a", None, [11])
    assert switch("FFF", "a", "b") == ("a", None, [11])


def test_pairs_in_the_wrong_order_are_exchanged_first() -> None:
    assert switch("ZU", "a", "b") == ("b", "a", [3])
    assert switch("FS", "a", "b") == ("b", None, [1])


def test_of_equal_replicas_the_highest_rank_is_taken() -> None:
    assert switch("FSS")[0] == "c"
    assert switch("FUU")[0] == "c"


def check(states: Mapping[str, State], start: Choice, ranks: Mapping[str, int]) -> None:
    """What must hold wherever the table is entered."""
    end, rows = choose(start, states, lambda name: (ranks[name],))
    best = min(states.values())
    said = f"{states} from {start}: {end} by {rows}"
    assert rows[-1] in REMAIN, said
    assert not set(rows[:-1]) & REMAIN, said
    assert end.row == rows[-1], said
    assert states[end.curr] is best, said
    if end.bck is not None:
        assert states[end.curr] is UP_FAILURE, said
        assert states[end.bck] is STABILIZATION, said
    if best is UP_FAILURE and STABILIZATION in states.values():
        assert end.bck is not None, said
    beside = states[start.bck] if start.bck is not None else FAILURE
    if states[start.curr] is best and beside > best:
        assert end.curr == start.curr, f"an equal one is no reason to switch: {said}"


def starts(names: str) -> list[Choice]:
    return [Choice(c, b) for c in names for b in [None, *names] if b != c]


@pytest.mark.parametrize("replicas", [1, 2, 3, 4])
def test_every_start_comes_to_rest_at_the_best_replica(replicas: int) -> None:
    names = NAMES[:replicas]
    ranks = {name: i for i, name in enumerate(names)}
    for values in product(State, repeat=replicas):
        for start in starts(names):
            check(dict(zip(names, values, strict=True)), start, ranks)


@given(
    st.lists(st.sampled_from(State), min_size=1, max_size=4), st.permutations(range(4)), st.data()
)
def test_ranks_change_nothing_about_that(
    values: list[State], ranks: list[int], data: st.DataObject
) -> None:
    states = dict(zip(NAMES, values, strict=False))
    start = data.draw(st.sampled_from(starts(NAMES[: len(values)])))
    check(states, start, dict(zip(NAMES, ranks, strict=True)))


@given(st.lists(st.sampled_from(State), min_size=1, max_size=4), st.data())
def test_a_choice_that_has_come_to_rest_stays(values: list[State], data: st.DataObject) -> None:
    states = dict(zip(NAMES, values, strict=False))
    start = data.draw(st.sampled_from(starts(NAMES[: len(values)])))
    first, _ = choose(start, states, lambda name: (NAMES.index(name),))
    again, rows = choose(first, states, lambda name: (NAMES.index(name),))
    assert (again.curr, again.bck) == (first.curr, first.bck)
    assert len(rows) == 1
