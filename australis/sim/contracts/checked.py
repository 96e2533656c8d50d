"""One run: participants that move load under faults, and the promises to check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace as changed

from australis.kernel.durations import SECOND
from australis.kernel.machine import Message
from australis.kernel.rng import SeedTree
from australis.kernel.trace import Trace
from australis.protocols.contracts.choices import Valuation, acceptset, offerset
from australis.protocols.contracts.costs import Load
from australis.protocols.contracts.events import TasksChanged
from australis.protocols.contracts.messages import Move
from australis.protocols.contracts.participant import ParticipantMachine
from australis.protocols.contracts.terms import Contract, Task
from australis.sim.contracts.federation import Federation
from australis.sim.contracts.schedule import (
    FAULTS_US,
    HEAVIER,
    LEAVE,
    MORE,
    UNIT,
    Change,
    ContractsScenario,
)
from australis.sim.faults import Fault, Inflictor
from australis.sim.harness.model import Violation
from australis.sim.network import Network
from australis.sim.world import World

LOOK_US = SECOND // 4
SETTLING_US = 20 * SECOND
"""The time after healing during which the two sides of a movement may disagree."""
QUIET_US = 15 * SECOND
"""Movements have ended if there was none for this time, longer than any refusal lasts."""
LIMIT_US = 400 * SECOND
"""When nothing changes and tasks move for good, movements must have ended by then."""
PENNY = 1e-6


class CheckedFederation(Federation):
    """The participants of a scenario, possibly broken ones."""

    machine_class: type[ParticipantMachine] = ParticipantMachine

    def make(self, name: str) -> ParticipantMachine:
        """A participant of the scenario's kind."""
        value = Valuation(costs=self.costs[name])
        return self.machine_class(name, self.contracts[name], value, self.options)


class ContractsSimulation:
    """One run."""

    def __init__(self, scenario: ContractsScenario, trace: Trace | None = None) -> None:
        self.scenario = scenario
        self.counts: Counter[str] = Counter()
        rng = SeedTree(scenario.seed).under("run").stream("network")
        self.world = World(Network(rng, scenario.link), trace)
        self.world.tap = self._hear
        self._signed: dict[tuple[str, str], list[Contract]] = {}
        """The contracts that two participants ever signed."""
        for contract in scenario.contracts:
            self._signed.setdefault(contract.parties, []).append(contract)
        self._wrong: list[Violation] = []
        self._leaving: list[str] = []
        self._left: set[str] = set()
        kind = type("Drawn", (CheckedFederation,), {"machine_class": scenario.machine_class})
        self.federation: Federation = kind(
            self.world,
            scenario.contracts,
            {name: list(tasks) for name, tasks in scenario.tasks.items()},
            scenario.costs,
            scenario.options,
            scenario.wakes,
        )
        self._plan()

    # --- events ---------------------------------------------------------------------------------

    def _plan(self) -> None:
        inflictor = Inflictor(self.world, self.scenario.link, self._boot)
        for planned in self.scenario.schedule:
            if isinstance(planned, Fault):
                self.counts[planned.kind.value] += 1
                inflictor.plan([planned])
            elif isinstance(planned, Change):
                self.world.at(planned.at_us, self._change, planned)
            else:
                self.world.at(planned.at_us, self._sign, planned.contract)

    def _boot(self, name: str) -> None:
        if name not in self._left:
            self.federation.start(name, self.world.now)

    def _change(self, change: Change) -> None:
        name, one = change.participant, self.federation
        if name in self._leaving or name in self._left:
            return
        self.counts[change.what] += 1
        tasks = list(one.tasks[name])
        event = None
        if change.what == LEAVE:
            if one.machine(name) is not None:
                self._leaving.append(name)
                one.leave(name)
            return
        if change.what == MORE:
            event = TasksChanged(now_there=(Task(f"{name}/new{change.number}", UNIT, name),))
            tasks += event.now_there
        elif tasks and change.what == HEAVIER:
            heavier = changed(tasks[0], load=Load(cpu=tasks[0].load.cpu + 1.0))
            event = TasksChanged(now_there=(heavier,))
            tasks[0] = heavier
        elif tasks:
            event = TasksChanged(gone=(tasks[0].name,))
            del tasks[0]
        if event is not None and one.machine(name) is not None:
            one.tasks[name] = tasks
            one.hosts[name].take(event)

    def _sign(self, contract: Contract) -> None:
        if self._left & set(contract.parties):
            return
        self.counts["signed"] += 1
        for party in contract.parties:
            mine = self.federation.contracts[party]
            mine[:] = [c for c in mine if c.parties != contract.parties]
        self._signed.setdefault(contract.parties, []).append(contract)
        self.federation.sign([contract])

    def _hear(self, to: str, sender: str, message: Message) -> None:
        """Check the price of every movement that is requested from a seller."""
        if isinstance(message, Move):
            self.counts["asked"] += 1
            agreed = self._signed.get((sender, to), [])
            if not any(c.low - PENNY <= message.price <= c.high + PENNY for c in agreed):
                story = f"{sender} pays {to} {message.price:g}, which no contract of theirs allows"
                self._wrong.append(Violation("price", story))

    # --- promises -------------------------------------------------------------------------------

    def run(self) -> list[Violation]:
        """Run to the end; report the violations."""
        found: list[Violation] = []
        while self.world.now < FAULTS_US and not found:
            self._look()
            found = list(self._always())
        self.world.network.heal()
        while not found and (self._pending() or self.world.now < FAULTS_US + SECOND):
            if self.world.now > FAULTS_US + SETTLING_US:
                found = [Violation("unsettled", self._pending())]
                break
            self._look(LOOK_US // 50)
            found = list(self._always())
        found = found or list(self._settled())
        if not found and self.scenario.options.permanent:
            found = list(self._to_the_end())
        self.counts["movements"] += self._moved()
        self.counts["messages"] += self.world.delivered
        return found

    def _look(self, us: int = LOOK_US) -> None:
        self.world.run(self.world.now + us)
        for name in list(self._leaving):
            machine = self.federation.machine(name)
            if machine is None:
                continue
            if not machine.holdings.leaving:  # it was paused when it was to leave, and crashed
                self.federation.leave(name)
            elif self.federation.gone(name):
                self._leaving.remove(name)
                self._left.add(name)

    def _moved(self) -> int:
        return sum(m.holdings.movements for m in self.federation.machines.values())

    def _pending(self) -> str:
        """The participants whose movements differ from their partner's books, or that have not left
        yet.
        """
        machines = self.federation.machines
        open_ = [n for n, m in machines.items() if m.holdings.unsettled]
        return f"{', '.join(open_ or self._leaving)} have not settled" if (
            open_ or self._leaving
        ) else ""  # fmt: skip

    def _all_there(self) -> bool:
        hosts = self.federation.hosts
        up = {name for name, host in hosts.items() if host.machine is not None and not host.paused}
        return up | self._left >= set(hosts)

    def _wanted(self) -> list[str]:
        one = self.federation
        return sorted(task.name for name in one.machines for task in one.tasks[name])

    def _running(self) -> Counter[str]:
        machines = self.federation.machines.values()
        return Counter(name for m in machines for name in m.holdings.tasks)

    def _always(self) -> Iterator[Violation]:
        yield from self._wrong
        if self._all_there():
            running = self._running()
            lost = [name for name in self._wanted() if not running[name]]
            if lost:
                yield Violation("lost", f"{', '.join(lost[:3])} run nowhere")
        for name, machine in self.federation.machines.items():
            payers: dict[str, str] = {}
            for buyer, task in machine.holdings.hosted:
                if task in payers:
                    story = f"{name} runs {task} for {payers[task]} and {buyer}"
                    yield Violation("payers", story)
                payers[task] = buyer

    def _settled(self) -> Iterator[Violation]:
        """When no message is under way each task runs once, and both sides have equal books."""
        running, wanted = self._running(), set(self._wanted())
        for task, times in running.items():
            if times > 1 or task not in wanted:
                yield Violation("once", f"{task} runs {times} times, wanted: {task in wanted}")
        machines = self.federation.machines
        for a in machines:
            for b in machines:
                mine, theirs = (machines[n].holdings.ledger.owed(a, b) for n in (a, b))
                if abs(mine - theirs) > PENNY:
                    story = f"{a} owes {b} {mine:g} by its own books, {theirs:g} by the other's"
                    yield Violation("books", story)

    def _to_the_end(self) -> Iterator[Violation]:
        """Without further changes movements end, and no pair would change the final allocation."""
        last_us, moved = self.world.now, self._moved()
        while self.world.now < last_us + QUIET_US:
            self._look(SECOND)
            if self._moved() != moved:
                last_us, moved = self.world.now, self._moved()
            if self.world.now > LIMIT_US:
                yield Violation("ends", f"there are still movements after {LIMIT_US // SECOND} s")
                return
        yield from self._always()
        yield from self._settled()
        yield from self._acceptable()

    def _acceptable(self) -> Iterator[Violation]:
        """No buyer would offer what its partner would accept at their contract's lowest price."""
        machines, costs = self.federation.machines, self.scenario.costs
        for buyer, machine in machines.items():
            for contract in self.federation.contracts[buyer]:
                seller = contract.seller
                if contract.buyer != buyer or not contract.valid(self.world.now):
                    continue
                here, there = machine.holdings, machines[seller].holdings
                offered = offerset(
                    *(Valuation(costs=costs[buyer]), here.load, here.free.values()),
                    *(contract, contract.low),
                )
                offered = [task for task in offered if there.may_take(task)]
                taken = acceptset(
                    *(Valuation(costs=costs[seller]), there.load, offered, contract, contract.low)
                )
                if taken:
                    story = f"{buyer} could move {taken[0].name} to {seller} for {contract.low:g}"
                    yield Violation("acceptable", story)
