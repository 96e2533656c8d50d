"""Contracts under seeded faults: tasks run, books agree, movements end."""

from __future__ import annotations

import pytest

from australis.sim.contracts.model import MODEL
from australis.sim.harness.model import Setup, Tally
from australis.sim.harness.search import judge

SEEDS = 60
"""`make sim` runs two thousand of each preset."""


@pytest.mark.parametrize("preset", MODEL.presets)
def test_every_seed_keeps_its_promises(preset: str) -> None:
    tally = Tally(MODEL)
    for seed in range(SEEDS):
        result = judge(Setup(MODEL, preset), seed)
        assert result.violations == ()
        tally.add(result)
    assert tally.counts["movements"] > SEEDS
    if preset == MODEL.default:
        assert not tally.rare(5), "hardly tested"


@pytest.mark.parametrize("seed", [754, 1975])
def test_a_task_that_was_withdrawn_during_a_crash_is_ended_where_it_runs(seed: int) -> None:
    assert judge(Setup(MODEL), seed).violations == ()
