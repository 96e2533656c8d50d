"""Participants as machines in the simulated world: offers and answers are messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from australis.kernel.machine import Machine
from australis.protocols.contracts.choices import Valuation
from australis.protocols.contracts.costs import Costs, Curve, Levels, Load
from australis.protocols.contracts.events import (
    ContractOptions,
    ContractsChanged,
    Entry,
    Leaving,
    PartnerFailed,
    PartnerLeft,
    Rewrite,
    Started,
    Write,
)
from australis.protocols.contracts.participant import ParticipantMachine
from australis.protocols.contracts.terms import Contract, Task
from australis.sim.contracts.instance import PERIOD_US, STEP_US, Instance
from australis.sim.contracts.loads import Loads
from australis.sim.network import Network
from australis.sim.world import Host, World

UNIT = Load(cpu=1.0)


class ParticipantHost(Host):
    """A participant's place in the world, with a journal that survives it."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.journal: list[Entry] = []
        self._performers[Write] = self._write
        self._performers[Rewrite] = self._rewrite

    def _write(self, effect: Write) -> None:
        self.journal.extend(effect.entries)

    def _rewrite(self, effect: Rewrite) -> None:
        self.journal = list(effect.entries)


class Federation:
    """All participants of a run."""

    def __init__(
        self,
        world: World,
        contracts: Iterable[Contract],
        tasks: Mapping[str, Sequence[Task]],
        costs: Mapping[str, Costs],
        options: ContractOptions,
        wakes: Mapping[str, int] | None = None,
        values: Mapping[str, Valuation] | None = None,
    ) -> None:
        self.world = world
        self.options = options
        self.costs = dict(costs)
        self._values = dict(values or {})
        """How some value tasks; the others look at costs alone."""
        self.tasks = dict(tasks)
        """What the clients of each participant asked for."""
        self.contracts: dict[str, list[Contract]] = {name: [] for name in tasks}
        for contract in contracts:
            for party in contract.parties:
                self.contracts[party].append(contract)
        self.hosts = {name: ParticipantHost(world, name) for name in tasks}
        for name in tasks:
            self.start(name, (wakes or {}).get(name, 0))

    def start(self, name: str, wake_us: int = 0) -> None:
        """Begin a participant's life, or its next one."""
        host = self.hosts[name]
        machine = self.make(name)
        journal = tuple(host.journal)
        host.start(machine, Started(host.life + 1, tuple(self.tasks[name]), journal, wake_us))

    def make(self, name: str) -> ParticipantMachine:
        """A participant that does what it is meant to; experiments have others."""
        value = self._values.get(name) or Valuation(costs=self.costs[name])
        return ParticipantMachine(name, self.contracts[name], value, self.options)

    def join(
        self, name: str, tasks: Sequence[Task], costs: Costs, contracts: Iterable[Contract]
    ) -> None:
        """Somebody new, with contracts with others that are here."""
        self.tasks[name], self.costs[name], self.contracts[name] = tasks, costs, []
        self.hosts[name] = ParticipantHost(self.world, name)
        self.start(name, self.world.now)
        self.sign(contracts)

    def leave(self, name: str) -> None:
        """Let a participant end all it has to do with others; `gone` once it has."""
        self.hosts[name].take(Leaving())

    def fail(self, name: str, noticed_us: int) -> None:
        """A participant is there no longer; after a while its partners notice."""
        self.hosts[name].crash()
        for partner in self._without(name):
            if self.machine(partner) is not None:
                self.world.at(
                    self.world.now + noticed_us, self.hosts[partner].take, PartnerFailed(name)
                )

    def gone(self, name: str) -> bool:
        """Whether one that leaves has nothing more to do with others; it is gone then."""
        machine = self.machine(name)
        if machine is None:
            return True
        if machine.holdings.bound:
            return False
        self.hosts[name].crash()
        for partner in self._without(name):
            if self.machine(partner) is not None:
                self.hosts[partner].take(ContractsChanged(tuple(self.contracts[partner])))
                self.hosts[partner].take(PartnerLeft(name))
        return True

    def _without(self, name: str) -> list[str]:
        """Its partners, who have no contract with it any more."""
        partners = {p for c in self.contracts[name] for p in c.parties if p != name}
        for partner in partners:
            self.contracts[partner] = [c for c in self.contracts[partner] if name not in c.parties]
        return sorted(partners)

    def sign(self, contracts: Iterable[Contract]) -> None:
        """Add contracts while everybody goes on."""
        signing = set()
        for contract in contracts:
            for party in contract.parties:
                self.contracts[party].append(contract)
                signing.add(party)
        for name in sorted(signing):
            self.hosts[name].take(ContractsChanged(tuple(self.contracts[name])))

    def machine(self, name: str) -> ParticipantMachine | None:
        """A participant while it lives."""
        machine: Machine | None = self.hosts[name].machine
        assert machine is None or isinstance(machine, ParticipantMachine)
        return machine

    @property
    def machines(self) -> dict[str, ParticipantMachine]:
        """Those that live."""
        found = ((name, self.machine(name)) for name in self.hosts)
        return {name: machine for name, machine in found if machine is not None}

    @property
    def loads(self) -> Loads:
        """How many tasks run at each participant."""
        return np.array([len(m.holdings.tasks) for m in self.machines.values()], np.int32)


def name_of(number: int) -> str:
    """Participants have numbers in arrays and names elsewhere."""
    return f"p{number}"


def federation_of(
    instance: Instance,
    network: Network,
    curve: Curve | None = None,
    permanent: bool = True,
    kind: type[Federation] = Federation,
    **options: Any,
) -> Federation:
    """The same participants, contracts and tasks as in an array instance."""
    graph = instance.graph
    names = [name_of(i) for i in range(graph.size)]
    contracts = [
        Contract(
            buyer=names[i],
            seller=names[graph.partners[e]],
            low=float(instance.low[e]),
            high=float(instance.high[e]),
            duration_us=PERIOD_US,
            unit=UNIT,
        )
        for i in range(graph.size)
        for e in range(graph.first[i], graph.first[i + 1])
    ]
    tasks = {
        name: [Task(f"{name}/{k}", UNIT, name) for k in range(count)]
        for name, count in zip(names, instance.load.tolist(), strict=True)
    }
    costs = Costs(cpu=curve or Levels())
    settings = ContractOptions(
        period_us=PERIOD_US,
        step_us=STEP_US,
        answer_us=STEP_US // 2,
        resend_us=PERIOD_US // 2,
        permanent=permanent,
        **options,
    )
    wakes = dict(zip(names, instance.wakes.tolist(), strict=True))
    world = World(network)
    return kind(world, contracts, tasks, dict.fromkeys(names, costs), settings, wakes)
