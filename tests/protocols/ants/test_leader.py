"""A leader: what it does about reports, refusals and silence, one event at a time."""

from __future__ import annotations

from math import inf

import pytest
from protocols.ants.hand import HOSTS, ROUTES, Cell, Leader, only, report, row, sent, simple, told

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Send, SetTimer
from australis.placement.queries import Consumer, Producer, Query, Task
from australis.protocols.ants.events import Started, Submitted, TellPlaced, TellUnplaced, Withdrawn
from australis.protocols.ants.leader import MAX_PAUSE_FACTOR
from australis.protocols.ants.messages import (
    Enforced,
    Enforcement,
    Keep,
    Kept,
    ReleaseShares,
    Report,
    Sought,
)

CELLS = ("a", "b")
AT_C = Report({"f": "c", "g": "c"}, {"f": ("a", "b", "c"), "z": ("c",)}, 0.05, 0.0)


def sought(leader: Leader, found: Report | None = None) -> list[Effect]:
    """The ants find this for the chain that is sought."""
    goal = leader.goals[-1][0]
    return leader.machine.sought(Sought("q", goal.version, goal.chain, found), leader.now)


def enforced(leader: Leader, refused_by: str = "") -> list[Effect]:
    """The enforcement ant is back."""
    return leader.machine.enforced(Enforced("q", leader.version, 0.1, refused_by), leader.now)


def keeps(leader: Leader, *cells: str, cost: float = 0.05, version: int = 0) -> list[Effect]:
    """These cells have kept their shares; what the last of them leads to."""
    effects: list[Effect] = []
    for cell in cells:
        kept = Kept("q", version or leader.version, True, cost)
        effects = leader.machine.kept(cell, kept, leader.now)
    return effects


def placed(**options: object) -> Leader:
    """A leader whose query runs at b since now."""
    leader = Leader(**options)  # type: ignore[arg-type]
    leader.machine.start(leader.now)
    sought(leader, report())
    enforced(leader)
    assert told(keeps(leader, *CELLS), TellPlaced)
    return leader


def tick(leader: Leader, seconds: float = 0.5) -> list[Effect]:
    """Time passes; what is done besides setting the timer once more."""
    leader.later(seconds)
    timer, *effects = leader.machine.tick(leader.now)
    assert timer == SetTimer("lead q", leader.now + leader.options.resend_us)
    return effects


# --- from a query to a placement -------------------------------------------------------------


def test_chains_are_sought_first_then_enforced_then_kept_and_only_then_told_3_2() -> None:
    leader = Leader()
    assert sent(leader.machine.start(leader.now)) == []
    ((goal, source, target),) = leader.goals
    assert (goal.query, source, target, goal.again) == (simple(), "a", "c", False)
    to, ant = only(sought(leader, report(0.1)))
    assert (to, type(ant), ant.leader, ant.version) == ("a", Enforcement, "a", goal.version)
    assert [share.cell for share in ant.shares] == [*CELLS]
    keep = Keep("q", goal.version)
    assert enforced(leader) == [Send("a", keep), Send("b", keep)]
    assert keeps(leader, "a") == []
    routes = {("p", "f"): ("a", "b"), ("g", "z"): ("b", "c")}
    rank = (100 * SECOND, "q")
    assert keeps(leader, "b", cost=0.07) == [
        TellPlaced("q", goal.version, HOSTS, routes, pytest.approx(0.12), {}, rank)  # type: ignore[arg-type]
    ]
    assert leader.machine.running == (goal.version, ant.shares)


def test_it_may_cost_a_fifth_more_than_the_report_says_3_8() -> None:
    leader = Leader(tolerance=0.2)
    leader.machine.start(leader.now)
    assert only(sought(leader, report(0.1)))[1].most == pytest.approx(0.12)


def test_one_chain_is_sought_after_the_other_each_with_what_was_found_before_3_8() -> None:
    """Join points become the destinations of the chains that join in."""
    query = Query(
        "q",
        (Producer("p", "a", 10.0), Producer("r", "d", 10.0)),
        (Task("f", ("p",), 0.01), Task("h", ("r",), 0.01), Task("j", ("f", "h"), 0.01)),
        (Consumer("z", "c", "j"),),
    )
    leader = Leader(query)
    leader.machine.start(leader.now)
    assert leader.goals[0][1:] == ("a", "c")
    first = Report({"f": "a", "j": "b"}, {"f": ("a",), "j": ("a", "b"), "z": ("b", "c")}, 0.1, 0.0)
    assert sent(sought(leader, first)) == []
    goal, source, target = leader.goals[1]
    assert (goal.chain, source, target, goal.hosts) == (1, "d", "b", {"f": "a", "j": "b"})
    second = Report({"h": "d"}, {"h": ("d",), "j": ("d", "c", "b")}, 0.2, 0.0)
    _, ant = only(sought(leader, second))
    assert ant.most == pytest.approx(0.3 * 1.2)
    assert {s.cell: s.tasks for s in ant.shares} == {"a": ("f",), "b": ("j",), "c": (), "d": ("h",)}


def test_a_report_for_another_version_or_chain_is_not_taken() -> None:
    leader = Leader()
    leader.machine.start(leader.now)
    late = Sought("q", leader.version - 1, 0, report())
    assert leader.machine.sought(late, leader.now) == []
    late = Sought("q", leader.version, 1, report())
    assert leader.machine.sought(late, leader.now) == []


def test_a_chain_for_which_nothing_was_found_is_told_and_sought_again() -> None:
    leader = Leader()
    leader.machine.start(leader.now)
    assert sought(leader) == [TellUnplaced("q", "no servers were found for f, g")]
    tick(leader, 1.5)
    assert len(leader.goals) == 1
    tick(leader, 0.5)
    assert len(leader.goals) == 2, "when patience is over"
    assert leader.goals[1][0].version > leader.goals[0][0].version


# --- all or nothing --------------------------------------------------------------------------


def test_a_refusal_releases_every_share_and_leads_to_another_search_3_8() -> None:
    leader = Leader()
    leader.machine.start(leader.now)
    sought(leader, report())
    release = ReleaseShares("q", leader.version)
    assert enforced(leader, refused_by="b") == [
        Send("a", release),
        Send("b", release),
        TellUnplaced("q", "b would not have its share"),
    ]
    tick(leader, 2)
    assert len(leader.goals) == 2


def test_who_is_refused_again_and_again_may_cost_more_each_time() -> None:
    leader, most = Leader(tolerance=0.2), []
    leader.machine.start(leader.now)
    for _ in range(4):
        most.append(only(sought(leader, report(0.1)))[1].most)
        enforced(leader, refused_by="b")
        tick(leader, 2)
    assert most == pytest.approx([0.12, 0.14, 0.18, 0.26])


def test_a_share_that_is_lost_before_all_are_kept_ends_all_of_them() -> None:
    leader = Leader()
    leader.machine.start(leader.now)
    sought(leader, report())
    enforced(leader)
    keeps(leader, "a")
    lost = Kept("q", leader.version, there=False)
    effects = leader.machine.kept("b", lost, leader.now)
    assert [to for to, m in sent(effects) if isinstance(m, ReleaseShares)] == [*CELLS]
    assert told(effects, TellUnplaced) == [TellUnplaced("q", "b has lost its share")]
    assert leader.machine.running is None


def test_what_is_not_answered_is_said_again() -> None:
    leader = Leader()
    leader.machine.start(leader.now)
    first = only(sought(leader, report()))
    assert only(tick(leader)) == first
    enforced(leader)
    keeps(leader, "a")
    assert tick(leader) == [Send("b", Keep("q", leader.version))], "only whom it has not heard of"


def test_it_gives_up_before_what_is_held_goes_by_itself() -> None:
    leader = Leader()
    leader.machine.start(leader.now)
    sought(leader, report())
    held_s = leader.options.hold_us / SECOND
    assert told(tick(leader, held_s / 2), TellUnplaced) == []
    effects = tick(leader, 0.1)
    assert told(effects, TellUnplaced) == [TellUnplaced("q", "cells did not answer")]
    assert [to for to, _ in sent(effects)] == [*CELLS]


def test_an_answer_to_an_earlier_version_changes_nothing() -> None:
    leader = Leader()
    leader.machine.start(leader.now)
    sought(leader, report())
    old = leader.version
    enforced(leader, refused_by="b")
    tick(leader, 2)
    sought(leader, report())
    assert leader.machine.enforced(Enforced("q", old, 0.1), leader.now) == []
    assert keeps(leader, *CELLS, version=old) == []
    assert leader.machine.running is None


# --- seeing after what runs ------------------------------------------------------------------


def test_leases_are_renewed_in_good_time() -> None:
    leader = placed()
    assert tick(leader) == []
    keep = Keep("q", leader.version)
    quarter_s = leader.options.lease_us / SECOND / 4
    assert tick(leader, quarter_s) == [Send("a", keep), Send("b", keep)]
    keeps(leader, "a")
    assert tick(leader) == [Send("b", keep)]
    keeps(leader, "b")
    assert tick(leader) == []


def test_a_cell_that_is_silent_for_a_lease_ends_the_placement() -> None:
    leader = placed()
    version = leader.version
    lease_s = leader.options.lease_us / SECOND
    keeps(leader, "a")
    leader.later(lease_s - 0.5)
    keeps(leader, "a")
    effects = tick(leader, 0.6)
    release = ReleaseShares("q", version)
    assert effects[:3] == [
        Send("a", release),
        Send("b", release),
        TellUnplaced("q", "b has lost its share"),
    ]
    assert leader.machine.running is None
    assert leader.goals[-1][0].version > version, "and it is placed anew at once"


def test_a_cell_that_has_lost_its_share_gets_it_again_once_whatever_it_costs() -> None:
    leader = placed()
    lost = Kept("q", leader.version, there=False)
    to, ant = only(leader.machine.kept("b", lost, leader.now))
    assert (to, [s.cell for s in ant.shares], ant.most) == ("b", ["b"], inf)
    assert leader.machine.kept("b", lost, leader.later(0.5)) == [], "it may not have come yet"
    effects = leader.machine.kept("b", lost, leader.later(1))
    assert told(effects, TellUnplaced) == [TellUnplaced("q", "b has lost its share")]


def test_a_share_that_is_refused_when_it_is_given_again_ends_the_placement() -> None:
    leader = placed()
    leader.machine.kept("b", Kept("q", leader.version, there=False), leader.now)
    assert told(enforced(leader, refused_by="b"), TellUnplaced)
    assert leader.machine.running is None


# --- something better ------------------------------------------------------------------------


def again(leader: Leader) -> None:
    """It is time to look for something better."""
    for _ in range(400):
        assert leader.machine.running is not None
        version, shares = leader.machine.running
        keeps(leader, *(share.cell for share in shares), version=version)
        known = len(leader.goals)
        tick(leader)
        if len(leader.goals) > known:
            return
    raise AssertionError("it never looks")


def test_something_better_is_looked_for_when_it_has_settled_3_9() -> None:
    leader = placed()
    begun = leader.now
    again(leader)
    assert leader.now - begun >= leader.options.settle_us
    assert leader.goals[-1][0].again


@pytest.mark.parametrize(("cost", "taken"), [(0.09, True), (0.0925, False)])
def test_a_placement_is_taken_that_is_better_by_beta_3_9(cost: float, taken: bool) -> None:
    """What runs costs 0.1, and beta is 1.1."""
    leader = placed(beta=1.1)
    again(leader)
    effects = sought(leader, Report(AT_C.hosts, AT_C.routes, cost, 0.0))
    assert bool(sent(effects)) == taken
    if taken:
        assert only(effects)[1].most <= 0.1 / 1.1, "and must still be when it is enforced"


def test_the_same_placement_is_never_taken_again() -> None:
    leader = placed()
    again(leader)
    assert sought(leader, Report(HOSTS, ROUTES, 0.01, 0.0)) == []


def test_as_long_as_nothing_better_is_found_it_is_looked_for_ever_more_seldom() -> None:
    leader, pauses = placed(), []
    for _ in range(8):
        begun = leader.now
        again(leader)
        pauses.append(leader.now - begun)
        sought(leader, Report(AT_C.hosts, AT_C.routes, 0.0999, 0.0))
    assert pauses[1:] == sorted(pauses[1:])
    assert pauses[-1] <= MAX_PAUSE_FACTOR * leader.options.again_us + SECOND
    assert pauses[-1] > 4 * leader.options.again_us


def test_the_previous_placement_is_let_go_when_all_cells_have_the_new_one_3_9() -> None:
    leader = placed()
    old = leader.version
    again(leader)
    sought(leader, AT_C)
    enforced(leader)
    assert keeps(leader, "a", "b") == []
    effects = keeps(leader, "c")
    release = ReleaseShares("q", old)
    assert effects[:2] == [Send("a", release), Send("b", release)]
    assert [t.hosts for t in told(effects, TellPlaced)] == [AT_C.hosts]


def move(leader: Leader, to: Report, *cells: str) -> int:
    """It is moved there; how long nothing else is looked for then."""
    again(leader)
    sought(leader, to)
    enforced(leader)
    assert told(keeps(leader, *cells), TellPlaced)
    begun = leader.now
    again(leader)
    return leader.now - begun


def test_a_move_back_waits_twice_as_long_for_the_next() -> None:
    leader = placed()
    there = move(leader, AT_C, "a", "b", "c")
    back = move(leader, Report(HOSTS, ROUTES, 0.01, 0.0), *CELLS)
    assert there == pytest.approx(leader.options.settle_us, abs=SECOND)
    assert back == pytest.approx(2 * leader.options.settle_us, abs=SECOND)


def test_a_move_that_fails_leaves_what_runs() -> None:
    leader = placed()
    runs = leader.machine.running
    again(leader)
    sought(leader, AT_C)
    effects = enforced(leader, refused_by="c")
    assert told(effects, TellUnplaced) == []
    assert {m.version for _, m in sent(effects)} == {leader.version}
    assert leader.machine.running == runs


# --- versions and incarnations ---------------------------------------------------------------


def versions(cell: Cell) -> list[int]:
    """The version each query is sought in."""
    return [key[1] for key in cell.machine._seekings]


def test_later_incarnations_and_queries_have_higher_versions() -> None:
    first, second = Cell("a"), Cell("a")
    for cell, incarnation in ((first, 1), (second, 2)):
        cell.take(Started(incarnation))
        cell.take(Submitted(simple()))
        cell.take(Submitted(simple()))
    assert versions(first) == sorted({*versions(first)})
    assert max(versions(first)) < min(versions(second))


def test_a_query_submitted_again_takes_the_place_of_the_earlier_one_3_9() -> None:
    """Users may ask for an update, with the previous version terminated."""
    cell = Cell("a", row(1, 1, 1))
    cell.take(Started(1))
    cell.take(Submitted(simple()))
    old = cell.machine.leaders["q"]
    old.sought(Sought("q", versions(cell)[-1], 0, report()), cell.now)
    effects = cell.take(Submitted(simple(rate=20.0)))
    assert [m for _, m in sent(effects) if isinstance(m, ReleaseShares)]
    assert cell.machine.leaders["q"] is not old


def test_a_query_that_is_withdrawn_is_let_go_everywhere() -> None:
    cell = Cell("a")
    cell.take(Started(1))
    cell.take(Submitted(simple()))
    version = versions(cell)[0]
    leader = cell.machine.leaders["q"]
    leader.sought(Sought("q", version, 0, report()), cell.now)
    release = ReleaseShares("q", version)
    assert cell.take(Withdrawn("q")) == [Send("a", release), Send("b", release)]
    assert cell.take(Withdrawn("q")) == []


def test_a_new_incarnation_keeps_what_the_last_one_placed() -> None:
    leader = Leader()
    leader.machine.start(leader.now)
    sought(leader, report())
    enforced(leader)
    (told_last,) = told(keeps(leader, *CELLS), TellPlaced)
    cell = Cell("a")
    effects = cell.take(Started(2, (simple(),), (told_last,)))
    keep = Keep("q", told_last.version)
    assert [e for e in effects if isinstance(e, Send)] == [Send("a", keep), Send("b", keep)]
    running = cell.machine.leaders["q"].running
    assert running is not None
    assert running[0] == told_last.version
