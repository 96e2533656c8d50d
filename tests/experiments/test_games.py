"""The experiments on elasticity, reduced."""

from __future__ import annotations

import pytest

from australis.experiments import (
    games_beyond,
    games_cost,
    games_incentives,
    games_messages,
    games_reconfigurations,
)
from australis.experiments.claims import Experiment
from australis.experiments.report import as_markdown

EXPERIMENTS = [
    module.EXPERIMENT
    for module in (
        games_beyond,
        games_cost,
        games_incentives,
        games_messages,
        games_reconfigurations,
    )
]
MISSED = {
    "games-reconfigurations": {
        "Relative efficiency, the least mean of all modules, loads and strategies",
        "cyclic: changes of cores, selfish and cooperative"
        " (denoiser-1, denoiser-2, edge-detector, recognizer)",
        "trend: steps of light load in which both decide the same",
    },
}
"""Claims that our runs do not bear out, as each experiment says."""


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_claims_hold(experiment: Experiment) -> None:
    result = experiment.run(quick=True, progress=lambda line: None)
    failed = {claim.text: claim.ours for claim in result.claims if not claim.ok}
    assert set(failed) == MISSED.get(experiment.name, set()), failed
    assert experiment.name in as_markdown(experiment, result)
