"""Fault schedules of agents that choose cores: what they promise holds, and checkers notice if not."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from australis.cli.main import cli
from australis.elasticity.graph import FlowGraph
from australis.elasticity.service import Ideal, Paced, Sampled, Saturating, WithMinimum
from australis.kernel.machine import Send
from australis.protocols.elasticity.messages import Waiting
from australis.sim.elasticity.expected import parts
from australis.sim.elasticity.model import MODEL
from australis.sim.elasticity.run import Run
from australis.sim.elasticity.schedule import CALM, Schedule
from australis.sim.faults import Kind
from australis.sim.harness.model import Setup, Tally
from australis.sim.harness.story import tell

SEEDS = 30
"""`make sim` runs two thousand."""


def scenario(seed: int) -> Schedule:
    return MODEL.draw("", seed)


def test_what_agents_promise_holds_whatever_fails() -> None:
    tally = Tally(MODEL)
    for seed in range(SEEDS):
        run = Run(scenario(seed))
        assert run.run() == []
        assert run.done == run.schedule.steps
        tally.counts.update(run.counts)
    counts = tally.counts
    for what in ("crashes", "pauses", "cuts", "gave up"):
        assert counts[what] > SEEDS
    assert counts["agreed"] > counts["steps"] // 3
    assert counts["counted"] > SEEDS
    assert not tally.rare(SEEDS // 4)


def test_talking_to_strangers_is_caught() -> None:
    run = next(
        run for run in map(Run, map(scenario, range(SEEDS))) if run.schedule.game.graph.diameter > 1
    )
    graph = run.schedule.game.graph
    far = next(name for name, hops in graph.hops(graph.source).items() if hops > 1)
    run.floor.watched[graph.source]._send(Send(far, Waiting(1)))
    assert [one.checker for one in run.run()] == ["neighbours"]


def test_runs_with_one_seed_are_equal() -> None:
    for setup in (Setup(MODEL), Setup(MODEL, variant="RoundsDown")):
        for seed in range(3):
            one, other = (tell(setup, setup.scenario(seed)) for _ in range(2))
            assert (one.result, one.lines) == (other.result, other.lines)
            assert one.trace.digest == other.trace.digest


def test_everything_is_drawn_now_and_then() -> None:
    drawn = [scenario(seed) for seed in range(300)]
    services = {type(m.service) for one in drawn for m in one.game.modules.values()}
    services |= {
        type(m.service.service)
        for one in drawn
        for m in one.game.modules.values()
        if isinstance(m.service, Paced)
    }
    assert {Ideal, Saturating, WithMinimum, Sampled, Paced} < services
    kinds = {getattr(fault, "kind", None) for one in drawn for fault in one.faults}
    assert kinds == {Kind.CRASH, Kind.PAUSE, Kind.CUT, Kind.CUT_ONE_WAY, None}
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
    for one in map(scenario, range(100)):
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
    told = " ".join(ran.stdout.split())
    assert "5 modules behind dispatcher" in told
    assert "recognizer FAULT pause for 3.23 s" in told
    assert "edge-detector, recognizer on 0.6519 s (round 1); dispatcher on nothing" in told
    assert "the centralized optimum" in told
    assert "all promises kept" in told


def test_many_seeds_as_json() -> None:
    found = json.loads(elasticity("--seeds", "0:9", "--json", "--jobs", "1").stdout)
    assert found["seeds"] == 10
    assert found["violations"] == []
    assert found["counts"]["agreed"] > 30


def test_a_broken_promise_is_exit_code_1() -> None:
    ran = elasticity("--seed", "2", "--variant", "RoundsDown")
    assert ran.exit_code == 1
    assert "promise 'cores' broken: in step 1" in " ".join(ran.stdout.split())


def test_the_ways_to_do_it_wrong_are_listed() -> None:
    ran = elasticity("--variant", "list", "--json")
    assert set(json.loads(ran.stdout)["variants"]) == set(MODEL.variants)
