"""Fault schedules of agents that choose cores: what they promise holds, and checkers notice if not."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from click.testing import CliRunner, Result

from australis.cli.main import cli
from australis.elasticity.graph import FlowGraph
from australis.elasticity.service import Ideal, Paced, Sampled, Saturating, WithMinimum
from australis.kernel.machine import Send
from australis.protocols.elasticity.agent import AgentMachine
from australis.protocols.elasticity.messages import Waiting
from australis.sim.elasticity import broken
from australis.sim.elasticity.broken import BROKEN
from australis.sim.elasticity.expected import parts
from australis.sim.elasticity.run import Run
from australis.sim.elasticity.schedule import CALM, Kind, draw
from australis.sim.elasticity.search import story

SEEDS = 100
TRIED = 100
"""So many seeds a broken variant may hide from the checkers."""


def test_what_agents_promise_holds_whatever_fails() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        run = Run(seed)
        assert run.run() == []
        assert run.done == run.schedule.steps
        counts.update(run.counts)
    for what in ("crashes", "pauses", "cuts", "gave up"):
        assert counts[what] > SEEDS
    assert counts["agreed"] > counts["steps"] // 3
    assert counts["counted"] > SEEDS
    assert counts["apart"] > SEEDS // 4
    assert counts["nodes"] > SEEDS


@pytest.mark.parametrize("agent", BROKEN, ids=lambda agent: agent.__name__)
def test_each_way_to_do_it_wrong_is_caught(agent: type[AgentMachine]) -> None:
    assert any(Run(seed, agent).run() for seed in range(TRIED))


@pytest.mark.parametrize(
    ("checker", "agent"),
    [
        ("agreed", broken.HearsNobody),
        ("apart", broken.WaitsForTheGone),
        ("choice", broken.KeepsIncentives),
        ("cores", broken.RoundsDown),
        ("cost", broken.HasNoMemory),
        ("limits", broken.KnowsNoLimit),
        ("messages", broken.HearsTooLate),
        ("nodes", broken.ForgetsItsNode),
        ("once", broken.EndsTwice),
        ("time", broken.NeverGivesUp),
    ],
)
def test_each_checker_bites(checker: str, agent: type[AgentMachine]) -> None:
    found = (one.checker for seed in range(TRIED) for one in Run(seed, agent).run())
    assert checker in found


def test_talking_to_strangers_is_caught() -> None:
    run = next(run for run in map(Run, range(SEEDS)) if run.schedule.game.graph.diameter > 1)
    graph = run.schedule.game.graph
    far = next(name for name, hops in graph.hops(graph.source).items() if hops > 1)
    run.floor.watched[graph.source].perform(Send(far, Waiting(1)))
    assert [one.checker for one in run.run()] == ["neighbours"]


def test_runs_with_one_seed_are_equal() -> None:
    for seed in range(5):
        assert story(None, seed) == story(None, seed)
        assert story("RoundsDown", seed) == story("RoundsDown", seed)


def test_everything_is_drawn_now_and_then() -> None:
    drawn = [draw(seed) for seed in range(300)]
    services = {type(m.service) for one in drawn for m in one.game.modules.values()}
    services |= {
        type(m.service.service)
        for one in drawn
        for m in one.game.modules.values()
        if isinstance(m.service, Paced)
    }
    assert {Ideal, Saturating, WithMinimum, Sampled, Paced} < services
    assert {fault.kind for one in drawn for fault in one.faults} == set(Kind)
    for some in (
        [one for one in drawn if one.game.graph.virtual],
        [one for one in drawn if "recognizer" in one.game.modules],
        [one for one in drawn if one.nodes],
        [one for one in drawn if one.nodes and one.game.graph.virtual],
        [one for one in drawn if one.every_s is None],
        [one for one in drawn if one.options.gossip],
        [one for one in drawn if one.options.rounds > 1 and not one.options.gossip],
        [one for one in drawn if one.options.inertia.cost],
        [one for one in drawn if not one.faults],
    ):
        assert 5 <= len(some) < len(drawn)


def test_faults_end_before_it_is_calm() -> None:
    for one in map(draw, range(100)):
        assert 8 <= one.faulty <= 15
        assert set(one.measured) == set(range(1, one.faulty + CALM + 1))
        for fault in one.faults:
            assert 0 <= fault.at_us < fault.until_us <= one.heals_us
        for step in range(one.faulty + 1, one.steps + 1):
            assert set(one.measured[step]) == set(one.game.modules)


def test_who_hears_of_whom() -> None:
    line = FlowGraph("abcd", {("a", "b"): 1.0, ("b", "c"): 1.0, ("c", "d"): 1.0})
    ways = {way for here, there in line.arcs for way in ((here, there), (there, here))}
    (whole,) = parts(line, "abcd", ways)
    assert (whole.names, whole.diameter) == (("a", "b", "c", "d"), 3)
    assert [part.names for part in parts(line, "acd", ways)] == [("a",), ("c", "d")]
    less = ways - {("b", "c"), ("c", "b")}
    assert [part.names for part in parts(line, "abcd", less)] == [("a", "b"), ("c", "d")]


# --- the command ------------------------------------------------------------------------------------


def elasticity(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sim", "elasticity", *arguments])


def test_one_seed_tells_its_story() -> None:
    ran = elasticity("--seed", "3")
    assert ran.exit_code == 0, ran.output
    assert "6 modules behind m0" in ran.stdout
    assert "m5 crashes 162 ms before it" in ran.stdout
    assert "settled: m0, m1, m2, m3, m4 on 1.307 s (round 1); m5 on nothing" in ran.stdout
    assert "as one would who knows everything" in ran.stdout
    assert "0 promises broken" in ran.stdout


def test_many_seeds_as_json() -> None:
    found = json.loads(elasticity("--seeds", "0:9", "--json", "--jobs", "1").stdout)
    assert found["seeds"] == 10
    assert found["violations"] == []
    assert found["counts"]["agreed"] > 30


def test_a_broken_promise_is_exit_code_1() -> None:
    ran = elasticity("--seed", "0", "--variant", "RoundsDown")
    assert ran.exit_code == 1
    assert "seed 0: cores: in step 1" in ran.stdout


def test_the_ways_to_do_it_wrong_are_listed() -> None:
    ran = elasticity("--variant", "list", "--json")
    assert set(json.loads(ran.stdout)["variants"]) == {agent.__name__ for agent in BROKEN}
