"""A colony: a cell at every server of a network, and ants that wait, travel and get lost."""

from __future__ import annotations

import itertools
from functools import partial
from math import inf
from random import Random

import msgspec

from australis.kernel.durations import SECOND
from australis.kernel.machine import Message, Send
from australis.kernel.rng import SeedTree
from australis.kernel.trace import Trace
from australis.placement.check import check_ends
from australis.placement.model import Books, Placement, Spot
from australis.placement.network import Network as ServerState
from australis.placement.queries import Query
from australis.placement.reuse import Tap, age_s, reduced
from australis.placement.use import Use
from australis.protocols.ants.cell import CellMachine
from australis.protocols.ants.chains import chains
from australis.protocols.ants.events import (
    Aged,
    AntOptions,
    Dequeued,
    Disturbed,
    FetchState,
    Measured,
    Queue,
    Started,
    StateCame,
    Submitted,
    TellPlaced,
    TellUnplaced,
    Withdrawn,
)
from australis.sim.network import Link, Network
from australis.sim.world import Host, World

SETTLE_S = 12.0
AGES_US = 2 * SECOND
"""The interval at which servers measure the age of their tasks' output."""


class Wires(Network):
    """The links of a network; servers without a link use the network's own route."""

    def __init__(self, ground: ServerState, rng: Random, loss: float = 0.0) -> None:
        super().__init__(rng)
        self._ground = ground
        self._loss = loss

    def link(self, sender: str, to: str) -> Link:
        """The link from one server to another."""
        found = self._links.get((sender, to))
        if found is None:
            route = self._ground.way(sender, to)
            ways = zip(route or (), (route or ())[1:], strict=False)
            latency_s = sum(self._ground.links[way].latency_s for way in ways)
            found = Link(int(latency_s * SECOND) + 10, 0, self._loss, in_order=False)
            found.cuts = route is None
            self._links[sender, to] = found
        return found

    def heal(self) -> None:
        """End message loss."""
        self._loss = 0.0
        for link in self._links.values():
            link.loss = 0.0

    def deliveries(self, sender: str, to: str, now: int) -> list[int]:
        """The arrival times of a message."""
        self.link(sender, to)
        return super().deliveries(sender, to, now)


class CellHost(Host):
    """A server's host, at which ants wait as long as tuples would."""

    def __init__(self, world: World, name: str, colony: AntsSimulation) -> None:
        super().__init__(world, name)
        self._colony = colony
        self._performers[Queue] = self._queue
        self._performers[FetchState] = self._fetch_state
        self._performers[TellPlaced] = self._tell_placed
        self._performers[TellUnplaced] = self._tell_unplaced

    @property
    def cell(self) -> CellMachine:
        """The cell of a server that is up."""
        assert isinstance(self.machine, CellMachine)
        return self.machine

    def _queue(self, effect: Queue) -> None:
        wait_us = self._colony.wait_us(self.cell.ground.here().use)
        self.later(wait_us, self.take, Dequeued(effect.ant))

    def _send(self, effect: Send) -> None:
        self._colony.count(self.name, effect.to, effect.message)
        links = self.cell.ground.links
        wait_us = 0
        if effect.to in links:
            wait_us = self._colony.wait_us(self.cell.ground.link(effect.to).use)
        if wait_us:
            self.world.at(
                self.world.now + wait_us, self.world.send, self.name, effect.to, effect.message
            )
        else:
            self.world.send(self.name, effect.to, effect.message)

    def _fetch_state(self, effect: FetchState) -> None:
        self._colony.fetch(self, effect)

    def _tell_placed(self, effect: TellPlaced) -> None:
        self._colony.placed(effect, self.world.now)

    def _tell_unplaced(self, effect: TellUnplaced) -> None:
        self._colony.unplaced(effect, self.world.now)


class AntsSimulation:
    """All cells, and the placement of the queries."""

    def __init__(
        self,
        ground: ServerState,
        seed: int = 1,
        options: AntOptions | None = None,
        loss: float = 0.0,
        cell_class: type[CellMachine] = CellMachine,
        trace: Trace | None = None,
    ) -> None:
        self.ground = ground
        self._cell_class = cell_class
        self.options = options or AntOptions()
        chance = SeedTree(seed).under("run")
        self._waits = chance.stream("waits")
        self._cells = {name: chance.stream(f"cell {name}") for name in ground.servers}
        self.wires = Wires(ground, chance.stream("network"), loss)
        self.world = World(self.wires, trace)
        self.queries: dict[str, Query] = {}
        self.placements: dict[str, Placement] = {}
        self.versions: dict[str, int] = {}
        self._told: dict[str, TellPlaced] = {}
        """The placements that leaders keep for their next incarnation."""
        self.taps: dict[str, dict[str, Tap]] = {}
        """The taps that placed queries take from others."""
        self._ages_s: dict[tuple[str, str], float] = {}
        """The age of the output of tasks that are tapped."""
        self._fetched: set[tuple[str, str, int, str]] = set()
        """The task state that was fetched to a server, by version of a query."""
        self._under_way: set[tuple[str, str, int, str]] = set()
        self.forgot: list[str] = []
        """The tasks that were moved without their state."""
        self.moves = 0
        """The number of times a running query was placed anew."""
        self.refusals: dict[str, str] = {}
        """The reason why a query is not placed."""
        self.placed_us: dict[str, int] = {}
        self.submitted_us: dict[str, int] = {}
        self.bytes: dict[tuple[str, str], int] = {}
        """The bytes that ants and cells have sent over each link."""
        self.messages = 0
        self.weighs = False
        """Whether message sizes are measured, which takes longer than sending them."""
        self.disturbances: dict[Spot, Use] = {}
        """The use of servers by others than queries."""
        self.hosts = {name: CellHost(self.world, name, self) for name in ground.servers}
        for name in ground.servers:
            self.start(name)
        if self.options.reuse:
            self.world.at(AGES_US, self._measure_again)

    # --- cells --------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Begin an incarnation of a cell, which knows the queries it led before."""
        links = {other: self.ground.links[name, other] for other in self.ground.neighbours(name)}
        machine = self._cell_class(
            *(self.ground.servers[name], links, self._cells[name], self.options),
            partial(self._towards, name),
        )
        led = tuple(query for query in self.queries.values() if leader(query) == name)
        placed = tuple(self._told[query.name] for query in led if query.name in self._told)
        self.hosts[name].start(machine, Started(self.hosts[name].incarnation + 1, led, placed))

    def _towards(self, name: str, destination: str) -> str | None:
        """The next server on the network's own route."""
        route = self.ground.way(name, destination) or ()
        return route[1] if len(route) > 1 else None

    def crash(self, name: str) -> None:
        """End an incarnation of a cell."""
        self.hosts[name].crash()

    def wait_us(self, use: Use) -> int:
        """How long an ant waits in a queue: no time if the server is down."""
        if use.load <= 0 or self._waits.random() >= use.load:
            return 0
        mean_s = min(60.0, use.wait_s / use.load)
        return int(self._waits.expovariate(1 / mean_s) * SECOND) if mean_s > 0 else 0

    def count(self, sender: str, to: str, message: Message) -> None:
        """Count a message that is sent."""
        self.messages += 1
        if self.weighs:
            link = (sender, to)
            self.bytes[link] = self.bytes.get(link, 0) + len(msgspec.msgpack.encode(message))

    def fetch(self, host: CellHost, wanted: FetchState) -> None:
        """Fetch a task's state to a server, once, if the named server has it."""
        key = (host.name, wanted.query, wanted.version, wanted.task)
        source = self.hosts[wanted.source]
        route = self.ground.way(wanted.source, host.name)
        if key in self._under_way or route is None or not self._has(source, wanted):
            return
        size = self.queries[wanted.query].task[wanted.task].state_bytes
        wires = [self.ground.links[link] for link in itertools.pairwise(route)]
        takes_s = sum(wire.latency_s for wire in wires)
        takes_s += size / min((wire.bytes_per_s for wire in wires), default=inf)
        self._under_way.add(key)
        incarnations = host.incarnation, source.incarnation
        self.world.at(
            self.world.now + int(takes_s * SECOND), self._come, host, source, wanted, incarnations
        )

    def _come(
        self, host: CellHost, source: CellHost, wanted: FetchState, incarnations: tuple[int, int]
    ) -> None:
        key = (host.name, wanted.query, wanted.version, wanted.task)
        self._under_way.discard(key)
        there = host.machine is not None and source.machine is not None
        if there and incarnations == (host.incarnation, source.incarnation):
            self._fetched.add(key)
            host.take(StateCame(wanted.query, wanted.version, wanted.task))

    def _has(self, source: CellHost, wanted: FetchState) -> bool:
        """Whether a server runs a task, or an equivalent one."""
        query = self.queries.get(wanted.query)
        if query is None or source.machine is None:
            return False
        signature = query.signatures.get(wanted.task)
        return any(
            (name == wanted.query and task == wanted.task)
            or (signature is not None and part.query.signatures.get(task) == signature)
            for (name, _), part in source.cell.ground.running().items()
            for task in part.share.tasks
        )

    def heal(self) -> None:
        """End all faults and message loss."""
        self.wires.heal()
        for name, host in self.hosts.items():
            if host.machine is None:
                self.start(name)

    # --- queries ------------------------------------------------------------------------------

    def submit(self, query: Query) -> None:
        """Submit a query."""
        check_ends(query, self.ground)
        self._end(query.name)
        self.queries[query.name] = query
        self.submitted_us[query.name] = self.world.now
        self.hosts[leader(query)].take(Submitted(query))

    def change_rates(self, query: Query) -> None:
        """Change the rates of a placed query, as all cells measure them."""
        self.queries[query.name] = query
        for host in self.hosts.values():
            host.take(Measured(query))

    def disturb(self, server: str, load: float, service_s: float) -> None:
        """Use a server for this part of its time, for the given time per use."""
        use = Use(load, 2 * load * service_s, 0.0)
        self.disturbances[server] = use
        self.hosts[server].take(Disturbed(use))

    def withdraw(self, name: str) -> None:
        """Withdraw a query."""
        query = self.queries.pop(name)
        self._end(name)
        self.hosts[leader(query)].take(Withdrawn(name))

    def _end(self, name: str) -> None:
        for known in (self.placements, self.versions, self.taps, self._told):
            known.pop(name, None)  # type: ignore[attr-defined]

    def placed(self, told: TellPlaced, now: int) -> None:
        """Record that a query runs."""
        if told.query not in self.queries:
            return
        if told.query in self.placements:
            self.moves += 1
            self._check_state(told)
        self.placements[told.query] = Placement(told.hosts, told.routes)
        self.versions[told.query] = told.version
        self.taps[told.query] = told.taps
        self._told[told.query] = told
        self.placed_us[told.query] = now
        self.refusals.pop(told.query, None)

    def unplaced(self, told: TellUnplaced, now: int) -> None:
        """Record that a query does not run, for now."""
        self._end(told.query)
        self.refusals[told.query] = told.why

    def _check_state(self, told: TellPlaced) -> None:
        """Check that a task with state was on its server before, or has brought its state along."""
        before = self.placements[told.query].hosts
        for task, host in told.hosts.items():
            key = (host, told.query, told.version, task)
            came = before.get(task) == host or key in self._fetched
            if self.queries[told.query].task[task].state_bytes and not came:
                self.forgot.append(f"{task} came to {host} without what it remembers")

    # --- what comes of it -----------------------------------------------------------------------

    def left(self, name: str) -> Query:
        """What a placed query computes itself, with tapped streams as old as when taken."""
        taps = {
            task: msgspec.structs.replace(
                tap, age_s=self._ages_s.get((tap.query, tap.of), tap.age_s)
            )
            for task, tap in self.taps.get(name, {}).items()
        }
        return reduced(self.queries[name], taps)

    def books(self) -> Books:
        """The costs of everything, by the whole model."""
        books = Books(self.ground, self.disturbances)
        for name, placement in self.placements.items():
            books.add(self.left(name), placement)
        return books

    def _measure_again(self) -> None:
        self.measure_ages()
        self.world.at(self.world.now + AGES_US, self._measure_again)

    def measure_ages(self) -> None:
        """Let servers measure the age of tasks' output, where others may tap it."""
        signed = [name for name in self.placements if self.queries[name].signatures]
        books = self.books() if signed else None
        for name in sorted(signed, key=lambda name: self.submitted_us[name]):
            assert books is not None
            placement, query = self.placements[name], self.left(name)
            for task, host in placement.hosts.items():
                if task in self.queries[name].signatures:
                    age = age_s(query, task, placement, books)
                    self._ages_s[name, task] = age
                    self.hosts[host].take(Aged(name, task, age))

    @property
    def evaluations(self) -> int:
        """The number of times scouts have computed the wait in a queue."""
        there = (host for host in self.hosts.values() if host.machine is not None)
        return sum(host.cell.scouting.evaluations for host in there)

    def settle(self) -> None:
        """Let cells exchange server states before the first query is submitted."""
        self.run(SETTLE_S)

    def run(self, seconds: float) -> None:
        """Run for this duration."""
        self.world.run(self.world.now + int(seconds * SECOND))

    def run_until_placed(self, patience_s: float = 60.0, step_s: float = 0.25) -> bool:
        """Run until every query is placed; False if that takes too long."""
        until = self.world.now + int(patience_s * SECOND)
        while len(self.placements) < len(self.queries):
            if self.world.now >= until:
                return False
            self.run(step_s)
        return True


def leader(query: Query) -> str:
    """The server of a query's leader: the producer of its longest chain."""
    return query.pinned[chains(query)[0].source]
