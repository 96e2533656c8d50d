"""Searching over seeds and shrinking what fails, whatever the model."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.kernel.rng import SeedTree
from australis.kernel.trace import Trace
from australis.sim.dpc.model import MODEL as DPC
from australis.sim.dpc.run import Scenario
from australis.sim.faults import Fault, Kind
from australis.sim.harness.model import Model, Preset, Setup, Tally, Variant, Violation
from australis.sim.harness.search import judge, search
from australis.sim.harness.shrink import shrink
from australis.sim.harness.story import Line, tell
from australis.sim.harness.variants import catch
from australis.sim.models import load
from australis.sim.network import Network
from australis.sim.world import World


@dataclass(frozen=True)
class Toy:
    """A run that breaks its promise when two pauses of one node overlap."""

    seed: int
    schedule: tuple[Fault, ...]
    does: str = "looks"


class ToySimulation:
    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        self.world = World(Network(Random(1)))
        self.counts = Counter(faults=len(toy.schedule))

    def run(self) -> Sequence[Violation]:
        while self.toy.does == "never ends":
            pass
        if self.toy.does == "raises":
            raise ValueError("told to")
        if self.toy.does == "sleeps":
            return []
        pauses = sorted(self.toy.schedule, key=lambda fault: fault.at_us)
        return [
            Violation("apart", f"{a.node} is paused twice")
            for i, a in enumerate(pauses)
            for b in pauses[i + 1 :]
            if a.node == b.node and b.at_us < a.until_us
        ][:1]


def draw(seed: int, chance: SeedTree) -> Toy:
    rng = chance.stream("faults")
    faults = (
        Fault(Kind.PAUSE, rng.randrange(60 * SECOND), rng.randrange(SECOND, 9 * SECOND), node)
        for node in rng.choices("abcdef", k=20)
    )
    return Toy(seed, tuple(faults))


def doing(what: str) -> Any:
    return lambda toy: replace(toy, does=what)


class ToyModel(Model[Toy]):
    name = "toy"
    presets = {"plain": Preset("pauses", draw)}  # noqa: RUF012
    variants = {  # noqa: RUF012
        name: Variant(name, "On purpose.", doing(name), caught_by, range(3))
        for name, caught_by in (
            ("never ends", ("timeout",)),
            ("raises", ("crash",)),
            ("sleeps", ("apart",)),
        )
    }
    checkers = {"apart": "Pauses of one node do not overlap."}  # noqa: RUF012
    coverage = {"faults": {"pauses": "faults", "cuts": "cuts"}}  # noqa: RUF012

    def build(self, scenario: Toy, trace: Trace | None = None) -> ToySimulation:
        return ToySimulation(scenario)

    def drawn(self, scenario: Toy) -> Mapping[str, Mapping[str, str]]:
        return {}

    def lines(self, simulation: Any, trace: Trace) -> list[Line]:
        return []


TOY = Setup(ToyModel())
LITE = Setup(DPC, "lite")


# --- many seeds ----------------------------------------------------------------------


def test_results_are_those_of_single_runs_on_any_number_of_workers() -> None:
    found = [list(search(LITE, range(3, 8), workers)) for workers in (1, 2)]
    assert found[0] == found[1]
    assert [result.seed for result in found[0]] == [3, 4, 5, 6, 7]
    assert found[0][2] == judge(LITE, 5)


def test_a_caller_that_stops_iterating_stops_the_work() -> None:
    results = search(LITE, range(1_000_000), workers=2)
    assert next(results).seed == 0
    results.close()  # type: ignore[attr-defined]


def test_a_search_ends_when_its_time_is_over() -> None:
    assert len(list(search(TOY, range(1_000_000), 1, total_s=0.05))) < 1_000_000


def test_a_run_without_end_is_a_violation_of_its_seed() -> None:
    (violation,) = judge(Setup(ToyModel(), variant="never ends"), 1, limit_s=0.05).violations
    assert violation.checker == "timeout"


def test_an_exception_is_a_violation_of_its_seed() -> None:
    (violation,) = judge(Setup(ToyModel(), variant="raises"), 1).violations
    assert violation.checker == "crash"
    assert violation.said.startswith("ValueError: told to (test_search.py:")
    assert violation.kind == "crash ValueError"


def test_a_result_crosses_processes() -> None:
    result = judge(Setup(DPC, "lite", "one boundary"), 1)
    assert result.violations[0].checker == "logs"
    assert pickle.loads(pickle.dumps(result)) == result


def test_the_tally_knows_what_should_happen() -> None:
    tally, result = Tally(TOY.model), judge(TOY, 1)
    for _ in range(2):
        tally.add(result)
    assert (tally.seeds, tally.coverage) == (2, {"faults": {"pauses": 40, "cuts": 0}})
    assert tally.rare(1) == {"cuts": 0}
    assert tally.rare(41) == {"faults": 40, "cuts": 0}


@pytest.mark.parametrize(("preset", "variant"), [("none", None), ("plain", "none")])
def test_what_is_not_known_is_refused(preset: str, variant: str | None) -> None:
    with pytest.raises(UserError, match="'none' is not a"):
        Setup(ToyModel(), preset, variant)
    with pytest.raises(UserError, match="'none' is not a protocol"):
        load("none")


def test_a_variant_that_the_wrong_checker_catches_is_not_caught() -> None:
    variants = ToyModel.variants
    assert catch(TOY.model, variants["raises"]).missed == ()
    assert catch(TOY.model, variants["sleeps"]).missed == ("apart",)


# --- shrinking -----------------------------------------------------------------------


def test_shrinking_leaves_what_is_needed_and_makes_it_short() -> None:
    scenario = TOY.scenario(1)
    (violation,) = judge(TOY, 1).violations
    shrunk = shrink(TOY, scenario, violation, most_tries=500)
    first, second = shrunk.scenario.schedule
    assert first.node == second.node
    assert all(fault.at_us % SECOND == 0 for fault in (first, second))
    assert tell(TOY, shrunk.scenario).violations == (shrunk.violation,)


def first_violation(setup: Setup[Any], checker: str, seeds: range) -> tuple[Scenario, Violation]:
    """The first seed of a few that breaks this promise."""
    for seed in seeds:
        for violation in judge(setup, seed).violations:
            if violation.checker == checker:
                return setup.scenario(seed), violation
    raise AssertionError(f"{setup} never fails")


def test_shrinking_finds_a_shorter_schedule_that_still_fails() -> None:
    setup = Setup(DPC, "swarm", "gaps")
    scenario, violation = first_violation(setup, "logs", range(2, 30))
    shrunk = shrink(setup, scenario, violation, most_tries=20)
    before, after = scenario.faults, shrunk.scenario.faults
    assert len(after) < len(before)
    assert sum(f.lasts_us for f in after) < sum(f.lasts_us for f in before)
    assert tell(setup, shrunk.scenario).violations == (shrunk.violation,)
    assert shrunk.tries <= 20


def test_shrinking_finds_that_no_fault_is_needed() -> None:
    setup = Setup(DPC, "swarm", "one boundary")
    scenario, violation = first_violation(setup, "logs", range(1, 5))
    shrunk = shrink(setup, scenario, violation)
    assert (shrunk.scenario.faults, shrunk.tries) == ((), 1)


def test_shrinking_gives_up_in_time() -> None:
    scenario = TOY.scenario(1)
    shrunk = shrink(TOY, scenario, Violation("stable", "never happens here"), most_tries=3)
    assert (shrunk.scenario.schedule, shrunk.tries) == (scenario.schedule, 3)
