"""Lost messages, silent agents, cuts and crashes: every control step ends, with what there is."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.elasticity.game import Game
from australis.elasticity.generate import object_recognition, random_game
from australis.elasticity.incentives import cooperate
from australis.elasticity.rounding import whole
from australis.kernel.durations import MILLISECOND, SECOND
from australis.protocols.elasticity.events import ElasticityOptions
from australis.sim.elasticity.simulation import ElasticitySimulation
from australis.sim.network import Link

EVERYBODY = ElasticityOptions(rounds=1)
TREE = ElasticityOptions(rounds=12)
GOSSIP = ElasticityOptions(rounds=12, gossip=6)
options = st.sampled_from([EVERYBODY, TREE, GOSSIP])
seeds = st.integers(0, 1 << 30)


def ends(floor: ElasticitySimulation, steps: int) -> None:
    """Everybody has ended every step once, in time."""
    for host in floor.hosts.values():
        assert [told.step for told in host.settled] == list(range(1, steps + 1))
        for step, at in enumerate(host.ended_us, 1):
            begun = step * floor.options.step_us
            assert begun <= at <= begun + floor.options.deadline_us


@settings(max_examples=50)
@given(seeds, options)
def test_with_five_percent_lost_every_step_ends(seed: int, options: ElasticityOptions) -> None:
    game = random_game(8, Random(seed))
    floor = ElasticitySimulation(game, options, Link(loss=0.05), seed)
    floor.run(4)
    ends(floor, 4)


@settings(max_examples=50)
@given(seeds)
def test_what_was_lost_is_asked_for_until_it_comes(seed: int) -> None:
    """With a tenth lost all still find what one would find who knows everything."""
    game = random_game(7, Random(seed))
    patient = replace(TREE, tries=12, deadline_us=250 * SECOND)
    floor = ElasticitySimulation(game, patient, Link(loss=0.1), seed)
    floor.run(2)
    ends(floor, 2)
    assert floor.messages["Request"] > 0
    found = cooperate(game, TREE.increment, TREE.rounds)
    assert floor.degrees() == pytest.approx(dict(found.profile.degrees), rel=1e-9)


@settings(max_examples=50)
@given(seeds, options, st.floats(0.3, 0.9))
def test_with_most_messages_lost_every_step_ends(
    seed: int, options: ElasticityOptions, loss: float
) -> None:
    game = random_game(6, Random(seed))
    floor = ElasticitySimulation(game, options, Link(loss=loss), seed)
    floor.run(3)
    ends(floor, 3)


@pytest.mark.parametrize("options", [EVERYBODY, TREE, GOSSIP])
def test_who_hears_nobody_chooses_alone(options: ElasticityOptions) -> None:
    game = object_recognition().arriving(0.3)
    floor = ElasticitySimulation(game, options, Link(loss=1.0))
    floor.run()
    ends(floor, 1)
    for name, host in floor.hosts.items():
        module = game.modules[name]
        assert host.settled[-1].degree == pytest.approx(module.ideal_degree())
        assert host.settled[-1].cores == whole(module, module.ideal_degree())


@pytest.mark.parametrize("options", [EVERYBODY, TREE, GOSSIP])
@pytest.mark.parametrize("dead", ["dispatcher", "denoiser-1", "edge-detector", "recognizer"])
def test_without_one_agent_the_others_go_on(dead: str, options: ElasticityOptions) -> None:
    """Nobody can cooperate with it, but all that can hear each other have one pace."""
    game = object_recognition().arriving(0.3)
    floor = ElasticitySimulation(game, options)
    floor.hosts[dead].crash()
    floor.run(2)
    del floor.hosts[dead]
    ends(floor, 2)
    connected = set(floor.hosts) - ({"recognizer"} if dead == "edge-detector" else set())
    paces = {floor.hosts[name].settled[-1].pace_s for name in connected}
    assert len(paces) == 1
    if options is TREE:
        assert floor.last("round") == {1}, "nothing can be added up"
    if dead != "recognizer" and options is EVERYBODY:
        slowest = "recognizer" if dead != "edge-detector" else "dispatcher"
        module = game.modules[slowest]
        alone_s = module.service.time_s(module.ideal_degree())
        assert list(paces) == [pytest.approx(alone_s)]


def test_an_agent_that_comes_back_takes_part_in_the_next_step() -> None:
    game = object_recognition().arriving(0.3)
    floor = ElasticitySimulation(game, TREE)
    floor.hosts["edge-detector"].crash()
    floor.run(1)
    floor.start("edge-detector", cores=3)
    floor.run(1)
    found = cooperate(game, TREE.increment, TREE.rounds)
    assert floor.degrees() == pytest.approx(dict(found.profile.degrees), rel=1e-9)
    assert [told.step for told in floor.hosts["edge-detector"].settled] == [2]


def test_a_cut_between_two_halves_heals() -> None:
    game = object_recognition().arriving(0.3)
    floor = ElasticitySimulation(game, TREE)
    ways = [("edge-detector", "recognizer"), ("recognizer", "edge-detector")]
    for here, there in ways:
        floor.world.network.cut(here, there)
    floor.run(1)
    cut = floor.degrees()
    for here, there in ways:
        floor.world.network.mend(here, there)
    floor.run(1)
    ends(floor, 2)
    edges = game.modules["edge-detector"]
    assert cut["recognizer"] == pytest.approx(game.modules["recognizer"].ideal_degree())
    assert cut["edge-detector"] == pytest.approx(edges.ideal_degree()), "the slowest it heard of"
    found = cooperate(game, TREE.increment, TREE.rounds)
    assert floor.degrees() == pytest.approx(dict(found.profile.degrees), rel=1e-9)


@pytest.mark.parametrize("options", [TREE, GOSSIP])
def test_a_network_that_is_too_slow_is_not_waited_for(options: ElasticityOptions) -> None:
    """A message takes 20 s: nobody gets far in the minute that a step may take."""
    floor = ElasticitySimulation(
        object_recognition().arriving(0.3), options, Link(latency_us=20 * SECOND)
    )
    floor.run(2)
    ends(floor, 2)


def slow_link(game: Game, here: str, there: str, extra_us: int) -> ElasticitySimulation:
    floor = ElasticitySimulation(game, TREE)
    floor.world.network.link(here, there).extra_us = extra_us
    return floor


def test_one_slow_link_holds_up_but_spoils_nothing() -> None:
    game = object_recognition().arriving(0.3)
    floor = slow_link(game, "denoiser-1", "edge-detector", 600 * MILLISECOND)
    floor.run()
    found = cooperate(game, TREE.increment, TREE.rounds)
    assert floor.degrees() == pytest.approx(dict(found.profile.degrees), rel=1e-9)
    assert floor.messages["Request"] > 0
    assert floor.messages["Enough"] == 0
