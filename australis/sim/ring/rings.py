"""Rings of simulated peers: assembled complete, or grown by joining."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from random import Random

from australis.kernel.errors import UserError
from australis.kernel.rng import SeedTree
from australis.protocols.ring.events import RingOptions, Started, TellFound, TellKept
from australis.protocols.ring.keys import key_of
from australis.protocols.ring.messages import Entry
from australis.protocols.ring.peer import RingMachine
from australis.sim.network import Network
from australis.sim.world import Host, World

CONTACTS = 3


class RingHost(Host):
    """A peer's host, and the answers it received."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.found: dict[str, tuple[tuple[str, ...], int]] = {}
        """The responsible peers and the number of hops of each lookup, by tag."""
        self.kept: dict[str, tuple[Entry, ...] | None] = {}
        self._performers[TellFound] = self._tell_found
        self._performers[TellKept] = self._tell_kept

    def _tell_found(self, effect: TellFound) -> None:
        self.found[effect.tag] = effect.peers, effect.hops

    def _tell_kept(self, effect: TellKept) -> None:
        self.kept[effect.tag] = effect.entries


def assemble(
    names: Sequence[str],
    options: RingOptions,
    stream: Callable[[str], Random],
    now: int,
    machine_class: type[RingMachine] = RingMachine,
) -> dict[str, RingMachine]:
    """Assemble a complete ring: all peers know their neighbours and fingers.

    `stream` gives the random numbers of a peer.
    """
    order = sorted(names, key=key_of)
    places = [key_of(name) for name in order]
    size = len(order)
    if len(set(places)) < size:
        twice = next(name for name in order if order.count(name) > 1)
        raise UserError("is the name of two peers", name=twice)
    found = {}
    for at, name in enumerate(order):
        machine = found[name] = machine_class(name, stream(name), options)
        behind = [order[(at + k) % size] for k in range(1, min(size, 1 + options.successors))]
        machine.table.follow(behind)
        fingers = {
            e: order[bisect_left(places, machine.table.finger_place(e)) % size]
            for e in machine.table.missing_fingers()
        }
        machine.assemble(order[at - 1], behind, fingers, now)
    return found


class Ring:
    """All peers, and the expected responsibilities."""

    host_class: type[RingHost] = RingHost
    machine_class: type[RingMachine] = RingMachine

    def __init__(
        self, network: Network, chance: SeedTree, options: RingOptions | None = None
    ) -> None:
        self.world = World(network)
        self.options = options or RingOptions()
        self.hosts: dict[str, RingHost] = {}
        self._peer = cache(lambda name: chance.stream(f"peer {name}"))
        self._contacts = chance.stream("contacts")

    def join(self, name: str, contacts: Sequence[str] = ()) -> None:
        """Add a new peer, or one that was present before."""
        host = self.hosts.get(name) or self.host_class(self.world, name)
        self.hosts[name] = host
        machine = self.machine_class(name, self._peer(name), self.options)
        host.start(machine, Started(host.incarnation + 1, tuple(contacts)))

    def assemble(self, names: Sequence[str], contacts: Sequence[str] = ()) -> None:
        """Assemble a complete ring; peers know the given contacts, or random ones, from the
        beginning.
        """
        machines = assemble(names, self.options, self._peer, self.world.now, self.machine_class)
        for name, machine in machines.items():
            host = self.hosts[name] = self.host_class(self.world, name)
            known = contacts or self._contacts.sample(list(machines), min(len(names), CONTACTS))
            host.start(machine, Started(host.incarnation + 1, tuple(known)))

    def machine(self, name: str) -> RingMachine:
        """The machine of a peer that is present."""
        machine = self.hosts[name].machine
        assert isinstance(machine, RingMachine)
        return machine

    @property
    def present(self) -> list[str]:
        """The peers that are present."""
        return [name for name, host in self.hosts.items() if host.machine is not None]

    def responsible(self, under: str) -> str:
        """The peers that should be responsible for a name, among those present."""
        return self.all_responsible([under])[under]

    def all_responsible(self, names: Iterable[str]) -> dict[str, str]:
        """The peers that should be responsible for each of these names."""
        order = sorted((key_of(name), name) for name in self.present)
        size = len(order)
        return {n: order[bisect_left(order, (key_of(n), "")) % size][1] for n in names}
