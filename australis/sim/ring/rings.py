"""Rings of simulated peers: standing ones to begin with, and ones that grow by joining."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from random import Random

from australis.kernel.errors import UserError
from australis.protocols.ring.events import RingOptions, Started, TellFound, TellKept
from australis.protocols.ring.keys import key_of
from australis.protocols.ring.messages import Entry
from australis.protocols.ring.peer import RingMachine
from australis.sim.network import Network
from australis.sim.world import Host, World


class RingHost(Host):
    """A peer's place in the world, and what it was told."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.found: dict[str, tuple[tuple[str, ...], int]] = {}
        """Lookups by tag: who is responsible, and after how many hops."""
        self.kept: dict[str, tuple[Entry, ...] | None] = {}
        self._performers[TellFound] = self._tell_found
        self._performers[TellKept] = self._tell_kept

    def _tell_found(self, effect: TellFound) -> None:
        self.found[effect.tag] = effect.peers, effect.hops

    def _tell_kept(self, effect: TellKept) -> None:
        self.kept[effect.tag] = effect.entries


def assemble(
    names: Sequence[str], options: RingOptions, rng: Random, now: int
) -> dict[str, RingMachine]:
    """Peers of a ring that stands already: all know the neighbours and fingers they should."""
    order = sorted(names, key=key_of)
    places = [key_of(name) for name in order]
    size = len(order)
    if len(set(places)) < size:
        twice = next(name for name in order if order.count(name) > 1)
        raise UserError("is the name of two peers", name=twice)
    found = {}
    for at, name in enumerate(order):
        machine = found[name] = RingMachine(name, Random(rng.random()), options)
        behind = [order[(at + k) % size] for k in range(1, min(size, 1 + options.successors))]
        machine.table.follow(behind)
        fingers = {
            e: order[bisect_left(places, machine.table.finger_place(e)) % size]
            for e in machine.table.missing_fingers()
        }
        machine.assemble(order[at - 1], behind, fingers, now)
    return found


class Ring:
    """All peers, and who should be responsible for what."""

    def __init__(self, network: Network, rng: Random, options: RingOptions | None = None) -> None:
        self.world = World(network)
        self.options = options or RingOptions()
        self.hosts: dict[str, RingHost] = {}
        self._rng = rng

    def join(self, name: str, contacts: Sequence[str] = ()) -> None:
        """Somebody new, or somebody who was there before."""
        host = self.hosts.get(name) or RingHost(self.world, name)
        self.hosts[name] = host
        machine = RingMachine(name, Random(self._rng.random()), self.options)
        host.start(machine, Started(host.life + 1, tuple(contacts)))

    def assemble(self, names: Sequence[str], contacts: int = 3) -> None:
        """A ring that stands already."""
        machines = assemble(names, self.options, self._rng, self.world.now)
        for name, machine in machines.items():
            host = self.hosts[name] = RingHost(self.world, name)
            known = self._rng.sample(list(machines), min(len(names), contacts))
            host.start(machine, Started(host.life + 1, tuple(known)))

    def machine(self, name: str) -> RingMachine:
        """A peer that is there."""
        machine = self.hosts[name].machine
        assert isinstance(machine, RingMachine)
        return machine

    @property
    def present(self) -> list[str]:
        """Peers that are there."""
        return [name for name, host in self.hosts.items() if host.machine is not None]

    def responsible(self, under: str) -> str:
        """Who should be responsible for a name, of those that are there."""
        return self.all_responsible([under])[under]

    def all_responsible(self, names: Iterable[str]) -> dict[str, str]:
        """Who should be responsible for each of many names."""
        order = sorted((key_of(name), name) for name in self.present)
        size = len(order)
        return {n: order[bisect_left(order, (key_of(n), "")) % size][1] for n in names}
