"""One run: agents that choose cores for their modules under faults, and the promises to check."""

from __future__ import annotations

from collections import Counter

from australis.kernel.machine import Event
from australis.kernel.trace import Trace
from australis.sim.elasticity.checks import Checks
from australis.sim.elasticity.schedule import Schedule
from australis.sim.elasticity.watch import WatchedFloor
from australis.sim.faults import Fault, Inflictor, Kind, Lie
from australis.sim.harness.model import Violation

COUNTED: dict[Kind | Lie, str] = {
    Kind.CRASH: "crashes",
    Kind.PAUSE: "pauses",
    Kind.CUT: "cuts",
    Kind.CUT_ONE_WAY: "cuts",
}


class ElasticityInflictor(Inflictor):
    """Inflicts faults on agents, and records the links they touch."""

    def __init__(self, floor: WatchedFloor, schedule: Schedule) -> None:
        boot = lambda node: floor.start(node, floor.watched[node].cores)  # noqa: E731
        super().__init__(floor.world, schedule.link, boot)
        self._floor = floor

    def cut(self, sender: str, to: str) -> None:
        """Let nothing through one way."""
        self._floor.cut(sender, to)

    def mend(self, sender: str, to: str) -> None:
        """Take back one cut."""
        self._floor.mend(sender, to)


class Run:
    """One run."""

    def __init__(self, schedule: Schedule, trace: Trace | None = None) -> None:
        self.schedule = schedule
        self.floor = WatchedFloor(schedule, trace)
        self.world = self.floor.world
        self.checks = Checks(schedule, self.floor)
        self.done = 0
        """The number of finished control steps."""
        self.counts: Counter[str] = Counter()
        self._plan()

    # --- events ---------------------------------------------------------------------------------

    def _plan(self) -> None:
        schedule, world = self.schedule, self.world
        for step, told in schedule.measured.items():
            at_us = step * schedule.options.step_us - schedule.options.step_us // 2
            for name, event in told.items():
                world.at(at_us, self._measure, name, event)
        inflictor = ElasticityInflictor(self.floor, schedule)
        for fault in schedule.faults:
            if isinstance(fault, Fault):
                self.counts[COUNTED[fault.kind]] += 1
                inflictor.plan([fault])
                continue
            self.counts["slow links"] += 1
            for at_us, sign in ((fault.at_us, 1), (fault.until_us, -1)):
                world.at(at_us, self._slow, fault.node, fault.other, sign * fault.extra_us)
        world.at(schedule.heals_us, world.network.heal)

    def _measure(self, name: str, event: Event) -> None:
        self.floor.tell(name, event)

    def _slow(self, here: str, there: str, extra_us: int) -> None:
        self.world.network.link(here, there).extra_us += extra_us

    # --- promises -------------------------------------------------------------------------------

    def run(self) -> list[Violation]:
        """Run to the end; report the violations of the first step that has any."""
        found: list[Violation] = []
        while self.done < self.schedule.steps and not found:
            self.floor.world.run(self.schedule.over_us(self.done + 1))
            self.done += 1
            found = list(self.checks.look(self.done))
        self.counts["steps"] += self.done
        self.counts["messages"] += sum(self.floor.messages.values())
        self.counts["lost"] += self.floor.world.network.lost
        self.counts["agreed"] += len(self.checks.agreed)
        self.counts += self.checks.counts
        return found
