"""Participants as machines in the simulated world: offers and answers are messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from australis.kernel.machine import Machine
from australis.protocols.contracts.choices import Valuation
from australis.protocols.contracts.costs import Costs
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
from australis.sim.world import Host, World


class ParticipantHost(Host):
    """A participant's host, with a journal that survives crashes."""

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
        """How some participants value tasks; the others consider costs alone."""
        self.tasks = dict(tasks)
        """The tasks that the clients of each participant requested."""
        self.contracts: dict[str, list[Contract]] = {name: [] for name in tasks}
        for contract in contracts:
            for party in contract.parties:
                self.contracts[party].append(contract)
        self.hosts = {name: ParticipantHost(world, name) for name in tasks}
        for name in tasks:
            self.start(name, (wakes or {}).get(name, 0))

    def start(self, name: str, wake_us: int = 0) -> None:
        """Begin a participant's next incarnation."""
        host = self.hosts[name]
        machine = self.make(name)
        journal = tuple(host.journal)
        host.start(
            machine, Started(host.incarnation + 1, tuple(self.tasks[name]), journal, wake_us)
        )

    def make(self, name: str) -> ParticipantMachine:
        """A correct participant; experiments override this."""
        value = self._values.get(name) or Valuation(costs=self.costs[name])
        return ParticipantMachine(name, self.contracts[name], value, self.options)

    def join(
        self, name: str, tasks: Sequence[Task], costs: Costs, contracts: Iterable[Contract]
    ) -> None:
        """Add a participant, with contracts with present ones."""
        self.tasks[name], self.costs[name], self.contracts[name] = tasks, costs, []
        self.hosts[name] = ParticipantHost(self.world, name)
        self.start(name, self.world.now)
        self.sign(contracts)

    def leave(self, name: str) -> None:
        """Let a participant end all its contracts; it is removed once `gone`."""
        self.hosts[name].take(Leaving())

    def fail(self, name: str, noticed_us: int) -> None:
        """Remove a participant abruptly; after a while its partners notice."""
        self.hosts[name].crash()
        for partner in self._without(name):
            if self.machine(partner) is not None:
                self.world.at(
                    self.world.now + noticed_us, self.hosts[partner].take, PartnerFailed(name)
                )

    def gone(self, name: str) -> bool:
        """Whether a leaving participant has no obligations left; it is removed then."""
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
        """Its partners, without their contract with it."""
        partners = {p for c in self.contracts[name] for p in c.parties if p != name}
        for partner in partners:
            self.contracts[partner] = [c for c in self.contracts[partner] if name not in c.parties]
        return sorted(partners)

    def sign(self, contracts: Iterable[Contract]) -> None:
        """Add contracts while the run continues."""
        signing = set()
        for contract in contracts:
            for party in contract.parties:
                self.contracts[party].append(contract)
                signing.add(party)
        for name in sorted(signing):
            self.hosts[name].take(ContractsChanged(tuple(self.contracts[name])))

    def machine(self, name: str) -> ParticipantMachine | None:
        """The machine of a participant that is up."""
        machine: Machine | None = self.hosts[name].machine
        assert machine is None or isinstance(machine, ParticipantMachine)
        return machine

    @property
    def machines(self) -> dict[str, ParticipantMachine]:
        """The machines of the participants that are up."""
        found = ((name, self.machine(name)) for name in self.hosts)
        return {name: machine for name, machine in found if machine is not None}

    @property
    def loads(self) -> NDArray[np.int32]:
        """The number of tasks that run at each participant."""
        return np.array([len(m.holdings.tasks) for m in self.machines.values()], np.int32)
