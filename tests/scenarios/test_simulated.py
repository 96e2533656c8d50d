"""Every scenario of the examples in the simulated world."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from australis.deployment.cluster import ClientPlace, Policies
from australis.scenarios import simulated
from australis.scenarios.model import CLIENT, Expected, Scenario
from australis.scenarios.scenario_file import load
from australis.sim.dpc.broken import VARIANTS
from australis.sim.dpc.hosts import Costs
from australis.sim.dpc.run import Scenario as Setup
from australis.sim.faults import Fault, Kind

pytestmark = pytest.mark.sim

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"
FILES = sorted(EXAMPLES.glob("*.yaml"))


def example(name: str) -> Scenario:
    return load(EXAMPLES / f"{name}.yaml")


def expecting(scenario: Scenario, **words: str) -> Scenario:
    return replace(scenario, expected=Expected(words))


def test_there_are_enough_of_them() -> None:
    assert len(FILES) >= 8
    assert [load(file).name for file in FILES] == [file.stem for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_as_expected(file: Path) -> None:
    verdict = simulated.run(load(file))
    assert verdict.ok, verdict
    assert verdict.facts.got > 10


CHANGES = [file.stem for file in FILES if file.stem.startswith("choice_")]
UNSEEN = ("choice_corrections_process", "choice_corrections_suspend", "choice_staggered")
"""What these change shows only where corrections take long."""


@pytest.mark.parametrize("name", [name for name in CHANGES if name not in UNSEEN])
def test_without_its_choice_a_scenario_misses_what_it_expects(name: str) -> None:
    scenario = example(name)
    clients = {CLIENT: ClientPlace(CLIENT, scenario.streams[0])}
    plain = replace(scenario.cluster, policies=Policies(), results={}, clients=clients)
    assert not simulated.run(replace(scenario, cluster=plain)).ok


def slowly(setup: Setup) -> Setup:
    """An engine that needs a third of real time for each lane."""
    return replace(setup, costs=Costs(batch_us=20_000, bucket_us=60_000))


def test_what_becomes_of_new_tuples_while_others_are_corrected() -> None:
    tentative = {
        name: simulated.run(example(name), slowly).facts.tentative
        for name in ("choice_corrections_process", "choice_corrections_suspend")
    }
    assert tentative["choice_corrections_process"] > tentative["choice_corrections_suspend"]


def test_a_run_is_the_same_each_time() -> None:
    assert simulated.run(example("disk_lost")) == simulated.run(example("disk_lost"))


def test_a_wrong_expectation_is_told() -> None:
    calm = simulated.run(expecting(example("source_cut_short"), tentative="some"))
    assert calm.misses == ("tentative is 'none', expected was 'some'",)
    wild = simulated.run(expecting(example("source_cut_long"), stable="equal", tentative="none"))
    assert wild.misses == ("tentative is 'some', expected was 'none'",)


BROKEN = {
    "releases at once": ("source_cut_short", "masked: "),
    "never releases": ("source_cut_long", "delay: "),
    "never switches": ("replica_paused", "delay: "),
    "done early": ("source_cut_long", "corrected: "),
}


@pytest.mark.parametrize("variant", BROKEN)
def test_a_broken_protocol_is_caught(variant: str) -> None:
    name, said = BROKEN[variant]
    verdict = simulated.run(example(name), VARIANTS[variant].apply)
    assert not verdict.ok
    assert verdict.misses[0].startswith(f"a promise was broken: {said}"), verdict.misses


def test_a_fault_of_a_node_is_one_of_all_its_machines() -> None:
    at = simulated.WARM_UP_US
    assert simulated.setup_of(example("several_at_once")).faults == (
        Fault(Kind.CRASH, at + 1_000_000, 4_000_000, "near@a"),
        Fault(Kind.CUT, at + 2_000_000, 5_000_000, "far@c", "client"),
    )


def test_a_slow_link_is_slow_in_both_directions() -> None:
    first, second, *_ = simulated.setup_of(example("slow_link")).faults
    assert (first.kind, first.node, first.other) == (Kind.SLOW_LINK, "site1", "counts@a")
    assert (second.node, second.other, second.extra_us) == ("counts@a", "site1", 400_000)


def test_one_way_the_first_does_not_hear_the_other() -> None:
    first, _ = simulated.setup_of(example("one_way_cut")).faults
    assert (first.kind, first.node, first.other) == (Kind.CUT_ONE_WAY, "site1", "counts@a")
