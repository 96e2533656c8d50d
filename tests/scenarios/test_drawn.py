"""Scenarios drawn from seeds: each can run in both worlds, and all kinds of faults are drawn."""

from __future__ import annotations

from collections import Counter

import pytest

from australis.deployment.cluster import Policies
from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.scenarios import drawn, simulated
from australis.scenarios.check import lost_fragments
from australis.scenarios.model import FaultKind, Scenario
from australis.scenarios.scenario_file import read

pytestmark = pytest.mark.sim

ENGINES = ("reference", "spark")


def scenario(seed: int, engine: str = "reference") -> Scenario:
    return read(drawn.text(seed, engine), "drawn.yaml")  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_seed_is_a_scenario(engine: str) -> None:
    """Reading checks that faults do not interfere, and that no last disk is lost."""
    kinds: Counter[FaultKind] = Counter()
    shapes: Counter[str] = Counter()
    for seed in range(60):
        one = scenario(seed, engine)
        kinds.update({fault.kind for fault in one.faults})
        shapes[one.diagram.name.replace("-", "_")] += 1
        assert one.faults
        assert 0 < one.healed_us <= one.lasts_us
    assert set(kinds) == set(FaultKind)
    assert set(shapes) == {n for n, shape in drawn.SHAPES.items() if engine in shape.engines}


def test_a_users_function_is_not_for_the_simulated_world() -> None:
    one = next(s for n in range(60) if (s := scenario(n, "spark")).diagram.name == "function")
    with pytest.raises(UserError, match="'own'"):
        simulated.run(one)


def test_a_standby_is_not_for_the_simulated_world() -> None:
    one = next(s for n in range(60) if (s := scenario(n)).cluster.standbys)
    (kill,) = one.faults
    assert kill.nodes == (one.cluster.sources["site0"],)
    assert kill.until_us == one.lasts_us, "the node is lost for the whole round"
    assert one.expected.silence_us is not None
    assert one.expected.silence_us < kill.lasts_us
    with pytest.raises(UserError, match="'site0' has a standby"):
        simulated.run(one)


def test_a_seed_gives_the_same_text_again() -> None:
    assert drawn.text(3, "reference") == drawn.text(3, "reference") != drawn.text(4, "reference")


def test_some_results_are_tentative_in_the_simulated_world() -> None:
    tentative = 0
    for seed in range(6):
        verdict = simulated.run(scenario(seed))
        assert verdict.ok, (seed, verdict)
        tentative += verdict.facts.tentative
    assert tentative


def test_everything_is_drawn() -> None:
    """All that a deployment may choose, and that may be wrong with it for good."""
    drawn_of: Counter[str] = Counter()
    for seed in range(100):
        one = scenario(seed)
        cluster = one.cluster
        drawn_of["policies"] += cluster.policies != Policies()
        drawn_of["results"] += bool(cluster.results)
        drawn_of["bounds"] += cluster.log.max_buckets is not None
        drawn_of["standbys"] += bool(cluster.standbys)
        drawn_of["clocks"] += bool(one.clocks)
        lost = lost_fragments(cluster.replicas, one.faults)
        assert (one.expected.words["stable"] == "told") == bool(lost)
        drawn_of["losses"] += bool(lost)
        assert {*one.streams} == {*one.diagram.results}
    assert min(drawn_of.values()) >= 5, drawn_of


def test_delays_can_be_judged_before_the_first_fault() -> None:
    for seed in range(60):
        one = scenario(seed)
        first = min(fault.at_us for fault in one.faults)
        assert first > one.cluster.max_delay_us + one.diagram.bucket_us + SECOND


def test_all_restart_at_once_in_some_rounds() -> None:
    def restarts(one: Scenario) -> bool:
        kills = (f.nodes for f in one.faults if f.kind is FaultKind.KILL)
        return any(set(nodes) == set(one.cluster.nodes) for nodes in kills)

    assert any(restarts(scenario(seed)) for seed in range(60))
