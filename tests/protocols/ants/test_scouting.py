"""Scouts and the searches that send them; each name from the paper ends with its section of ants."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import inf
from random import Random
from typing import Any

import pytest
from protocols.ants.hand import Cell, only, queued, report, row, sent, simple, told
from protocols.ants.test_along import busy, stops_on
from protocols.ants.test_shares import PLACED

from australis.kernel.machine import Effect, Send, SetTimer, TimerFired
from australis.placement.model import Placement, footprint
from australis.placement.use import Use
from australis.protocols.ants.chains import chains, parts
from australis.protocols.ants.distances import Distances
from australis.protocols.ants.events import AntOptions, Dequeued, Disturbed, Queue
from australis.protocols.ants.messages import (
    Enforcement,
    Goal,
    Homing,
    Hop,
    Keep,
    Ping,
    Pong,
    Report,
    Reporting,
    Routing,
    Scout,
    Seek,
    Sought,
)
from australis.protocols.ants.observations import LinkObservation, ServerObservation
from australis.protocols.ants.path_search import Stop, best_along
from australis.protocols.ants.trails import MAX_STEPS

GOAL = Goal(simple(), 1, 0, {})


def scout(number: int = 1, alpha: float = 1.0, greed: int = 2, **changes: Any) -> Scout:
    """A scout to c that has seen nothing yet."""
    return Scout(GOAL, "c", number, alpha, greed, (), **changes)


def walk(cells: dict[str, Cell], ant: Scout) -> tuple[str, Any] | None:
    """Let a scout go from a to c; what leaves c then, if anything does."""
    at, effects = "a", cells["a"].machine.scouting.arrived(ant, cells["a"].now)
    while queued(effects):
        to, ant = only(cells[at].take(Dequeued(queued(effects)[0])))
        effects = cells[to].hears(at, ant)
        at = to
    messages = sent(effects)
    return messages[0] if messages else None


def cells(*speeds: float, bound: float = 0.9, **options: Any) -> dict[str, Cell]:
    """The cells of a row; scouts go straight from a to c, so that tests can be read."""
    network = row(*speeds, bound=bound)
    found = {name: Cell(name, network, **options) for name in network.servers}
    for name, cell in found.items():
        cell.machine.trails.towards = lambda destination, here=name: {"a": "b", "b": "c"}[here]  # type: ignore[misc]
    return found


# --- one scout -------------------------------------------------------------------------------


def test_it_takes_down_what_it_sees_and_waits_like_a_tuple_3_7() -> None:
    cell = Cell("b", row(1, 4, 1))
    cell.take(Disturbed(Use(0.5, 0.05, 1.0)))
    (ant,) = queued(cell.hears("a", scout()))
    assert ant.stops == (Stop(ServerObservation("b", 4.0, 0.9, Use(0.5, 0.05, 1.0)), None),)
    assert ant.steps == 1
    to, left = only(cell.take(Dequeued(ant)))
    assert to in ("a", "c")
    assert left.stops[0].onward == LinkObservation(0.001, 1e-8, Use())


def test_it_follows_pheromones_as_routing_ants_do_3_7() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    seen = Stop(ServerObservation("a", 1.0, 0.9, Use()), None)
    for _ in range(20):
        (ant,) = queued(cell.hears("a", Scout(GOAL, "e", 1, 1.0, 2, (seen,))))
        assert only(cell.take(Dequeued(ant)))[0] == "c", "not back where it came from"


def test_its_own_query_is_not_counted_as_anothers() -> None:
    """Where the query runs now is no reason against placing it there."""
    cell = Cell("b")
    cell.hears("a", Enforcement(simple(), 1, "a", PLACED, 1, 0.0, inf, (0, "q")))
    cell.hears("a", Keep("q", 1))
    (ant,) = queued(cell.hears("a", scout()))
    assert ant.stops[0].server.use == Use()
    cell.machine.trails.towards = lambda destination: "c"
    ant = Scout(GOAL, "c", 1, 1.0, 2, ant.stops, straight=True)
    to, left = only(cell.take(Dequeued(ant)))
    assert (to, left.stops[0].onward.use) == ("c", Use())
    assert cell.machine.ground.link("c").use.load > 0


def test_looking_changes_nothing_3_7() -> None:
    """Hypothetical placement calculations do not affect actual placement."""
    colony = cells(1, 8, 1)
    before = {name: cell.machine.ground.here() for name, cell in colony.items()}
    assert walk(colony, scout(straight=True)) is not None
    assert {name: cell.machine.ground.here() for name, cell in colony.items()} == before


def test_at_its_destination_it_goes_back_with_a_report_3_7() -> None:
    found = walk(cells(1, 8, 1), scout(straight=True))
    assert found is not None
    to, back = found
    assert (to, back.path, back.come_by) == ("b", ("a", "b"), "c")
    assert (back.goal, back.number) == (("q", 1, 0), 1)
    assert back.report.hosts == {"f": "b", "g": "b"}
    assert back.report.routes == {"f": ("a", "b"), "z": ("b", "c")}


def test_it_is_no_greedier_than_its_leader_made_it_3_7() -> None:
    """g controls how many tasks a scout places on one server."""
    found = walk(cells(1, 8, 1), scout(greed=1, straight=True))
    assert found is not None
    hosts = found[1].report.hosts
    assert hosts["f"] != hosts["g"]
    assert "b" in hosts.values()


def test_loads_stay_strictly_below_alpha_3_7() -> None:
    """Both tasks at b make a load of 0.05."""
    for alpha, together in ((0.051, True), (0.05, False)):
        found = walk(cells(3, 4, 3), scout(alpha=alpha, straight=True))
        assert found is not None
        hosts = found[1].report.hosts
        assert (hosts["f"] == hosts["g"] == "b") == together
        assert "b" in hosts.values()
    assert walk(cells(3, 4, 3), scout(alpha=0.02, straight=True)) is None


def test_a_scout_that_failed_stays_until_some_of_other_greed_have_failed_there_3_7() -> None:
    colony = cells(1, 1, 1, bound=0.05, failures_told=3)
    assert walk(colony, scout(greed=1, straight=True)) is None
    assert walk(colony, scout(greed=2, straight=True)) is None
    assert walk(colony, scout(greed=2, straight=True)) is None, "as greedy as the last"
    back = walk(colony, scout(greed=3, straight=True))
    assert back is not None
    assert back[1].report is None
    assert walk(colony, scout(greed=3, straight=True)) is None, "it is counted anew"


def test_the_one_that_goes_back_discourages_the_way_3_7() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    failed = Reporting(("q", 1, 0), 1, "e", ("a", "b"), "c", None)
    effects = cell.hears("c", failed)
    assert effects == [Send("a", Reporting(("q", 1, 0), 1, "e", ("a",), "b", None))]
    assert cell.machine.trails.vector("e", cell.now).probability("c") < 0.5


def test_one_that_succeeded_retraces_its_steps_past_all_queues_3_7() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    back = Reporting(("q", 1, 0), 1, "e", ("a", "b"), "c", report())
    assert cell.hears("c", back) == [
        Send("a", Reporting(("q", 1, 0), 1, "e", ("a",), "b", report()))
    ]
    assert cell.machine.trails.vector("e", cell.now).probability("c") == 0.5


def test_a_cycle_is_left_out_of_what_it_has_seen() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    seen = tuple(Stop(ServerObservation(name, 1.0, 0.9, Use()), None) for name in "abc")
    (ant,) = queued(cell.hears("c", Scout(GOAL, "e", 1, 1.0, 2, seen)))
    assert [stop.server.name for stop in ant.stops] == ["a", "b"]


def test_one_that_has_lost_its_way_dies() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    assert cell.hears("a", Scout(GOAL, "e", 1, 1.0, 2, (), steps=MAX_STEPS)) == []


# --- the best along a way --------------------------------------------------------------------


@pytest.mark.parametrize("greed", [1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_greed_and_alpha_leave_out_what_trying_everything_leaves_out(seed: int, greed: int) -> None:
    query, books = busy(seed, 4, linear=True)
    (chain,) = chains(query)
    path = books.network.way(query.producers[0].at, query.consumers[0].at)
    assert path
    alpha = Random(seed).uniform(0.3, 1.0)
    found = best_along(chain, parts(chain), stops_on(books, path), alpha, greed)
    best = inf
    for at in combinations_with_replacement(range(len(path)), len(chain.tasks)):
        hosts = {task: path[i] for task, i in zip(chain.tasks, at, strict=True)}
        made = footprint(query, Placement(hosts), books.network)
        assert made is not None
        loads = {spot: books.use(spot).load + made.uses[spot].load for spot in hosts.values()}
        if max(at.count(i) for i in at) <= greed and max(loads.values()) < alpha:
            best = min(best, books.cost_s(made))
    assert (found.cost if found else inf) == pytest.approx(best)


# --- distances -------------------------------------------------------------------------------


def test_a_server_is_half_as_far_as_its_answer_takes() -> None:
    one = Distances("b", AntOptions())
    assert one.ask(("b", "x", "y"), 1_000) == [Send("x", Ping(1_000)), Send("y", Ping(1_000))]
    one.answered("x", Pong(1_000), 41_000)
    assert one.of(("b", "x", "y")) == (("b", 0.0), ("x", 0.02))


def test_servers_are_asked_again_only_after_a_while() -> None:
    options = AntOptions()
    one = Distances("b", options)
    one.ask(("x", "y"), 0)
    one.answered("x", Pong(0), 10)
    assert one.ask(("x", "y"), options.resend_us - 1) == []
    assert [e.to for e in sent_by(one, options.resend_us)] == ["y"]
    assert [e.to for e in sent_by(one, options.expiry_us)] == ["x", "y"]


def sent_by(one: Distances, now: int) -> list[Send]:
    return [e for e in one.ask(("x", "y"), now) if isinstance(e, Send)]


def test_every_cell_answers_how_far_it_is() -> None:
    assert Cell("b").hears("x", Ping(7)) == [Send("x", Pong(7))]


# --- a search --------------------------------------------------------------------------------


def homes(cell: Cell, number: int) -> list[Effect]:
    """So many routing ants come back to a from c."""
    effects: list[Effect] = []
    for _ in range(number):
        effects += cell.hears("b", Homing("c", (Hop("a", 1_000),), "b", 1_000))
    return effects


def reports(cell: Cell, number: int, cost: float = 0.1, least: float = 0.0) -> list[Effect]:
    """A scout comes back."""
    back = Reporting(("q", 1, 0), number, "c", (), "b", report(cost, least=least))
    return cell.hears("b", back)


def search(**options: Any) -> tuple[Cell, list[Effect]]:
    """A search from a to c, asked for by a leader at x."""
    cell = Cell("a", row(1, 1, 1), **options)
    return cell, cell.hears("x", Seek(GOAL, "c"))


def scouts(effects: list[Effect]) -> list[Scout]:
    return [ant for ant in queued(effects) if isinstance(ant, Scout)]


def test_routing_ants_leave_first_and_scouts_when_enough_of_them_are_back_3_7() -> None:
    cell, effects = search(routing_ants=5, routes_needed=3, scouts=4)
    patience = SetTimer("seek q 1 0", cell.now + cell.machine.options.patience_us)
    ant = Routing("c", (), "a", cell.now)
    assert effects == [patience, *5 * [Queue(ant)]]
    assert homes(cell, 2) == []
    assert len(scouts(homes(cell, 1))) == 4
    assert homes(cell, 5) == [], "they leave once"


def test_scouts_leave_at_once_where_the_way_is_known() -> None:
    cell = Cell("a", row(1, 1, 1), routes_needed=3, scouts=4)
    homes(cell, 3)
    assert len(scouts(cell.hears("x", Seek(GOAL, "c")))) == 4


def test_fewer_leave_for_a_query_that_runs_already_3_9() -> None:
    cell = Cell("a", row(1, 1, 1), routes_needed=3, scouts=12, scouts_again=4)
    homes(cell, 3)
    again = Goal(simple(), 1, 0, {}, again=True)
    assert len(scouts(cell.hears("x", Seek(again, "c")))) == 4


def test_alpha_and_greed_are_drawn_for_every_other_scout_3_7() -> None:
    cell, _ = search(routes_needed=1, scouts=40)
    ants = scouts(homes(cell, 1))
    assert {(ant.alpha, ant.greed) for ant in ants[::2]} == {(1.0, 2)}
    drawn = ants[1::2]
    assert all(0.5 <= ant.alpha <= 1.0 for ant in drawn)
    assert {ant.greed for ant in drawn} == {1, 2}
    assert len({ant.alpha for ant in drawn}) == len(drawn)


def test_the_best_of_enough_reports_is_told_3_8() -> None:
    cell, _ = search(routes_needed=1, scouts=4, reports_needed=3)
    homes(cell, 1)
    assert reports(cell, 1, 0.3) == []
    assert reports(cell, 2, 0.2) == []
    assert reports(cell, 2, 0.2) == [], "one scout counts once"
    assert reports(cell, 3, 0.25) == [Send("x", Sought("q", 1, 0, report(0.2)))]
    assert reports(cell, 4, 0.1) == [], "too late"


def test_an_outstanding_report_is_told_at_once_3_8() -> None:
    cell, _ = search(routes_needed=1, outstanding=0.02)
    homes(cell, 1)
    assert reports(cell, 1, 0.103, least=0.1) == []
    (effect,) = reports(cell, 2, 0.102, least=0.1)
    assert effect.message.report.cost == 0.102  # type: ignore[attr-defined]


def test_what_lies_off_the_way_counts_when_reports_are_compared() -> None:
    cell, _ = search(routes_needed=1, reports_needed=2)
    homes(cell, 1)
    far, near = Report({}, {}, 0.1, 0.0, pulled=0.2), Report({}, {}, 0.2, 0.0, pulled=0.05)
    cell.hears("b", Reporting(("q", 1, 0), 1, "c", (), "b", far))
    _, message = only(cell.hears("b", Reporting(("q", 1, 0), 2, "c", (), "b", near)))
    assert message.report == near


def test_when_too_few_are_back_in_time_more_leave_3_8() -> None:
    cell, _ = search(routing_ants=5, routes_needed=1, scouts=4)
    homes(cell, 1)
    reports(cell, 1)
    effects = fires(cell)
    assert len(scouts(effects)) == 4
    assert len(queued(effects)) == 9
    assert told(effects, SetTimer)
    numbers = {ant.number for ant in scouts(effects)}
    assert numbers == {5, 6, 7, 8}, "their reports do not replace others'"


def test_when_some_are_back_in_time_they_will_do() -> None:
    cell, _ = search(routes_needed=1)
    homes(cell, 1)
    for number in (1, 2, 3):
        reports(cell, number, number / 10)
    assert fires(cell) == [Send("x", Sought("q", 1, 0, report(0.1)))]


def test_when_none_come_however_often_ants_leave_nothing_was_found() -> None:
    cell, _ = search(tries=3)
    for _ in range(2):
        assert sent(fires(cell)) == []
    assert fires(cell) == [Send("x", Sought("q", 1, 0, None))]
    assert fires(cell) == []


def test_the_same_search_is_not_begun_twice() -> None:
    cell, _ = search()
    assert cell.hears("x", Seek(GOAL, "c")) == [], "a leader asks again when an answer may be lost"


def fires(cell: Cell) -> list[Effect]:
    """Patience is over."""
    return cell.take(TimerFired("seek q 1 0"), 2)
