"""Components that move while nodes crash, messages get lost and the network is cut."""

from __future__ import annotations

from collections import Counter

import pytest

from australis.sim.movement.broken import BROKEN
from australis.sim.movement.host import FlowHost
from australis.sim.movement.trial import Trial

SEEDS = 300
TRIED = 1_000
"""So many seeds a broken variant may hide from the checkers."""


def test_nothing_is_lost_or_doubled_and_every_move_ends() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        trial = Trial(seed)
        assert trial.run() == []
        counts.update(trial.counts)
    for word in ("Request", "Ready", "Switch", "Switched", "Handover", "Answered", "Cancel"):
        assert counts[word] > SEEDS // 2, "hardly tested"
    assert counts["moved"] > 2 * SEEDS
    assert counts["called off"] > SEEDS // 4
    assert counts["crashes"] > SEEDS


@pytest.mark.parametrize("broken", BROKEN, ids=lambda host: host.__name__)
def test_each_way_to_do_it_wrong_is_caught(broken: type[FlowHost]) -> None:
    assert any(Trial(seed, broken).run() for seed in range(TRIED))
