"""Estimates, inertia, the letters of a step, and an agent by hand."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from australis.elasticity.cost import Module
from australis.elasticity.equilibrium import best_equilibrium
from australis.elasticity.estimate import Average
from australis.elasticity.game import Game
from australis.elasticity.generate import object_recognition
from australis.elasticity.graph import FlowGraph
from australis.elasticity.inertia import Inertia
from australis.elasticity.rounding import Rounding, whole_cores
from australis.elasticity.service import Ideal
from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, MessageReceived, Send, SetTimer, TimerFired
from australis.protocols.elasticity.agent import AgentMachine
from australis.protocols.elasticity.events import (
    ElasticityOptions,
    Measured,
    SetCores,
    Started,
    TellSettled,
)
from australis.protocols.elasticity.messages import Enough, Proposal, Request, Waiting
from australis.protocols.elasticity.seats import seats
from australis.sim.elasticity.simulation import ElasticitySimulation

STEP = 300 * SECOND
PAIR = FlowGraph("ab", {("a", "b"): 1.0})
MODULE = Module("a", Ideal(4.0), 1.0, 0.01, 50)


def effects_of(effects: list[Effect], kind: type) -> list[Effect]:
    """Those of a kind."""
    return [effect for effect in effects if isinstance(effect, kind)]


def agent(options: ElasticityOptions | None = None) -> AgentMachine:
    """One that would choose 20 cores alone, and so a pace of 0.2 s."""
    machine = AgentMachine(seats(PAIR)["a"], MODULE, options)
    assert machine.handle(Started(3), 0) == [SetTimer("step", STEP)]
    return machine


# --- one agent ------------------------------------------------------------------------------------------


def test_a_step_by_hand() -> None:
    machine = agent()
    effects = machine.handle(TimerFired("step"), STEP)
    assert effects_of(effects, Send) == [Send("b", Proposal(1, 1, 1, 0.2))]
    effects = machine.handle(MessageReceived("b", Proposal(1, 1, 1, 0.5)), STEP + 1)
    assert effects == [SetCores(8), TellSettled(1, 8, 8.0, 0.5, 0.0, 1, 1, None)]


def test_what_comes_before_the_step_begins_is_kept_for_it() -> None:
    machine = agent()
    assert machine.handle(MessageReceived("b", Proposal(1, 1, 1, 0.5)), STEP - 1) == []
    effects = machine.handle(TimerFired("step"), STEP)
    assert effects_of(effects, SetCores) == [SetCores(8)]


def test_what_belongs_to_an_old_step_is_ignored() -> None:
    machine = agent()
    machine.handle(TimerFired("step"), 2 * STEP)
    assert machine.handle(MessageReceived("b", Proposal(1, 1, 1, 0.5)), 2 * STEP) == []
    assert machine.handle(MessageReceived("b", Request(1, 1, 1, "Proposal")), 2 * STEP) == []


def test_who_asks_is_answered() -> None:
    machine = agent()
    later = MessageReceived("b", Request(1, 1, 1, "Proposal"))
    assert machine.handle(later, 0) == [Send("b", Waiting(1))], "its step has not begun"
    machine.handle(TimerFired("step"), STEP)
    assert machine.handle(later, STEP) == [Send("b", Proposal(1, 1, 1, 0.2))]
    ahead = MessageReceived("b", Request(1, 2, 1, "Proposal"))
    assert machine.handle(ahead, STEP) == [Send("b", Waiting(1))]
    machine.handle(MessageReceived("b", Proposal(1, 1, 1, 0.5)), STEP)
    assert machine.handle(later, STEP) == [Send("b", Proposal(1, 1, 1, 0.2))]
    assert machine.handle(ahead, STEP) == [Send("b", Enough(1, 1))]


def test_who_does_not_answer_is_asked_again_and_then_left_out() -> None:
    machine = agent(ElasticityOptions(tries=2))
    machine.handle(TimerFired("step"), STEP)
    request = Send("b", Request(1, 1, 1, "Proposal"))
    for _ in range(2):
        effects = machine.handle(TimerFired("ask"), STEP + SECOND)
        assert effects_of(effects, Send) == [request]
    effects = machine.handle(TimerFired("ask"), STEP + 2 * SECOND)
    assert effects_of(effects, SetCores) == [SetCores(20)]
    assert machine.handle(MessageReceived("b", Proposal(1, 1, 1, 0.5)), STEP + 3 * SECOND) == []


def test_who_says_that_it_waits_is_not_left_out() -> None:
    machine = agent(ElasticityOptions(tries=2))
    machine.handle(TimerFired("step"), STEP)
    for _ in range(10):
        effects = machine.handle(TimerFired("ask"), STEP + SECOND)
        assert not effects_of(effects, TellSettled)
        machine.handle(MessageReceived("b", Waiting(1)), STEP + SECOND)
    effects = machine.handle(TimerFired("deadline"), STEP + 60 * SECOND)
    assert effects_of(effects, SetCores) == [SetCores(20)]
    assert effects_of(effects, Send) == [Send("b", Enough(1, 1))]


def test_it_is_enough_when_a_neighbour_says_so() -> None:
    machine = agent(ElasticityOptions(rounds=5))
    machine.handle(TimerFired("step"), STEP)
    effects = machine.handle(MessageReceived("b", Proposal(1, 1, 1, 0.5)), STEP)
    assert not effects_of(effects, TellSettled)
    effects = machine.handle(MessageReceived("b", Enough(1, 1)), STEP)
    assert effects_of(effects, SetCores) == [SetCores(8)]
    assert not effects_of(effects, Send), "whoever said it knows"


# --- what is measured -------------------------------------------------------------------------------------


def test_an_average_follows_slowly() -> None:
    average = Average(0.25)
    values = [average.add(value) for value in (8.0, 8.0, 0.0, 0.0)]
    assert values == [8.0, 8.0, 6.0, 4.5]


def test_agents_follow_what_they_measure() -> None:
    game = object_recognition().arriving(2.0)
    floor = ElasticitySimulation(game, ElasticityOptions(newest=0.5))
    floor.run()
    assert list(floor.last("pace_s")) == [pytest.approx(2.0)]
    for every_s in (1.0, 0.9):
        floor.tell("dispatcher", Measured(every_s=every_s))
    floor.tell("recognizer", Measured(running_s=20.0))
    floor.run()
    expected = best_equilibrium(game.arriving(0.95).running({"recognizer": 20.0}))
    assert floor.degrees() == pytest.approx(dict(expected.degrees), rel=1e-9)


def test_several_sources_are_one_game() -> None:
    graph = FlowGraph.joined("abc", {("a", "c"): 1.0, ("b", "c"): 1.0}, {"a": 3.0, "b": 1.0})
    modules = [Module(name, Ideal(1.0), 1.0, 0.001, 50) for name in "abc"]
    floor = ElasticitySimulation(
        Game.of(graph, *modules, every_s=0.25), ElasticityOptions(rounds=5)
    )
    floor.start("(sources)", cores=0)
    floor.run()
    assert floor.degrees() == pytest.approx({"(sources)": 0.0, "a": 3.0, "b": 1.0, "c": 4.0})
    assert floor.hosts["(sources)"].changes == []


# --- inertia --------------------------------------------------------------------------------------------


def reconfigurations(inertia: Inertia, noise: float = 0.04) -> tuple[int, float]:
    """So many in 60 steps of a load that is the same but for noise, and the cores on average."""
    game = object_recognition().arriving(1.0)
    floor = ElasticitySimulation(game, ElasticityOptions(newest=1.0, inertia=inertia))
    rng = Random(3)
    cores = 0
    for _ in range(60):
        floor.tell("dispatcher", Measured(every_s=rng.gauss(1.0, noise)))
        floor.run()
        cores += sum(host.settled[-1].cores for host in floor.hosts.values())
    return sum(len(host.changes) for host in floor.hosts.values()), cores / 60


def test_inertia_saves_reconfigurations_and_costs_cores() -> None:
    restless, few = reconfigurations(Inertia())
    calm, more = reconfigurations(Inertia(cost=0.05))
    lazy, slower = reconfigurations(Inertia(cost=0.05, slack=0.1))
    assert lazy < calm < restless / 3
    assert few < more < few * 1.15
    assert slower < more


def test_what_inertia_keeps() -> None:
    keeps = Inertia(cost=0.025, steps=1.0, slack=0.1).keeps
    assert keeps(MODULE, 10, 8, 0.5), "two cores cost 0.02"
    assert not keeps(MODULE, 11, 8, 0.5), "three cost 0.03"
    assert keeps(MODULE, 8, 9, 4 / 8.5), "6% too slow"
    assert not keeps(MODULE, 8, 9, 4 / 9), "12% too slow"
    assert not keeps(MODULE, 51, 50, 1.0), "more than it may have"
    assert not Inertia().keeps(MODULE, 9, 8, 0.5)
    assert not Inertia().keeps(MODULE, 8, 9, 4 / 8.5)
    assert Inertia(cost=0.025, steps=0.5).keeps(MODULE, 12, 8, 0.5), "not for long"


def test_rounding_to_the_nearest_is_an_option() -> None:
    game = object_recognition().arriving(0.3)
    floor = ElasticitySimulation(game, ElasticityOptions(rounding=Rounding.NEAREST))
    floor.run()
    found = {name: host.settled[-1].cores for name, host in floor.hosts.items()}
    assert found == whole_cores(game, best_equilibrium(game).degrees, Rounding.NEAREST)
    assert found["recognizer"] == 20


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ElasticityOptions(rounds=0), "'rounds' should be at least one, not 0"),
        (lambda: ElasticityOptions(increment=0.0), "'increment' is 0"),
        (lambda: ElasticityOptions(gossip=-1), "'gossip' should not be negative, not -1"),
        (lambda: ElasticityOptions(newest=0.0), "'newest' is 0: it should be a part of 1"),
        (lambda: ElasticityOptions(tries=0), "'tries' should be at least one, not 0"),
        (lambda: ElasticityOptions(resend_us=0), "'resend' should be shorter"),
        (lambda: ElasticityOptions(step_us=SECOND), "'resend' should be shorter"),
        (lambda: Inertia(cost=-1.0), "should not be negative"),
        (lambda: Inertia(steps=0.0), "should be more than none"),
    ],
)
def test_settings_that_cannot_be(make: Callable[[], object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        make()
