"""Agents in the simulated world, and the outcome they agree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from australis.elasticity.game import Game
from australis.kernel.durations import SECOND
from australis.kernel.machine import Event, Message
from australis.kernel.rng import SeedTree
from australis.kernel.trace import Trace
from australis.protocols.elasticity.agent import AgentMachine
from australis.protocols.elasticity.events import (
    ElasticityOptions,
    SetCores,
    Started,
    TellSettled,
)
from australis.protocols.elasticity.seats import seats
from australis.sim.network import Link, Network
from australis.sim.world import Clock, Host, World


class AgentHost(Host):
    """An agent's place in the world."""

    def __init__(self, floor: ElasticitySimulation, name: str, clock: Clock | None = None) -> None:
        super().__init__(floor.world, name, clock)
        self.settled: list[TellSettled] = []
        self.ended_us: list[int] = []
        self.changes: list[int] = []
        self._performers |= {SetCores: self._set, TellSettled: self._tell}

    def _set(self, effect: SetCores) -> None:
        self.changes.append(effect.cores)

    def _tell(self, effect: TellSettled) -> None:
        self.settled.append(effect)
        self.ended_us.append(self.world.now)


class ElasticitySimulation:
    """The agents of one game."""

    def __init__(
        self,
        game: Game,
        options: ElasticityOptions | None = None,
        link: Link | None = None,
        seed: int = 1,
        skew_us: int = 0,
        agent_class: type[AgentMachine] = AgentMachine,
        cores: Mapping[str, int] | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.game = game
        self.options = options or ElasticityOptions()
        chance = SeedTree(seed).under("run")
        clocks = chance.stream("clocks")
        self.world = World(Network(chance.stream("network"), link or Link()), trace)
        self.world.tap = self._count
        self.messages: Counter[str] = Counter()
        self.hosts: dict[str, AgentHost] = {}
        self.seats = seats(game.graph)
        self._agent_class = agent_class
        for name in game.graph.modules:
            clock = Clock(clocks.randrange(skew_us)) if skew_us else None
            self.hosts[name] = self._host(name, clock)
            self.start(name, (cores or {}).get(name, 1))

    def _host(self, name: str, clock: Clock | None) -> AgentHost:
        return AgentHost(self, name, clock)

    def start(self, name: str, cores: int = 1) -> None:
        """Begin an incarnation of an agent, and end the one before."""
        self.hosts[name].crash()
        machine = self._agent_class(self.seats[name], self.game.modules[name], self.options)
        self.hosts[name].start(machine, Started(cores))

    def _count(self, to: str, sender: str, message: Message) -> None:
        assert sender in self.game.graph.neighbours[to], "agents talk to neighbours only"
        self.messages[type(message).__name__] += 1

    def tell(self, name: str, event: Event) -> None:
        """Hand an event to an agent."""
        self.hosts[name].take(event)

    def run(self, steps: int = 1) -> None:
        """Run this number of further control steps."""
        done = self.world.now // self.options.step_us
        self.world.run((done + steps + 1) * self.options.step_us - SECOND)

    def degrees(self) -> dict[str, float]:
        """The degrees that all agents chose in the last step, before rounding."""
        return {name: host.settled[-1].degree for name, host in self.hosts.items()}

    def last(self, what: str) -> set[object]:
        """The distinct outcomes that agents reported for the last step; one if they agree."""
        return {getattr(host.settled[-1], what) for host in self.hosts.values()}
