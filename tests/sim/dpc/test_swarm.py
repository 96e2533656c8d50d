"""Some seeds: no promise is broken whatever goes wrong, and everything heals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from australis.protocols.dpc.options import Deadline
from australis.protocols.dpc.proxies import ClientMachine
from australis.sim.dpc.hosts import Costs
from australis.sim.dpc.model import MODEL
from australis.sim.dpc.presets import draw
from australis.sim.dpc.run import Run, RunOutcome, Scenario
from australis.sim.faults import Fault, Kind
from australis.sim.harness.model import Setup, Tally
from australis.sim.harness.search import judge
from research.thesis_dpc.setting import Setting, disconnect

SEEDS = (*range(40), 62, 63)
"""Enough to take every row and phase change once; `make sim` runs twenty thousand."""


def told(outcome: RunOutcome) -> str:
    """What to say of a seed that failed, so that it can be run again by hand."""
    faults = "\n  ".join(str(fault) for fault in outcome.scenario.faults)
    return (
        f"seed {outcome.scenario.seed}, {outcome.simulated_us / 1e6:.2f} s into the run:"
        f" {outcome.violation}\n  {faults}"
    )


def test_swarm() -> None:
    tally = Tally(MODEL)
    results = [judge(Setup(MODEL), seed) for seed in SEEDS]
    for result in results:
        tally.add(result)
    assert not [(result.seed, str(v)) for result in results for v in result.violations]
    assert not tally.rare(1), "the seeds are too tame"


def test_what_cluster_files_lead_to() -> None:
    for seed in range(4):
        assert judge(Setup(MODEL, "deployed"), seed).violations == ()


@pytest.mark.parametrize("seed", [365, 384])
def test_a_failure_during_corrections_does_not_delay_new_tuples(seed: int) -> None:
    """A new tentative lane repeats what the dropped one had said, sixty buckets or more here."""
    outcome = Run(draw("deployed", seed)).execute()
    assert outcome.violation is None, told(outcome)


def test_replicas_that_differ_are_noticed_and_stop() -> None:
    for seed in range(8):
        assert judge(Setup(MODEL, "differing"), seed).violations == ()


@pytest.mark.parametrize("seed", range(4))
def test_flapping_sources_do_not_stop_the_stream(seed: int) -> None:
    outcome = Run(draw("flapping", seed)).execute()
    assert outcome.violation is None, told(outcome)


def test_logs_are_bounded_whoever_is_absent() -> None:
    outcomes = [Run(draw("absent", seed)).execute() for seed in range(10)]
    broken = [told(outcome) for outcome in outcomes if outcome.violation is not None]
    assert not broken, "\n".join(broken)


def test_bounded_logs_correct_what_they_promise() -> None:
    outcomes = [Run(draw("bounded", seed)).execute() for seed in range(12)]
    broken = [told(outcome) for outcome in outcomes if outcome.violation is not None]
    assert not broken, "\n".join(broken)
    assert any("SKIPPED" in turn for outcome in outcomes for turn in outcome.turns)


def test_states_that_all_replicas_lose_are_built_anew_or_said_to_be_gone() -> None:
    # 25 and 30 lose a state that may rest on all earlier tuples.
    runs = [Run(draw("loss", seed)) for seed in (*range(8), 25, 30)]
    outcomes = [run.execute() for run in runs]
    broken = [told(outcome) for outcome in outcomes if outcome.violation is not None]
    assert not broken, "\n".join(broken)
    assert any(run.loss.ended for run in runs), "some cannot go on"
    assert any(run.loss.begun for run in runs), "others begin anew"


class Hedged(ClientMachine):
    """A client that follows two replicas at once."""

    def __init__(self, *config: Any) -> None:
        super().__init__(*config, hedge=True)


def test_two_replicas_followed_at_once() -> None:
    for seed in range(8):
        outcome = Run(replace(draw("swarm", seed), client_class=Hedged)).execute()
        assert outcome.violation is None, told(outcome)


def test_sources_that_give_no_rows_for_a_while() -> None:
    for seed in range(6):
        outcome = Run(draw("idle", seed)).execute()
        assert outcome.violation is None, told(outcome)


def test_a_source_with_two_proxies_survives_the_loss_of_one() -> None:
    for seed in range(6):
        outcome = Run(draw("standby", seed)).execute()
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


def test_disks_that_lie_are_noticed_or_harm_nothing() -> None:
    runs = [Run(draw("disks", seed)) for seed in range(16)]
    outcomes = [run.execute() for run in runs]
    broken = [told(outcome) for outcome in outcomes if outcome.violation is not None]
    assert not broken, "\n".join(broken)
    assert any(run.damage.ended for run in runs), "some sources go back"
    assert any(not run.damage.ended for run in runs), "the other runs go on to their end"


def test_a_source_that_goes_back_while_its_readers_restart_is_noticed() -> None:
    """Their logs rest on more of it than the checkpoints at which they go on."""
    outcome = Run(draw("disks", 418)).execute()
    assert outcome.violation is None, told(outcome)
