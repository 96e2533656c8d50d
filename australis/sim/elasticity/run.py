"""One seed: agents that choose cores for their modules while everything fails, and what must hold."""

from __future__ import annotations

from collections import Counter

from australis.kernel.machine import Event
from australis.protocols.elasticity.agent import AgentMachine
from australis.sim.elasticity.checks import Checks
from australis.sim.elasticity.schedule import Fault, Kind, draw
from australis.sim.elasticity.watch import WatchedFloor
from australis.sim.seeds import Violation


class Run:
    """One run."""

    def __init__(self, seed: int, agent_class: type[AgentMachine] = AgentMachine) -> None:
        self.schedule = draw(seed)
        self.floor = WatchedFloor(self.schedule, agent_class)
        self.checks = Checks(self.schedule, self.floor)
        self.done = 0
        """So many control steps are over."""
        self.counts: Counter[str] = Counter()
        self._plan()

    # --- what happens ---------------------------------------------------------------------------

    def _plan(self) -> None:
        schedule, world = self.schedule, self.floor.world
        for step, told in schedule.measured.items():
            at_us = step * schedule.options.step_us - schedule.options.step_us // 2
            for name, event in told.items():
                world.at(at_us, self._measure, name, event)
        for fault in schedule.faults:
            world.at(fault.at_us, self._begin, fault)
            world.at(fault.until_us, self._end, fault)
        world.at(schedule.heals_us, self.floor.heal)

    def _measure(self, name: str, event: Event) -> None:
        self.floor.tell(name, event)

    def _begin(self, fault: Fault) -> None:
        self.counts[COUNTED[fault.kind]] += 1
        host = self.floor.watched[fault.here]
        if fault.kind is Kind.CRASH:
            host.crash()
        elif fault.kind is Kind.PAUSE:
            host.pause()
        else:
            self._link(fault, 1)

    def _end(self, fault: Fault) -> None:
        host = self.floor.watched[fault.here]
        if fault.kind is Kind.CRASH:
            if host.machine is None:
                self.floor.start(fault.here, host.cores)
        elif fault.kind is Kind.PAUSE:
            host.resume()
        else:
            self._link(fault, -1)

    def _link(self, fault: Fault, sign: int) -> None:
        """A link fails, or does so no longer."""
        assert fault.there is not None
        ways = [(fault.here, fault.there)]
        if not fault.one_way:
            ways.append((fault.there, fault.here))
        for here, there in ways:
            if fault.kind is Kind.SLOW:
                self.floor.world.network.link(here, there).extra_us += sign * fault.extra_us
            elif sign > 0:
                self.floor.cut(here, there)
            else:
                self.floor.mend(here, there)

    # --- what must hold -------------------------------------------------------------------------

    def run(self) -> list[Violation]:
        """Let it all happen; what the checkers say of the first step with which something is wrong."""
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


COUNTED = {
    Kind.CRASH: "crashes",
    Kind.PAUSE: "pauses",
    Kind.CUT: "cuts",
    Kind.SLOW: "slow links",
}
