"""Cost functions: what they are, and which ones are refused (thesis 6.1.2, 7.2.1, 7.4.2)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.kernel.errors import UserError
from australis.protocols.contracts.costs import (
    Costs,
    Curve,
    InFlight,
    Levels,
    Load,
    Polyline,
    Step,
    per_task,
    sampled,
)

CURVES: list[Curve] = [
    InFlight(100.0),
    Levels(),
    Polyline(((0.0, 0.0), (50.0, 10.0), (80.0, 40.0))),
    Step(60.0, 2.0),
    sampled(lambda x: x**3, 120.0),
]


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: type(c).__name__)
@settings(derandomize=True)
@given(x=st.floats(0, 300), by=st.floats(0.01, 10), further=st.floats(0, 100))
def test_one_more_task_never_costs_less_than_the_one_before(
    curve: Curve, x: float, by: float, further: float
) -> None:
    first = curve.cost(x + by) - curve.cost(x)
    later = curve.cost(x + further + by) - curve.cost(x + further)
    assert first >= -1e-9
    assert later >= first - 1e-6 * max(1.0, abs(later))


def test_in_flight_adds_up_cpu_and_bandwidth() -> None:
    """Expression 7.1."""
    costs = Costs(cpu=InFlight(1.0), bandwidth=InFlight(100.0))
    assert math.isclose(costs.cost(Load(cpu=0.5, bandwidth=75.0)), 1.0 + 3.0)


def test_a_full_resource_still_has_a_price() -> None:
    """Somebody with three times its capacity must be able to shed load."""
    found = per_task(Costs(cpu=InFlight(100.0)), Load(cpu=1.0), 300)
    assert all(map(math.isfinite, found))
    assert found == sorted(found)


def test_beyond_its_limit_each_unit_of_memory_costs_the_same() -> None:
    costs = Costs(memory=Step(10.0, 3.0))
    assert costs.marginal(Load(memory=4.0), Load(memory=2.0)) == 0
    assert costs.marginal(Load(memory=4.0), Load(memory=10.0)) == 12.0
    assert costs.marginal(Load(memory=4.0), Load(memory=50.0)) == 12.0


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (((0.0, 0.0), (1.0, -1.0)), "'cost' falls between 0 and 1"),
        (((0.0, 0.0), (1.0, 2.0), (2.0, 3.0)), "'cost' is not convex: it rises less steeply"),
        (((0.0, 0.0), (1.0, 1.0), (1.0, 2.0)), "'cost' goes back from 1 to 1"),
        (((0.0, 0.0),), "'cost' needs two points at least"),
    ],
)
def test_costs_that_are_none_are_refused(
    points: tuple[tuple[float, float], ...], said: str
) -> None:
    with pytest.raises(UserError) as error:
        Polyline(points)
    assert str(error.value).startswith(said)


def test_a_function_of_ones_own_is_looked_at() -> None:
    with pytest.raises(UserError, match="is not convex"):
        sampled(math.sqrt, 10.0)
    with pytest.raises(UserError, match="falls"):
        sampled(lambda x: -x, 10.0)


def test_costs_of_nothing_are_refused() -> None:
    with pytest.raises(UserError, match="counts nothing"):
        Costs()
