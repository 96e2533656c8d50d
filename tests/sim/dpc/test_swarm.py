"""Seeds by the hundred: no promise is broken whatever goes wrong, and everything heals."""

from __future__ import annotations

import pytest

from australis.protocols.dpc.states import TRANSITIONS, Turn
from australis.sim.dpc.presets import draw
from australis.sim.dpc.run import Outcome, Run

CHUNK = 50
SEEDS = 500


def told(outcome: Outcome) -> str:
    """What to say of a seed that failed, so that it can be run again by hand."""
    faults = "\n  ".join(str(fault) for fault in outcome.scenario.faults)
    return (
        f"seed {outcome.scenario.seed}, {outcome.simulated_us / 1e6:.2f} s into the run:"
        f" {outcome.violation}\n  {faults}"
    )


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_swarm(first: int) -> None:
    outcomes = [Run(draw("swarm", seed)).execute() for seed in range(first, first + CHUNK)]
    broken = [told(outcome) for outcome in outcomes if outcome.violation is not None]
    assert not broken, "\n".join(broken)
    rows = {row for outcome in outcomes for row in outcome.rows}
    turns = {turn for outcome in outcomes for turn in outcome.turns}
    assert rows >= {1, 2, 3, 4, 5, 6, 7, 9, 11}, "the seeds are too tame"
    assert turns >= {f"{p.name} {t.name}" for p, t in TRANSITIONS if t is not Turn.SKIPPED}


@pytest.mark.parametrize("seed", range(8))
def test_flapping_sources_do_not_stop_the_stream(seed: int) -> None:
    outcome = Run(draw("flapping", seed)).execute()
    assert outcome.violation is None, told(outcome)


def test_bounded_logs_correct_what_they_promise() -> None:
    outcomes = [Run(draw("bounded", seed)).execute() for seed in range(12)]
    broken = [told(outcome) for outcome in outcomes if outcome.violation is not None]
    assert not broken, "\n".join(broken)
    assert any("SKIPPED" in turn for outcome in outcomes for turn in outcome.turns)


def test_lite_is_a_quiet_start() -> None:
    outcome = Run(draw("lite", 1)).execute()
    assert outcome.violation is None, told(outcome)
    assert outcome.delivered > 0
