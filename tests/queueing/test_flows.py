"""Waits from formulas, beside queues that really run and beside those whose waits are known."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queueing.known import dm1_wait_s, mg1_wait_s, mm1_wait_s, mmc_wait_s

from australis.kernel.errors import UserError
from australis.queueing.flows import Demand, Flow
from australis.queueing.links import Wire

FLOWS = st.builds(
    Flow,
    rate=st.floats(0.01, 100),
    service_s=st.floats(0.0001, 0.05),
    arrivals_scv=st.floats(0, 4),
    service_scv=st.floats(0, 4),
)


def gamma(rng: np.random.Generator, mean: float, scv: float, size: int) -> np.ndarray:
    """Times with a mean and a variability."""
    return np.full(size, mean) if scv == 0 else rng.gamma(1 / scv, mean * scv, size)


def waits(flows: list[Flow], seconds: float, seed: int = 1) -> float:
    """The mean wait of tuples in a queue that runs, first come, first served."""
    rng = np.random.default_rng(seed)
    arrivals, services = [], []
    for flow in flows:
        size = int(flow.rate * seconds)
        arrivals.append(np.cumsum(gamma(rng, 1 / flow.rate, flow.arrivals_scv, size)))
        services.append(gamma(rng, flow.service_s, flow.service_scv, size))
    order = np.argsort(np.concatenate(arrivals))
    at, takes = np.concatenate(arrivals)[order], np.concatenate(services)[order]
    # Lindley: a tuple waits for what is left of the one before it and its wait.
    steps = takes[:-1] - np.diff(at)
    walk = np.concatenate([[0.0], np.cumsum(steps)])
    return float(np.mean(walk - np.minimum.accumulate(walk)))


@given(st.floats(0.01, 0.99), st.floats(0, 5))
def test_exact_for_poisson_arrivals(load: float, scv: float) -> None:
    flow = Flow(rate=load / 0.1, service_s=0.1, service_scv=scv)
    wait = Demand.of(flow).wait_s
    assert wait == pytest.approx(mg1_wait_s(flow.rate, 0.1, scv))
    if scv == 1:
        assert wait == pytest.approx(mm1_wait_s(flow.rate, 0.1))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.85])
def test_several_flows_as_in_a_queue_that_runs(load: float) -> None:
    kinds = [(0.02, 0.0), (0.05, 1.0), (0.15, 2.0)]
    flows = [Flow(load / 3 / s, s, service_scv=scv) for s, scv in kinds]
    assert Demand.total(flows).load == pytest.approx(load)
    simulated = waits(flows, 200_000)
    assert Demand.total(flows).wait_s == pytest.approx(simulated, rel=0.05)


@pytest.mark.parametrize("scv", [0.2, 0.5, 3.0])
def test_other_arrivals_are_approximated(scv: float) -> None:
    """Not exact then: within a third at high load, where it matters."""
    flows = [Flow(2.0, 0.1, arrivals_scv=scv) for _ in range(4)]
    simulated = waits(flows, 200_000)
    assert Demand.total(flows).wait_s == pytest.approx(simulated, rel=0.33)


def test_arrivals_at_equal_times_are_not_met() -> None:
    """What Marchal's formula says of D/M/1 is twice the truth at half load."""
    flow = Flow(5.0, 0.1, arrivals_scv=0.0)
    assert Demand.of(flow).wait_s == pytest.approx(0.05)
    assert waits([flow], 100_000) == pytest.approx(dm1_wait_s(5.0, 0.1), rel=0.05)


@given(st.lists(FLOWS, min_size=1, max_size=6), FLOWS)
def test_adding_and_taking_away_a_flow_changes_nothing(flows: list[Flow], one: Flow) -> None:
    before = Demand.total(flows)
    after = before + Demand.of(one) - Demand.of(one)
    assert after.load == pytest.approx(before.load)
    assert after.arrivals_scv == pytest.approx(before.arrivals_scv, abs=1e-3)
    assert after.service_scv == pytest.approx(before.service_scv, abs=1e-3)


@given(st.lists(FLOWS, min_size=1, max_size=6), FLOWS)
def test_another_poisson_flow_never_shortens_the_wait_of_all(flows: list[Flow], one: Flow) -> None:
    poisson = [Flow(f.rate, f.service_s, 1.0, f.service_scv) for f in (*flows, one)]
    before = Demand.total(poisson[:-1])
    after = before + Demand.of(poisson[-1])
    assert after.wait_s >= before.wait_s * (1 - 1e-9)


def test_too_much_to_do_waits_for_ever() -> None:
    assert Demand.of(Flow(10.0, 0.1)).wait_s == inf
    assert mmc_wait_s(20.0, 0.1, 2) == inf


def test_many_servers_wait_less_than_one_as_fast() -> None:
    assert mmc_wait_s(15.0, 0.1, 2) < mm1_wait_s(15.0, 0.05)


def test_a_link_is_a_server_with_a_way_behind_it() -> None:
    wire = Wire(1e6, latency_s=0.02)
    flow = wire.flow(100.0, 5_000.0)
    assert wire.delay_s(Demand.of(flow), flow) == pytest.approx(0.02 + 0.005 + 0.0025)


@pytest.mark.parametrize("what", ["rate", "service_s", "arrivals_scv", "service_scv"])
def test_nothing_is_negative(what: str) -> None:
    good = {"rate": 1.0, "service_s": 0.1}
    with pytest.raises(UserError, match=f"'{what}' should not be negative"):
        Flow(**(good | {what: -1.0}))
