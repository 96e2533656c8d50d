"""Planning: prices, ranges and numbers of contracts (thesis 6.5, 6.6.1)."""

from __future__ import annotations

import numpy as np
import pytest

from australis.kernel.errors import UserError
from australis.protocols.contracts.costs import Costs, InFlight, Levels, Load
from australis.protocols.contracts.planning import (
    advise,
    benefits,
    best_counter_offer,
    best_number,
    capacity_at,
    decrease,
    minimal_range,
    price_at,
)

LEVELS = Costs(cpu=Levels())
ONE = Load(cpu=1.0)


def test_a_price_and_the_load_level_it_stands_for() -> None:
    queue = Costs(cpu=InFlight(100.0))
    for tasks in (1, 14, 70, 99):
        assert capacity_at(queue, ONE, price_at(queue, ONE, tasks)) == tasks


def test_the_range_of_a_direct_contract_is_a_fixed_price() -> None:
    assert minimal_range(LEVELS, ONE, 100.0, 1) == (100.0, 100.0)


def test_delta_is_what_the_last_task_costs_less() -> None:
    """Expression 6.15, for tasks that cost one more each."""
    assert decrease(LEVELS, ONE, 100, 3) == 3.0
    with pytest.raises(UserError, match="too far"):
        decrease(LEVELS, ONE, 3, 3)


def test_the_best_counter_offer_beats_its_neighbours() -> None:
    """Expression 6.17."""
    for competitors in (1, 3, 7):
        for worth in (0.0, 0.4):

            def profit(p: float, s: float = worth, c: int = competitors) -> float:
                return (p - s) * (1 - p) ** c * (1 - p)

            best = best_counter_offer(worth, competitors)
            assert profit(best) > max(profit(best - 0.01), profit(best + 0.01))


def test_each_contract_helps_a_little_less() -> None:
    rng = np.random.default_rng(1)
    found = benefits(
        lambda shape: rng.uniform(0, 2, shape), lambda shape: rng.uniform(0, 1, shape), 6, 20_000
    )
    saved = [b.saved for b in found]
    gains = np.diff(saved)
    assert (gains > 0).all()
    assert (np.diff(gains) < 0).all()
    assert best_number(found, 0.0) == 6
    assert best_number(found, 1.0) == 0


def test_advice_from_the_past() -> None:
    rng = np.random.default_rng(2)
    record = np.concatenate([rng.uniform(20, 90, 900), rng.uniform(100, 200, 100)])
    advice = advise(record, 100.0, LEVELS, ONE, 4, 0.1, rng, draws=20_000)
    assert advice.spikes == pytest.approx(0.1, abs=0.01)
    assert 1 <= advice.contracts <= 8
    assert advice.price == 100.0
    assert advice.range == (97.0, 100.0)


@pytest.mark.parametrize("record", [[], [-1.0], [float("nan")]])
def test_a_record_that_is_none_is_refused(record: list[float]) -> None:
    with pytest.raises(UserError):
        advise(np.array(record), 1.0, LEVELS, ONE, 1, 0.1, np.random.default_rng(1))
