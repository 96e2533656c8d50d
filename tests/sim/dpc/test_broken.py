"""Every deliberately broken variant is caught, by a checker that says what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from protocols.dpc.story import crash, cut, scenario

from australis.sim.dpc.broken import VARIANTS
from australis.sim.dpc.presets import draw
from australis.sim.dpc.run import Run, Scenario

SEEDS = 60
CAUGHT_BY = {
    "duplicates": {"logs"},
    "one boundary": {"logs"},
    "never releases": {"delay"},
    "releases at once": {"masked"},
    "gaps": {"logs", "stable"},
    "trusts overlay": {"logs"},
    "never switches": {"delay", "liveness"},
    "holds everything": {"bounded"},
    "truncates early": {"kept", "liveness"},
    "wrong replay": {"liveness", "delay"},
    "sends to all": {"subscribed"},
    "never repeats": {"liveness", "delay"},
    "acknowledges received": {"kept"},
    "both stabilise": {"turns"},
    "never notices": {"delay"},
    "forgets tentative": {"corrected"},
    "done early": {"corrected"},
    "old tentative": {"corrected"},
    "forgets boundary": {"crash"},  # the log itself refuses what lies below its end
    "pollutes stable lane": {"logs"},
    "wrong snapshot": {"logs"},
    "shows before logging": {"logs", "stable"},
    "depends on history": {"logs"},
    "k times D": {"delay"},
}
"""The checkers that make sense for each."""
START = {
    "duplicates": 2,
    "gaps": 2,
    "trusts overlay": 4,
    "wrong replay": 12,
    "never repeats": 4,
    "acknowledges received": 2,
    "never notices": 6,
    "old tentative": 5,
    "forgets boundary": 5,
    "wrong snapshot": 2,
}
"""Where it is caught soon, to save time; all others at seed 1."""


def drawn(name: str, seed: int) -> Scenario:
    """A seed of the swarm, but for one variant that it hardly ever catches.

    A source must crash when one replica has seen what was not durable, and another has not.
    """
    if name == "shows before logging":
        faults = cut("s1", "merge/1", 8.3, 4), crash("s1", 9.5, 1)
        return replace(scenario(*faults), seed=seed)
    return draw("swarm", seed)


def test_every_variant_is_listed() -> None:
    assert set(CAUGHT_BY) == set(VARIANTS)


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_caught(name: str) -> None:
    start = START.get(name, 1)
    seen = []
    for seed in (*range(start, SEEDS), *range(start)):
        found = Run(VARIANTS[name].apply(drawn(name, seed))).execute().violation
        if found is not None and found.checker in CAUGHT_BY[name]:
            return
        seen.append("" if found is None else found.checker)
    pytest.fail(f"no checker caught '{name}' in {SEEDS} seeds; others said {set(seen)}")
