"""Draws from a seed a diagram on nodes, moves, and faults in every phase of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.rng import SeedTree
from australis.sim.faults import Fault, Moment, draw_faults
from australis.sim.faults import Kind as FaultOf
from australis.sim.movement.flow import Kind
from australis.sim.movement.host import FlowHost
from australis.sim.network import Link

FAULTS_US = 25 * SECOND
"""Faults and moves come before this moment; then everything heals."""


@dataclass(frozen=True)
class Move(Moment):
    """A request to move a component to another node."""

    at_us: int
    component: str
    target: str

    def __str__(self) -> str:
        return f"{self.at_us / 1e6:8.2f} s: {self.component} is to move to {self.target}"


@dataclass(frozen=True)
class MovementScenario:
    """Everything that a run depends on."""

    seed: int
    kinds: tuple[Kind, ...]
    places: Mapping[str, str]
    """The node of each component at the beginning."""
    nodes: tuple[str, ...]
    link: Link
    schedule: tuple[Fault | Move, ...]
    host_class: type[FlowHost] = FlowHost


def draw(seed: int, chance: SeedTree) -> MovementScenario:
    """Draw the scenario of a seed."""
    kinds = _diagram(chance.stream("diagram"))
    rng = chance.stream("nodes")
    nodes = tuple(f"n{i}" for i in range(rng.randint(3, 6)))
    places = {kind.name: rng.choice(nodes) for kind in kinds}
    # A crash with loss: a node may lose the replicas that it does not own yet.
    most = {FaultOf.CRASH: 4, FaultOf.WIPE: 2}
    crashes = draw_faults(chance.stream("crashes"), nodes, most, FAULTS_US, 8 * SECOND)
    most = {FaultOf.CUT: 4, FaultOf.CUT_ONE_WAY: 2}
    cuts = draw_faults(chance.stream("cuts"), nodes, most, FAULTS_US, 10 * SECOND)
    moves = _moves(chance.stream("moves"), kinds, nodes)
    schedule: list[Fault | Move] = [*moves, *crashes, *cuts]
    schedule.sort(key=lambda planned: planned.at_us)
    link = _link(chance.stream("links"))
    return MovementScenario(seed, tuple(kinds), places, nodes, link, tuple(schedule))


def _link(rng: Random) -> Link:
    loss = rng.choice((0.0, 0.02, 0.1, 0.3))
    return Link(
        latency_us=rng.choice((1, 20, 80)) * MILLISECOND,
        jitter_us=20 * MILLISECOND,
        loss=loss,
        duplicate=loss / 2,
        in_order=rng.random() < 0.5,
    )


def _moves(rng: Random, kinds: list[Kind], nodes: tuple[str, ...]) -> list[Move]:
    movable = [kind.name for kind in kinds if kind.inputs and not kind.client]
    return [
        Move(rng.randrange(1, FAULTS_US), rng.choice(movable), rng.choice(nodes))
        for _ in range(rng.randint(1, 12))
    ]


def _diagram(rng: Random) -> list[Kind]:
    """Draw sources, components that read them or each other, and clients; every stream has a
    reader.
    """
    kinds = [Kind(f"source{i}") for i in range(rng.randint(1, 2))]
    for i in range(rng.randint(1, 4)):
        streams = [kind.name for kind in kinds]
        chosen = rng.sample(streams, min(len(streams), rng.randint(1, 2)))
        kinds.append(Kind(f"c{i}", tuple(chosen)))
    read = {stream for kind in kinds for stream in kind.inputs}
    ends = [kind.name for kind in kinds if kind.name not in read]
    extra = [rng.choice(kinds).name] if rng.random() < 0.5 else []
    clients = [Kind(f"client{i}", (name,), client=True) for i, name in enumerate(ends + extra)]
    return kinds + clients
