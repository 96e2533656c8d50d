"""Scenarios in which the deployment changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from australis.deployment.cluster import machine_name
from australis.deployment.deployed import Deployment, submitted
from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.rng import SeedTree
from australis.protocols.dpc.topology import Topology
from australis.sim.dpc.dynamic import PlannedChange, PlannedDrain, PlannedFault, topology_of
from australis.sim.dpc.run import Scenario
from australis.sim.faults import Fault, Kind, draw_faults

NODES = ("n1", "n2", "n3", "n4", "n5")
"""The nodes of a cluster whose deployment changes."""


def changing(
    swarm: Scenario,
    chance: SeedTree,
    draw: Callable[[Random, Topology, int], tuple[Fault, ...]],
) -> Scenario:
    """A scenario on nodes with names, whose replicas join and leave meanwhile."""
    rng = chance.stream("changes")
    diagram, clients = swarm.topology.diagram, {c.name: c.stream for c in swarm.topology.clients}
    replicas = {
        fragment.name: tuple(rng.sample(NODES, rng.choice((1, 2, 2, 3))))
        for fragment in swarm.topology.fragments
    }
    deployment = submitted("app", "", replicas, {s.name: "" for s in diagram.sources})
    topology = topology_of(swarm.topology, deployment, clients)
    calm = rng.random() < 0.25
    changes = tuple(_changes(rng, deployment, () if calm else tuple(topology.sources)))
    faults = () if calm else draw(chance.stream("faults"), topology, rng.randint(2, 8))
    changing = {machine_name(one.fragment, n) for one in changes for n in replicas[one.fragment]}
    alone = {r.name for r in topology.replicas if not r.peers}
    # The last copy of a state is not lost, whoever has left by then.
    faults = tuple(f for f in faults if f.kind is not Kind.WIPE or f.node not in changing | alone)
    if not calm:
        faults += draw_node_faults(chance.stream("faults of nodes"))
    return replace(
        swarm,
        topology=topology,
        faults=tuple(sorted(faults, key=lambda f: (f.at_us, f.node, f.other))),
        deployment=deployment,
        nodes=NODES,
        changes=changes,
        drains=tuple(_drains(chance.stream("drains"))),
    )


def _drains(rng: Random) -> Iterator[PlannedDrain]:
    """In some runs one or two nodes are drained, and most of them used again."""
    for node in rng.sample(NODES, rng.choice((0, 0, 1, 1, 2))):
        at_us = rng.randrange(5, 70) * SECOND
        stays = rng.random() < 0.3
        until_us = None if stays else at_us + rng.randrange(2, 60) * SECOND
        yield PlannedDrain(at_us, node, until_us, rng.choice(NODES))


def draw_node_faults(rng: Random) -> tuple[Fault, ...]:
    """Faults of what runs on the nodes beside the machines of DPC."""
    names = [f"{part}@{node}" for part in ("steward", "proposer") for node in NODES]
    names += [f"keeper@{node}" for node in NODES[:3]]
    most = {Kind.CRASH: 4, Kind.PAUSE: 2, Kind.ISOLATE: 2, Kind.CUT: 3}
    return draw_faults(rng, names, most, 90 * SECOND, 20 * SECOND)


def _changes(
    rng: Random, deployment: Deployment, sources: tuple[str, ...]
) -> Iterator[PlannedChange]:
    """Some changes, each of which is possible once those before it are done."""
    places = {one.fragment: {m.node for m in one.members} for one in deployment.sets}
    at = 0
    for _ in range(rng.randint(1, 4)):
        at += rng.randrange(5, 30) * SECOND
        fragment = rng.choice(list(places))
        here, free = places[fragment], [n for n in NODES if n not in places[fragment]]
        add: tuple[str, ...] = ()
        drop: tuple[str, ...] = ()
        kind = rng.choice(("move", "move", "add", "drop", "replace"))
        if kind in ("move", "add") and free:
            add = (rng.choice(free),)
        if kind == "replace":
            add = tuple(rng.sample(free, min(len(free), len(here))))
            drop = tuple(sorted(here))[: len(add)]
        elif kind in ("move", "drop") and len(here) + len(add) > 1:
            drop = (rng.choice(sorted(here)),)
        elif kind == "drop" and rng.random() < 0.5:  # which is refused
            yield PlannedChange(at, fragment, (), tuple(here), rng.choice(NODES))
            continue
        if not add and not drop:
            continue
        places[fragment] = (here | {*add}) - {*drop}
        faults = tuple(_in_phases(rng, sources))
        yield PlannedChange(at, fragment, add, drop, rng.choice(NODES), faults)


def _in_phases(rng: Random, sources: tuple[str, ...]) -> Iterator[PlannedFault]:
    if not sources or rng.random() < 0.5:
        return
    kind = rng.choice((Kind.CRASH, Kind.PAUSE, Kind.ISOLATE, Kind.WIPE))
    phase = rng.choice(("joining", "leaving"))
    keeper = f"keeper@{rng.choice(NODES[:3])}"
    who = rng.choice(("joiner", "leaver", "steward", keeper, rng.choice(sources)))
    if kind is Kind.WIPE and who != "joiner":
        kind = Kind.CRASH
    after_us, lasts_us = rng.randrange(3 * SECOND), rng.randrange(500 * MILLISECOND, 8 * SECOND)
    yield PlannedFault(phase, who, kind, after_us, lasts_us)
