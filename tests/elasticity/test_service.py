"""Service times: what they say, back and forth, and where a core is no longer worth its price."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isclose
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.elasticity.service import (
    Feed,
    Ideal,
    Paced,
    Sampled,
    Saturating,
    ServiceTime,
    WithMinimum,
    fed,
)
from australis.kernel.errors import UserError


def samples(seed: int) -> Sampled:
    """Times measured with some numbers of cores, with disturbances."""
    rng = Random(seed)
    cores = rng.sample(range(1, 40), rng.randint(1, 8))
    real = WithMinimum(rng.uniform(0.1, 10.0), rng.uniform(1.0, 40.0))
    return Sampled(tuple((n, real.time_s(n) * rng.uniform(0.8, 1.25)) for n in cores))


running = st.floats(0.01, 20.0)
fastest = st.floats(1.0, 50.0)
plain: st.SearchStrategy[ServiceTime] = st.one_of(
    st.builds(Ideal, running),
    st.builds(Saturating, running, fastest),
    st.builds(WithMinimum, running, fastest),
    st.builds(samples, st.integers(0, 1 << 30)),
)
models: st.SearchStrategy[ServiceTime] = st.one_of(
    plain, st.builds(Paced, plain, st.floats(0.001, 5.0))
)


def most(model: ServiceTime) -> float:
    return min(model.fastest, 60.0)


@given(models, st.floats(0.01, 1.0))
def test_degrees_and_times_say_the_same(model: ServiceTime, part: float) -> None:
    degree = part * most(model)
    assert model.degree(model.time_s(degree)) == pytest.approx(degree, rel=1e-6)
    time_s = model.time_s(most(model)) / part
    assert model.time_s(model.degree(time_s)) == pytest.approx(time_s, rel=1e-9)


@given(models, st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_times_fall_and_are_convex(model: ServiceTime, one: float, other: float) -> None:
    low, high = sorted((one * most(model), other * most(model)))
    slow, fast = model.time_s(low), model.time_s(high)
    assert fast <= slow * (1 + 1e-12)
    assert model.time_s((low + high) / 2) <= (slow + fast) / 2 * (1 + 1e-12)


@given(models, st.floats(1e-5, 10.0))
def test_one_more_core_is_not_worth_its_price(model: ServiceTime, price_s: float) -> None:
    best = model.worth(price_s)
    cost = model.time_s(best) + price_s * best
    assert best <= model.fastest
    for n in range(1, 200):
        degree = most(model) * n / 100
        assert cost <= (model.time_s(degree) + price_s * degree) * (1 + 1e-9)


@given(models)
def test_what_costs_nothing_is_taken_as_far_as_it_helps(model: ServiceTime) -> None:
    assert model.worth(0.0) == model.fastest
    assert model.worth(-1.0) == model.fastest


@given(models, st.floats(0.02, 1.0))
def test_slopes_are_what_the_last_core_saved(model: ServiceTime, part: float) -> None:
    degree = part * most(model)
    less = degree * (1 - 1e-6)
    difference = (model.time_s(degree) - model.time_s(less)) / (degree - less)
    nearly = 1e-4 * model.time_s(degree) / degree
    assert model.slope(less) - nearly <= difference <= model.slope(degree) + nearly


@given(models, st.floats(0.1, 10.0))
def test_another_running_time_leaves_the_curve_as_it_is(model: ServiceTime, factor: float) -> None:
    other = model.taking(model.running_s * factor)
    if isinstance(model, Paced) and isinstance(other, Paced):
        model, other = model.service, other.service
    for degree in (0.5, 1.0, 2.5, 7.0):
        assert isclose(other.time_s(degree), factor * model.time_s(degree), rel_tol=1e-9)
    assert other.fastest == model.fastest


@given(models, st.floats(1.0, 1e3))
def test_faster_than_possible_takes_all_that_helps(model: ServiceTime, times: float) -> None:
    if model.fastest < inf:
        assert model.degree(model.time_s(model.fastest) / times) <= model.fastest


def test_samples_of_a_module_that_scales_give_the_ideal_curve() -> None:
    model = Sampled(tuple((n, 12.0 / n) for n in (1, 3, 10)))
    assert model.time_s(5.0) == pytest.approx(2.4)
    assert model.running_s == pytest.approx(12.0)
    assert model.worth(0.5) == pytest.approx(Ideal(12.0).worth(0.5))


def test_a_sample_that_was_disturbed_is_passed_over() -> None:
    model = Sampled(((1, 10.0), (2, 9.0), (4, 2.5), (8, 2.0)))
    assert model.time_s(2.0) == pytest.approx(5.0)
    assert model.time_s(8.0) == pytest.approx(2.0)
    assert model.time_s(100.0) == pytest.approx(2.0)


def test_a_source_is_no_faster_than_tasks_come() -> None:
    source = Paced(Ideal(1.0), 0.25)
    assert source.time_s(2.0) == 0.5
    assert source.time_s(16.0) == 0.25
    assert source.fastest == source.worth(1e-9) == 4.0


def test_a_source_is_fed_anew() -> None:
    assert fed(Paced(Ideal(1.0), 0.25), 0.5) == Paced(Ideal(1.0), 0.5)
    assert fed(Feed(0.25), 0.5) == Feed(0.5)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Ideal(0.0), "takes 0 s for a task, not more than 0"),
        (lambda: Ideal(-1.0), "takes -1 s for a task"),
        (lambda: Saturating(1.0, 0.5), "is fastest with 0.5 cores, not with at least 1"),
        (lambda: WithMinimum(inf, 2.0), "takes inf s for a task"),
        (lambda: Sampled(()), "has no samples of its service time"),
        (lambda: Sampled(((1, 1.0), (1, 2.0))), "two samples .* for one number of cores"),
        (lambda: Sampled(((0, 1.0),)), "has a sample of 1 s with 0 cores, not above 0"),
        (lambda: Paced(Ideal(1.0), 0.0), "gets a task every 0 s, not more than 0"),
    ],
)
def test_service_times_that_cannot_be(make: Callable[[], object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        make()
