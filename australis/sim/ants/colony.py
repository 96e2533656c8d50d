"""A colony: a cell at every server of a network, and ants that wait, travel and get lost."""

from __future__ import annotations

import itertools
from functools import partial
from math import inf
from random import Random

import msgspec

from australis.kernel.durations import SECOND
from australis.kernel.machine import Message, Send
from australis.kernel.trace import Trace
from australis.placement.check import check_ends
from australis.placement.model import Books, Placement, Spot
from australis.placement.network import Network as Ground
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
"""So often servers measure how old what their tasks put out is."""


class Wires(Network):
    """The links of a network; between servers without one a message takes the network's own way."""

    def __init__(self, ground: Ground, rng: Random, loss: float = 0.0) -> None:
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
        """Let nothing get lost from now on."""
        self._loss = 0.0
        for link in self._links.values():
            link.loss = 0.0

    def deliveries(self, sender: str, to: str, now: int) -> list[int]:
        """When a message arrives."""
        self.link(sender, to)
        return super().deliveries(sender, to, now)


class CellHost(Host):
    """A server's place in the world: what waits there waits as long as tuples would."""

    def __init__(self, world: World, name: str, colony: Colony) -> None:
        super().__init__(world, name)
        self._colony = colony
        self._performers[Queue] = self._queue
        self._performers[FetchState] = self._fetch_state
        self._performers[TellPlaced] = self._tell_placed
        self._performers[TellUnplaced] = self._tell_unplaced

    @property
    def cell(self) -> CellMachine:
        """Its machine, while it is there."""
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


class Colony:
    """All cells, and where the queries are."""

    def __init__(
        self,
        ground: Ground,
        seed: int = 1,
        options: AntOptions | None = None,
        loss: float = 0.0,
        cell_class: type[CellMachine] = CellMachine,
        trace: Trace | None = None,
    ) -> None:
        self.ground = ground
        self._cell_class = cell_class
        self.options = options or AntOptions()
        self._rng = Random(seed)
        self.wires = Wires(ground, Random(self._rng.random()), loss)
        self.world = World(self.wires, trace)
        self.queries: dict[str, Query] = {}
        self.placements: dict[str, Placement] = {}
        self.versions: dict[str, int] = {}
        self._told: dict[str, TellPlaced] = {}
        """What leaders keep for their next life."""
        self.taps: dict[str, dict[str, Tap]] = {}
        """What placed queries take from others."""
        self._ages_s: dict[tuple[str, str], float] = {}
        """How old what tasks that others take put out is."""
        self._fetched: set[tuple[str, str, int, str]] = set()
        """What tasks remember has come there, for a version of a query."""
        self._under_way: set[tuple[str, str, int, str]] = set()
        self.forgot: list[str] = []
        """Tasks that were moved without what they remember."""
        self.moves = 0
        """How often a query that ran was placed anew."""
        self.refusals: dict[str, str] = {}
        """Why a query is not placed."""
        self.placed_us: dict[str, int] = {}
        self.submitted_us: dict[str, int] = {}
        self.bytes: dict[tuple[str, str], int] = {}
        """What ants and cells have sent over each link."""
        self.messages = 0
        self.weighs = False
        """Whether messages are weighed, which takes longer than sending them."""
        self.disturbances: dict[Spot, Use] = {}
        """What uses servers besides queries."""
        self.hosts = {name: CellHost(self.world, name, self) for name in ground.servers}
        for name in ground.servers:
            self.start(name)
        if self.options.reuse:
            self.world.at(AGES_US, self._measure_again)

    # --- cells --------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Begin a life of a cell; queries that are led from there are known to it."""
        links = {other: self.ground.links[name, other] for other in self.ground.neighbours(name)}
        rng = Random(self._rng.random())
        machine = self._cell_class(
            self.ground.servers[name], links, rng, self.options, partial(self._towards, name)
        )
        led = tuple(query for query in self.queries.values() if leader(query) == name)
        placed = tuple(self._told[query.name] for query in led if query.name in self._told)
        self.hosts[name].start(machine, Started(self.hosts[name].life + 1, led, placed))

    def _towards(self, name: str, destination: str) -> str | None:
        """The next server on the network's own way."""
        route = self.ground.way(name, destination) or ()
        return route[1] if len(route) > 1 else None

    def crash(self, name: str) -> None:
        """End a life of a cell."""
        self.hosts[name].crash()

    def wait_us(self, use: Use) -> int:
        """How long an ant waits in a queue: not at all if nobody is there, else for a time."""
        if use.load <= 0 or self._rng.random() >= use.load:
            return 0
        mean_s = min(60.0, use.wait_s / use.load)
        return int(self._rng.expovariate(1 / mean_s) * SECOND) if mean_s > 0 else 0

    def count(self, sender: str, to: str, message: Message) -> None:
        """A message goes out."""
        self.messages += 1
        if self.weighs:
            link = (sender, to)
            self.bytes[link] = self.bytes.get(link, 0) + len(msgspec.msgpack.encode(message))

    def fetch(self, host: CellHost, wanted: FetchState) -> None:
        """Bring what a task remembers to a server, once, if it is where it is looked for."""
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
        lives = host.life, source.life
        self.world.at(
            self.world.now + int(takes_s * SECOND), self._come, host, source, wanted, lives
        )

    def _come(
        self, host: CellHost, source: CellHost, wanted: FetchState, lives: tuple[int, int]
    ) -> None:
        key = (host.name, wanted.query, wanted.version, wanted.task)
        self._under_way.discard(key)
        there = host.machine is not None and source.machine is not None
        if there and lives == (host.life, source.life):
            self._fetched.add(key)
            host.take(StateCame(wanted.query, wanted.version, wanted.task))

    def _has(self, source: CellHost, wanted: FetchState) -> bool:
        """Whether a server runs a task, or one that makes the same."""
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
        """Nothing fails from now on, and nothing gets lost."""
        self.wires.heal()
        for name, host in self.hosts.items():
            if host.machine is None:
                self.start(name)

    # --- queries ------------------------------------------------------------------------------

    def submit(self, query: Query) -> None:
        """Let a query be placed."""
        check_ends(query, self.ground)
        self._end(query.name)
        self.queries[query.name] = query
        self.submitted_us[query.name] = self.world.now
        self.hosts[leader(query)].take(Submitted(query))

    def change_rates(self, query: Query) -> None:
        """A query that is placed has other rates from now on; all cells measure it."""
        self.queries[query.name] = query
        for host in self.hosts.values():
            host.take(Measured(query))

    def disturb(self, server: str, load: float, service_s: float) -> None:
        """Others use a server for this part of its time, for so long each time."""
        use = Use(load, 2 * load * service_s, 0.0)
        self.disturbances[server] = use
        self.hosts[server].take(Disturbed(use))

    def withdraw(self, name: str) -> None:
        """Let a query end."""
        query = self.queries.pop(name)
        self._end(name)
        self.hosts[leader(query)].take(Withdrawn(name))

    def _end(self, name: str) -> None:
        for known in (self.placements, self.versions, self.taps, self._told):
            known.pop(name, None)  # type: ignore[attr-defined]

    def placed(self, told: TellPlaced, now: int) -> None:
        """A query runs."""
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
        """A query does not run, for now."""
        self._end(told.query)
        self.refusals[told.query] = told.why

    def _check_state(self, told: TellPlaced) -> None:
        """A task that remembers something was there before, or has brought it along."""
        before = self.placements[told.query].hosts
        for task, host in told.hosts.items():
            key = (host, told.query, told.version, task)
            came = before.get(task) == host or key in self._fetched
            if self.queries[told.query].task[task].state_bytes and not came:
                self.forgot.append(f"{task} came to {host} without what it remembers")

    # --- what comes of it -----------------------------------------------------------------------

    def left(self, name: str) -> Query:
        """What a placed query does itself, with the rest as old as it is when it takes it over."""
        taps = {
            task: msgspec.structs.replace(
                tap, age_s=self._ages_s.get((tap.query, tap.of), tap.age_s)
            )
            for task, tap in self.taps.get(name, {}).items()
        }
        return reduced(self.queries[name], taps)

    def books(self) -> Books:
        """What everything costs, by the whole model."""
        books = Books(self.ground, self.disturbances)
        for name, placement in self.placements.items():
            books.add(self.left(name), placement)
        return books

    def _measure_again(self) -> None:
        self.measure_ages()
        self.world.at(self.world.now + AGES_US, self._measure_again)

    def measure_ages(self) -> None:
        """Let servers measure how old what their tasks put out is, where others may take it."""
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
        """How often scouts have worked out the wait in a queue."""
        there = (host for host in self.hosts.values() if host.machine is not None)
        return sum(host.cell.scouting.evaluations for host in there)

    def settle(self) -> None:
        """Let cells tell each other of their servers, before the first query comes."""
        self.run(SETTLE_S)

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        self.world.run(self.world.now + int(seconds * SECOND))

    def run_until_placed(self, patience_s: float = 60.0, step_s: float = 0.25) -> bool:
        """Let time pass until every query runs; False if that takes too long."""
        until = self.world.now + int(patience_s * SECOND)
        while len(self.placements) < len(self.queries):
            if self.world.now >= until:
                return False
            self.run(step_s)
        return True


def leader(query: Query) -> str:
    """Where a query is led from: at the producer of its longest chain."""
    return query.pinned[chains(query)[0].source]
