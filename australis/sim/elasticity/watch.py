"""Watched agents: what each one knew when a control step began, and how that step ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from australis.elasticity.cost import Module
from australis.elasticity.estimate import Average
from australis.elasticity.service import fed
from australis.kernel.machine import Event, Machine, Message, Send, TimerFired
from australis.kernel.trace import Trace
from australis.protocols.elasticity.agent import STEP
from australis.protocols.elasticity.events import Measured, SetCores, Started, TellSettled
from australis.sim.elasticity.schedule import Schedule
from australis.sim.elasticity.simulation import AgentHost, ElasticitySimulation
from australis.sim.network import Link
from australis.sim.world import Clock


@dataclass
class Known:
    """What an agent must have learnt about its module in this incarnation."""

    running: Average
    every: Average

    def learn(self, told: Measured) -> None:
        """Record a measurement."""
        if told.running_s is not None:
            self.running.add(told.running_s)
        if told.every_s is not None:
            self.every.add(told.every_s)

    def of(self, module: Module) -> Module:
        """The module as the agent knows it now."""
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
    """The module as the agent knows it."""
    before: int
    """The cores of that module before the step."""
    sets: list[int] = field(default_factory=list)
    told: list[TellSettled] = field(default_factory=list)
    ended_us: list[int] = field(default_factory=list)


class WatchedHost(AgentHost):
    """An agent's host, which records everything that happens to it."""

    def __init__(self, floor: WatchedFloor, name: str, clock: Clock | None = None) -> None:
        super().__init__(floor, name, clock)
        self.cores = 0
        """The cores of its module, whether the agent is up or not."""
        self.notes: dict[int, Notes] = {}
        """Notes by control step."""
        self.touched_us = 0
        """When the agent last started, crashed, paused or resumed."""
        self._floor = floor
        self._last: Notes | None = None
        self._known = self._nothing()

    def _nothing(self) -> Known:
        newest = self._floor.options.newest
        return Known(Average(newest), Average(newest))

    @property
    def here(self) -> bool:
        """Whether the agent is up and not paused."""
        return self.machine is not None and not self.paused

    # --- lifecycle ---------------------------------------------------------------------------------------

    def start(self, machine: Machine, event: Event) -> None:
        """Begin an incarnation without any knowledge."""
        self.touched_us = self.world.now
        self._known = self._nothing()
        super().start(machine, event)

    def crash(self) -> None:
        """End an incarnation."""
        self.touched_us = self.world.now
        super().crash()

    def pause(self) -> None:
        """Pause the agent."""
        self.touched_us = self.world.now
        super().pause()

    def resume(self) -> None:
        """Resume the agent."""
        self.touched_us = self.world.now
        super().resume()

    # --- events -----------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Record an event, and hand it to the agent."""
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


class WatchedFloor(ElasticitySimulation):
    """The agents of a schedule."""

    def __init__(self, schedule: Schedule, trace: Trace | None = None) -> None:
        self.watched: dict[str, WatchedHost] = {}
        self.sent: dict[int, Counter[str]] = defaultdict(Counter)
        """Messages by control step and kind, whether they arrive or not."""
        self.strangers: list[str] = []
        """Pairs of agents that exchanged messages without knowing each other."""
        self.cut_us: dict[tuple[str, str], int] = {}
        """When each link was last cut or mended."""
        super().__init__(
            schedule.game,
            schedule.options,
            schedule.link,
            schedule.seed,
            schedule.skew_us,
            schedule.agent_class,
            schedule.cores,
            trace,
        )

    def _host(self, name: str, clock: Clock | None) -> AgentHost:
        made = self.watched[name] = WatchedHost(self, name, clock)
        return made

    def _count(self, to: str, sender: str, message: Message) -> None:
        self.messages[type(message).__name__] += 1

    def sends(self, sender: str, to: str, message: Message) -> None:
        """Record that a message is sent."""
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
