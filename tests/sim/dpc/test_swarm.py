"""Seeds by the hundred: no promise is broken whatever goes wrong, and everything heals."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from australis.experiments.setting import Setting, disconnect
from australis.protocols.dpc.options import Deadline
from australis.protocols.dpc.proxies import ClientMachine
from australis.sim.dpc.faults import Fault, Kind
from australis.sim.dpc.hosts import Costs
from australis.sim.dpc.presets import draw
from australis.sim.dpc.run import Outcome, Run, Scenario
from australis.sim.dpc.search import Setup, Tally, search

SEEDS = 500
WORKERS = 1 if "PYTEST_XDIST_WORKER" in os.environ else os.cpu_count() or 1
"""All cores, unless another test runs beside this one."""


def told(outcome: Outcome) -> str:
    """What to say of a seed that failed, so that it can be run again by hand."""
    faults = "\n  ".join(str(fault) for fault in outcome.scenario.faults)
    return (
        f"seed {outcome.scenario.seed}, {outcome.simulated_us / 1e6:.2f} s into the run:"
        f" {outcome.violation}\n  {faults}"
    )


@pytest.mark.timeout(900)
def test_swarm() -> None:
    tally, broken = Tally(), []
    for verdict in search(Setup("swarm"), range(SEEDS), WORKERS):
        tally.add(verdict)
        if verdict.checker:
            faults = "\n  ".join(map(str, verdict.faults))
            broken.append(f"seed {verdict.seed}: {verdict.checker}: {verdict.said}\n  {faults}")
    assert not broken, "\n".join(broken)
    assert not tally.rare(1), "the seeds are too tame"


@pytest.mark.parametrize("seed", range(8))
def test_flapping_sources_do_not_stop_the_stream(seed: int) -> None:
    outcome = Run(draw("flapping", seed)).execute()
    assert outcome.violation is None, told(outcome)


def test_bounded_logs_correct_what_they_promise() -> None:
    outcomes = [Run(draw("bounded", seed)).execute() for seed in range(12)]
    broken = [told(outcome) for outcome in outcomes if outcome.violation is not None]
    assert not broken, "\n".join(broken)
    assert any("SKIPPED" in turn for outcome in outcomes for turn in outcome.turns)


class Hedged(ClientMachine):
    """A client that follows two replicas at once."""

    def __init__(self, *config: Any) -> None:
        super().__init__(*config, hedge=True)


def test_two_replicas_followed_at_once() -> None:
    for seed in range(8):
        outcome = Run(replace(draw("swarm", seed), client_class=Hedged)).execute()
        assert outcome.violation is None, told(outcome)


def test_lite_is_a_quiet_start() -> None:
    outcome = Run(draw("lite", 1)).execute()
    assert outcome.violation is None, told(outcome)
    assert outcome.delivered > 0


def slow_to_reconcile(*, staggered: bool) -> Scenario:
    """Replicas that need a third of real time for each lane, and a source cut for 40 s."""
    scenario = draw("lite", 1)
    options = replace(scenario.options, max_delay_us=2_500_000, hop_us=500_000, staggered=staggered)
    return replace(
        scenario,
        options=options,
        costs=Costs(row_us=20_000.0),
        faults=(Fault(Kind.ISOLATE, 10_000_000, 40_000_000, "s3"),),
        safety_us=150_000_000,
    )


def test_replicas_that_take_turns_are_in_time_though_each_is_slow() -> None:
    slow = Setting(
        rate=500,
        delay_us=2_000_000,
        deadline=Deadline.END_TO_END,
        faults=(disconnect("s3", 40_000_000),),
        replicas=2,
        staggered=True,
        costs=Costs(batch_us=1_000, bucket_us=500, row_us=600.0, sync_us=1_000),
    )
    outcome = Run(slow.scenario()).execute()
    assert outcome.violation is None, told(outcome)
    assert outcome.tentative > 0


@pytest.mark.parametrize("staggered", [True, False])
def test_new_tuples_are_in_time_however_long_reconciling_takes(staggered: bool) -> None:
    outcome = Run(slow_to_reconcile(staggered=staggered)).execute()
    assert outcome.violation is None, told(outcome)
    assert outcome.tentative > 0
