"""Agents that are watched: what they knew when a control step began, and how it ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from australis.elasticity.cost import Module
from australis.elasticity.estimate import Average
from australis.elasticity.service import fed
from australis.kernel.machine import Event, Machine, Message, Send, TimerFired
from australis.protocols.elasticity.agent import STEP, AgentMachine
from australis.protocols.elasticity.events import Measured, SetCores, Started, TellSettled
from australis.sim.elasticity.floor import AgentHost, Floor
from australis.sim.elasticity.schedule import Schedule
from australis.sim.network import Link
from australis.sim.world import Clock


@dataclass
class Known:
    """What an agent must have learnt of its module in this life."""

    running: Average
    every: Average

    def learn(self, told: Measured) -> None:
        """Something was measured."""
        if told.running_s is not None:
            self.running.add(told.running_s)
        if told.every_s is not None:
            self.every.add(told.every_s)

    def of(self, module: Module) -> Module:
        """The module as it is known now."""
        service = module.service
        if self.running.value is not None:
            service = service.taking(self.running.value)
        if self.every.value is not None:
            service = fed(service, self.every.value)
        return replace(module, service=service)


@dataclass
class Notes:
    """One control step of one agent."""

    step: int
    begun_us: int
    module: Module
    """What it knows of its module,"""
    before: int
    """and how many cores that has."""
    sets: list[int] = field(default_factory=list)
    told: list[TellSettled] = field(default_factory=list)
    ended_us: list[int] = field(default_factory=list)


class WatchedHost(AgentHost):
    """An agent's place in the world, where everything is noted down."""

    def __init__(self, floor: WatchedFloor, name: str, clock: Clock | None = None) -> None:
        super().__init__(floor, name, clock)
        self.cores = 0
        """What its module has, whether the agent is there or not."""
        self.notes: dict[int, Notes] = {}
        """By control step."""
        self.touched_us = 0
        """When it last came, went, stopped or went on."""
        self._floor = floor
        self._last: Notes | None = None
        self._known = self._nothing()

    def _nothing(self) -> Known:
        newest = self._floor.options.newest
        return Known(Average(newest), Average(newest))

    @property
    def here(self) -> bool:
        """Whether the agent is there and does something."""
        return self.machine is not None and not self.paused

    # --- life ---------------------------------------------------------------------------------------

    def start(self, machine: Machine, event: Event) -> None:
        """Begin a life, knowing nothing."""
        self.touched_us = self.world.now
        self._known = self._nothing()
        super().start(machine, event)

    def crash(self) -> None:
        """End a life."""
        self.touched_us = self.world.now
        super().crash()

    def pause(self) -> None:
        """Stand still."""
        self.touched_us = self.world.now
        super().pause()

    def resume(self) -> None:
        """Go on."""
        self.touched_us = self.world.now
        super().resume()

    # --- what happens ---------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Note down what an event says, and hand it on."""
        if self.here:
            match event:
                case Started(cores):
                    self.cores = cores
                case Measured():
                    self._known.learn(event)
                case TimerFired(name) if name == STEP:
                    self._begins()
        super().take(event)

    def _begins(self) -> None:
        step = self.clock.local(self.world.now) // self._floor.options.step_us
        module = self._known.of(self._floor.game.modules[self.name])
        self._last = self.notes[step] = Notes(step, self.world.now, module, self.cores)

    def _send(self, effect: Send) -> None:
        self._floor.sends(self.name, effect.to, effect.message)
        super()._send(effect)

    def _set(self, effect: SetCores) -> None:
        super()._set(effect)
        assert self._last is not None, "nothing is set before a step begins"
        self._last.sets.append(effect.cores)
        self.cores = effect.cores

    def _tell(self, effect: TellSettled) -> None:
        super()._tell(effect)
        assert self._last is not None, "nothing ends before it begins"
        self._last.told.append(effect)
        self._last.ended_us.append(self.world.now)


class WatchedFloor(Floor):
    """The agents of a schedule."""

    def __init__(self, schedule: Schedule, agent_class: type[AgentMachine] = AgentMachine) -> None:
        self.watched: dict[str, WatchedHost] = {}
        self.sent: dict[int, Counter[str]] = defaultdict(Counter)
        """Messages by control step and kind, whether they come or not."""
        self.strangers: list[str] = []
        """Who talked to whom it does not know."""
        self.cut_us: dict[tuple[str, str], int] = {}
        """When a link was last cut or mended."""
        super().__init__(
            schedule.game,
            schedule.options,
            schedule.link,
            schedule.seed,
            schedule.skew_us,
            agent_class,
            schedule.cores,
        )

    def _host(self, name: str, clock: Clock | None) -> AgentHost:
        made = self.watched[name] = WatchedHost(self, name, clock)
        return made

    def _count(self, to: str, sender: str, message: Message) -> None:
        self.messages[type(message).__name__] += 1

    def sends(self, sender: str, to: str, message: Message) -> None:
        """Note down that a message goes out."""
        if to not in self.game.graph.neighbours[sender]:
            self.strangers.append(f"{sender} talks to {to}")
        self.sent[getattr(message, "step", 0)][type(message).__name__] += 1

    # --- links ------------------------------------------------------------------------------------------

    def cut(self, here: str, there: str) -> None:
        """Let nothing through one way."""
        self.cut_us[here, there] = self.world.now
        self.world.network.cut(here, there)

    def mend(self, here: str, there: str) -> None:
        """Take back one cut."""
        self.cut_us[here, there] = self.world.now
        self.world.network.mend(here, there)

    def links(self) -> dict[tuple[str, str], Link]:
        """All links, both ways."""
        link = self.world.network.link
        ways = [
            way for here, there in self.game.graph.arcs for way in ((here, there), (there, here))
        ]
        return {way: link(*way) for way in ways}

    def heal(self) -> None:
        """Let nothing get lost from now on, nor come twice."""
        for link in self.links().values():
            link.loss = link.duplicate = 0.0
