"""Components that move while nodes crash, messages get lost and the network is cut."""

from __future__ import annotations

from australis.sim.harness.model import Setup, Tally
from australis.sim.harness.search import judge
from australis.sim.movement.model import MODEL

SEEDS = 40
"""`make sim` runs five thousand."""


def test_nothing_is_lost_or_doubled_and_every_move_ends() -> None:
    tally = Tally(MODEL)
    for seed in range(SEEDS):
        result = judge(Setup(MODEL), seed)
        assert result.violations == ()
        tally.add(result)
    assert not tally.rare(SEEDS // 4), "hardly tested"
    assert tally.counts["moved"] > SEEDS
