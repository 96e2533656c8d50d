"""Shares at a cell: what there is room for, what it costs, how long it is held and kept."""

from __future__ import annotations

from itertools import pairwise

import pytest
from protocols.ants.hand import HOSTS, Cell, only, row, simple

from australis.kernel.durations import SECOND
from australis.kernel.machine import Send, TimerFired
from australis.placement.model import Books, Placement, footprint
from australis.placement.use import Use
from australis.protocols.ants.events import Disturbed, Measured
from australis.protocols.ants.leader import shares
from australis.protocols.ants.messages import Enforced, Enforcement, Keep, Kept, ReleaseShares
from australis.protocols.ants.server_state import ServerState

PLACED = shares(HOSTS, {("p", "f"): ("a", "b"), ("g", "z"): ("b", "c")})
RANK = (0, "q")


def enforcement(most: float = 1.0, version: int = 1, at: int = 1, cost: float = 0.0) -> Enforcement:
    return Enforcement(simple(), version, "a", PLACED, at, cost, most, RANK)


def load(cell: Cell) -> float:
    return cell.machine.ground.load


# --- what it costs ---------------------------------------------------------------------------


def test_shares_cost_together_what_the_model_says() -> None:
    network, query = row(1, 2, 1), simple()
    books = Books(network)
    books.add(simple("other", rate=20.0), Placement({"f": "b", "g": "c"}))
    cost_s = 0.0
    for share in PLACED:
        links = {to: wire for (a, to), wire in network.links.items() if a == share.cell}
        ground = ServerState(network.servers[share.cell], links)
        ground.busy_with(books.use(share.cell))
        for to in links:
            link = ground.links[to]
            ground.links[to] = type(link)(
                link.latency_s, link.s_per_byte, books.use((share.cell, to))
            )
        cost_s += ground.cost(query, share)
    made = footprint(query, Placement(HOSTS), network)
    assert made is not None
    assert cost_s == pytest.approx(books.cost_s(made))


def test_every_link_of_a_route_belongs_to_the_cell_it_leaves_from() -> None:
    assert [share.cell for share in PLACED] == ["a", "b"]
    sends = {(share.cell, to) for share in PLACED for to, _, _ in share.sends}
    assert sends == {*pairwise("abc")}


# --- enforcement -----------------------------------------------------------------------------


def test_the_cell_works_the_cost_out_again_and_holds_its_share_3_8() -> None:
    cell = Cell("b")
    cost = cell.machine.ground.cost(simple(), PLACED[1])
    assert cell.hears("a", enforcement(cost=0.5)) == [Send("a", Enforced("q", 1, 0.5 + cost))]
    assert load(cell) == pytest.approx(0.2)
    assert cell.machine.ground.running() == {}, "held is not yet run"


def test_the_ant_goes_on_to_the_next_cell_with_what_it_costs_so_far() -> None:
    cell = Cell("a")
    to, further = only(cell.hears("a", enforcement(at=0)))
    assert (to, further.at) == ("b", 1)
    assert further.cost == pytest.approx(cell.machine.ground.cost(simple(), PLACED[0]))
    assert (further.query, further.version, further.most) == (simple(), 1, 1.0)


def test_it_returns_without_placing_if_it_costs_too_much_by_now_3_8() -> None:
    cell = Cell("b")
    cost = cell.machine.ground.cost(simple(), PLACED[1])
    effects = cell.hears("a", enforcement(most=cost * 0.99))
    assert effects == [Send("a", Enforced("q", 1, cost, refused_by="b"))]
    assert load(cell) == 0


def test_what_others_do_counts_when_it_is_worked_out_again_3_8() -> None:
    cell = Cell("b")
    alone = cell.machine.ground.cost(simple(), PLACED[1])
    cell.take(Disturbed(Use(0.5, 0.05, 1.0)))
    assert cell.machine.ground.cost(simple(), PLACED[1]) > alone


@pytest.mark.parametrize(("others", "refused"), [(0.69, ""), (0.71, "b")])
def test_a_server_is_not_used_beyond_its_bound_3_7(others: float, refused: str) -> None:
    cell = Cell("b", row(1, 1, 1, bound=0.9))
    cell.take(Disturbed(Use(others, 0.01, 0.0)))
    (effect,) = cell.hears("a", enforcement(most=100.0))
    assert effect.message.refused_by == refused  # type: ignore[attr-defined]


def test_a_held_share_leaves_no_room_for_another_that_would_fill_the_server() -> None:
    cell = Cell("b", row(1, 1, 1, bound=0.3))
    cell.hears("a", enforcement())
    other = Enforcement(simple("r"), 1, "a", PLACED, 1, 0.0, 100.0, (0, "r"))
    assert only(cell.hears("a", other))[1].refused_by == "b"


def test_a_new_version_needs_no_room_beside_the_one_it_replaces() -> None:
    cell = Cell("b", row(1, 1, 1, bound=0.3))
    cell.hears("a", enforcement())
    assert only(cell.hears("a", enforcement(version=2)))[1].refused_by == ""


def test_unless_that_one_stays_for_others() -> None:
    cell = Cell("b", row(1, 1, 1, bound=0.3))
    cell.hears("a", enforcement())
    cell.hears("a", Keep("q", 1))
    beside = Enforcement(simple(), 2, "a", PLACED, 1, 0.0, 100.0, RANK, beside=True)
    assert only(cell.hears("a", beside))[1].refused_by == "b"


# --- held, kept, let go ----------------------------------------------------------------------


def test_a_share_runs_once_it_is_kept() -> None:
    cell = Cell("b")
    cell.hears("a", enforcement())
    to, kept = only(cell.hears("a", Keep("q", 1)))
    assert (to, kept.there) == ("a", True)
    assert kept.cost == pytest.approx(cell.machine.ground.cost(simple(), PLACED[1]))
    assert set(cell.machine.ground.running()) == {("q", 1)}


def test_a_share_that_was_never_held_cannot_be_kept() -> None:
    cell = Cell("b")
    assert cell.hears("a", Keep("q", 1)) == [Send("a", Kept("q", 1, there=False))]


@pytest.mark.parametrize(("keep", "lasts"), [(False, "hold_us"), (True, "lease_us")])
def test_what_is_held_or_kept_goes_by_itself(keep: bool, lasts: str) -> None:
    cell = Cell("b")
    cell.hears("a", enforcement())
    if keep:
        cell.hears("a", Keep("q", 1))
    until_us = cell.now + getattr(cell.machine.options, lasts)
    cell.now = until_us - 1
    cell.take(TimerFired("tidy"))
    assert load(cell) > 0
    cell.now = until_us
    cell.take(TimerFired("tidy"))
    assert load(cell) == 0
    assert only(cell.hears("a", Keep("q", 1)))[1].there is False


def test_a_lease_is_renewed_by_keeping() -> None:
    cell = Cell("b")
    cell.hears("a", enforcement())
    for _ in range(5):
        assert only(cell.hears("a", Keep("q", 1), 20))[1].there
        cell.take(TimerFired("tidy"))
    assert load(cell) > 0


def test_a_released_share_is_gone_at_once() -> None:
    cell = Cell("b")
    cell.hears("a", enforcement())
    cell.hears("a", enforcement(version=2))
    assert cell.hears("a", ReleaseShares("q", 1)) == []
    assert only(cell.hears("a", Keep("q", 1)))[1].there is False
    assert only(cell.hears("a", Keep("q", 2)))[1].there is True
    assert cell.hears("a", ReleaseShares("never", 7)) == []


def test_one_that_others_use_goes_only_after_a_while() -> None:
    cell = Cell("b")
    cell.hears("a", enforcement())
    cell.hears("a", Keep("q", 1))
    cell.hears("a", ReleaseShares("q", 1, soon=True))
    grace_s = cell.machine.options.grace_us / SECOND
    cell.take(TimerFired("tidy"), grace_s - 0.01)
    assert load(cell) > 0
    cell.take(TimerFired("tidy"), 0.01)
    assert load(cell) == 0


def test_one_that_stays_for_others_counts_as_another_querys() -> None:
    cell = Cell("b")
    cell.hears("a", enforcement())
    cell.hears("a", Keep("q", 1))
    ground = cell.machine.ground
    assert ground.here(but="q").use.load == 0
    assert ground.link("c", but="q").use.load == 0
    cell.hears("a", ReleaseShares("q", 1, soon=True))
    assert ground.here(but="q").use.load == pytest.approx(0.2)
    assert ground.link("c", but="q").use.load > 0


def test_a_measured_query_uses_what_was_measured() -> None:
    cell = Cell("b")
    cell.hears("a", enforcement())
    cell.take(Measured(simple(rate=20.0)))
    assert load(cell) == pytest.approx(0.4)
