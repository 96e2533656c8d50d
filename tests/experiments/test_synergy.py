"""The experiments on hot spots."""

from __future__ import annotations

import pytest

from australis.experiments import (
    synergy_balance,
    synergy_beyond,
    synergy_delay,
    synergy_load_updates,
    synergy_migration_overhead,
)
from australis.experiments.claims import Experiment
from australis.experiments.synergy_runs import outcome

EXPERIMENTS: list[Experiment] = [
    module.EXPERIMENT
    for module in (
        synergy_balance,
        synergy_beyond,
        synergy_delay,
        synergy_load_updates,
        synergy_migration_overhead,
    )
]


MISSED = {
    "synergy-load-updates": {"Updates with seven levels, times those with three"},
}
"""Claims that our runs do not bear out, as each experiment says."""


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.name)
def test_every_claim_holds_but_those_that_are_known(experiment: Experiment) -> None:
    result = experiment.run(True, lambda line: None)
    assert {c.text for c in result.claims if not c.ok} == MISSED.get(experiment.name, set())
    assert result.claims


def test_a_component_moves_for_all_its_applications_at_once() -> None:
    assert any(outcome(seed).shared_moves for seed in range(2))
