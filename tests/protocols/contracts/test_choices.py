"""Which tasks are offered and taken, and for what (figures 6-4, 6-5, section 6.6.2)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.protocols.contracts.choices import (
    Valuation,
    acceptset,
    counter_offer,
    load_of,
    marked_up,
    offerset,
)
from australis.protocols.contracts.costs import Costs, Levels, Load
from australis.protocols.contracts.terms import Contract, Task, refuse_unless_consistent

VALUE = Valuation(costs=Costs(cpu=Levels()))


def tasks(count: int, **given: object) -> list[Task]:
    return [Task(f"t{n}", Load(cpu=1.0), "a", **given) for n in range(count)]  # type: ignore[arg-type]


def contract(low: float, high: float | None = None, **given: object) -> Contract:
    return Contract(buyer="a", seller="b", low=low, high=high or low, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("load", "offers", "takes"), [(101, 1, 0), (100, 0, 0), (99, 0, 1)])
def test_a_contract_at_a_hundred(load: int, offers: int, takes: int) -> None:
    """Load moves as soon as the buyer has 101 tasks and the seller 99 (7.1.2)."""
    mine = tasks(load)
    assert len(offerset(VALUE, load_of(mine), mine, contract(100.0), 100.0)) == offers
    assert len(acceptset(VALUE, load_of(mine), tasks(5), contract(100.0), 100.0)) == takes


@settings(derandomize=True)
@given(buyer=st.integers(0, 60), seller=st.integers(0, 60), price=st.floats(1, 50))
def test_both_gain_by_what_they_agree_on(buyer: int, seller: int, price: float) -> None:
    """A movement is individually rational, task by task and as a whole (property 1)."""
    terms, mine = contract(price), tasks(buyer)
    offered = offerset(VALUE, load_of(mine), mine, terms, price) if buyer else []
    there = Load(cpu=float(seller))
    taken = acceptset(VALUE, there, offered, terms, price)
    moved, paid = load_of(taken), terms.units(load_of(taken)) * price
    here = load_of(mine)
    saved = VALUE.costs.cost(here) - VALUE.costs.cost(here - moved)
    spent = VALUE.costs.cost(there + moved) - VALUE.costs.cost(there)
    assert saved > paid > spent or not taken


def test_moving_there_and_back_is_paid_for() -> None:
    """The price plus twice the cost of moving must be less than what is saved (6.4)."""
    mine = tasks(105, state_mb=10.0)
    cheap = Valuation(costs=VALUE.costs, moving_per_mb=0.01)
    dear = Valuation(costs=VALUE.costs, moving_per_mb=1.0)
    terms = contract(100.0, duration_us=10 * SECOND)
    assert cheap.moving(mine[0], terms) == pytest.approx(0.02)
    assert len(offerset(cheap, load_of(mine), mine, terms, 100.0)) == 5
    assert len(offerset(dear, load_of(mine), mine, terms, 100.0)) == 3


def test_what_counts_is_the_load_that_is_expected() -> None:
    """Expressions 6.6 and 6.7: the average over d, not the load now."""
    falling = Valuation(costs=VALUE.costs, outlook=(1.0, 0.5))
    mine = tasks(110)
    assert len(offerset(VALUE, load_of(mine), mine, contract(100.0), 100.0)) == 10
    assert offerset(falling, load_of(mine), mine, contract(100.0), 100.0) == []


def test_a_margin_keeps_load_where_it_is() -> None:
    careful = Valuation(costs=VALUE.costs, margin=0.02)
    mine = tasks(102)
    assert offerset(careful, load_of(mine), mine, contract(100.0), 100.0) == []
    assert acceptset(careful, Load(cpu=99.0), tasks(1), contract(100.0), 100.0) == []


def test_only_kinds_that_the_contract_allows() -> None:
    mine = [*tasks(100), *(Task(f"s{n}", Load(cpu=1.0), "a", kind="secret") for n in range(10))]
    open_only = contract(100.0, kinds=("",))
    offered = offerset(VALUE, load_of(mine), mine, open_only, 100.0)
    assert len(offered) == 10
    assert {task.kind for task in offered} == {""}


def test_a_seller_asks_for_what_a_task_costs_it() -> None:
    """Within the range a counter-offer is for one task (6.6.2)."""
    found = counter_offer(VALUE, Load(cpu=97.0), tasks(4), contract(95.0, 100.0))
    assert found is not None
    assert found[0] == 97.5
    assert len(found[1]) == 1
    assert counter_offer(VALUE, Load(cpu=100.0), tasks(4), contract(95.0, 100.0)) is None


def test_at_the_highest_price_a_seller_takes_all_it_can() -> None:
    found = counter_offer(VALUE, Load(cpu=97.0), tasks(9), contract(95.0, 100.0), above=5.0)
    assert found is not None
    assert found[0] == 100.0
    assert len(found[1]) == 3


@pytest.mark.parametrize(
    ("competitors", "offers"),
    [
        (1, (0.33, 0.50, 0.67, 0.83)),
        (3, (0.20, 0.40, 0.60, 0.80)),
        (5, (0.14, 0.36, 0.57, 0.79)),
        (7, (0.11, 0.33, 0.55, 0.78)),
    ],
)
def test_the_mark_up_of_table_62(competitors: int, offers: tuple[float, ...]) -> None:
    """The best counter-offer with so many rivals and a buyer who may not afford it: the buyer
    counts as one more seller (6.6.2)."""
    whole = contract(0.0, 1.0)
    for worth, wanted in zip((0.0, 0.25, 0.5, 0.75), offers, strict=True):
        found = marked_up(worth, whole, competitors + 2)
        assert math.isclose(found, wanted, abs_tol=0.0101)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"low": 2.0, "high": 1.0}, "has a price between 2 and 1"),
        ({"low": -1.0, "high": 1.0}, "has a price between -1 and 1"),
        ({"low": 1.0, "high": 1.0, "duration_us": 0}, "should last longer than nothing"),
        ({"low": 1.0, "high": 1.0, "unit": Load()}, "says of no resource what a unit is"),
        ({"low": 1.0, "high": 1.0, "seller": "a"}, "is a contract with oneself"),
        ({"low": 1.0, "high": 1.0, "begins_us": 5, "ends_us": 5}, "ends before it begins"),
    ],
)
def test_contracts_that_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Contract(**({"buyer": "a", "seller": "b"} | given))  # type: ignore[arg-type]


def test_partners_are_known_and_a_pair_has_one_contract_a_direction() -> None:
    fixed = contract(1.0)
    with pytest.raises(UserError, match=r"'b' is no participant \(participants: a, c\)"):
        refuse_unless_consistent([fixed], ["a", "c"])
    with pytest.raises(UserError, match="'a and b' have two contracts for one direction"):
        refuse_unless_consistent([fixed, fixed], ["a", "b"])
