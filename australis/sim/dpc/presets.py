"""Scenarios drawn from a seed, in named presets (`PRESETS` says what each is)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from random import Random
from typing import Any

import pyarrow as pa

from australis.deployment.cluster import (
    LOOPBACK,
    ClientPlace,
    Cluster,
    Engine,
    NodePlace,
    Policies,
    ResultPromise,
)
from australis.diagram.build import DiagramBuilder, Stream
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.durations import MILLISECOND, SECOND, format_duration
from australis.kernel.ids import pack_id
from australis.kernel.rng import SeedTree
from australis.protocols.dpc.options import DpcOptions, Lease, LogBounds, Policy, WhenFull
from australis.protocols.dpc.topology import (
    SourcePair,
    Topology,
    deploy,
    dpc_options,
    node_of,
    replicate,
)
from australis.sim.dpc.dynamic_preset import changing
from australis.sim.dpc.engine import Digest, DigestEngine, PlanEngine
from australis.sim.dpc.event_source import EventSources
from australis.sim.dpc.hosts import Costs
from australis.sim.dpc.run import Scenario
from australis.sim.faults import Fault, Kind, Lie, draw_faults
from australis.sim.harness.model import Preset
from australis.sim.network import Link
from australis.streams.schema import TIMESTAMP, TupleType, parse_schema

SCHEMA = "k string, v int"
FIRST_FAULT_US = 8 * SECOND
LAST_FAULT_US = 75 * SECOND
HEALED_US = 100 * SECOND
FOR_GOOD_US = 1_000_000 * SECOND
"""Longer than any run."""


def _lite(seed: int, chance: SeedTree) -> Scenario:
    topology = replicate(_chain(2), {})
    options = DpcOptions(bucket_us=SECOND, heartbeat_us=250 * MILLISECOND)
    faults = _faults(chance.stream("faults"), topology, 2)
    return _scenario(seed, topology, options, faults)


def _performance(seed: int, chance: SeedTree) -> Scenario:
    topology = replicate(_chain(4), {})
    options = DpcOptions(bucket_us=SECOND, heartbeat_us=250 * MILLISECOND)
    return _scenario(seed, topology, options, (), safety_us=600 * SECOND)


def _deployed(
    seed: int, chance: SeedTree, choose: Callable[[Random, Cluster], Cluster] = lambda _, c: c
) -> Scenario:
    """The options that follow from the settings of a cluster file."""
    rng = chance.stream("diagram")
    bucket_us = rng.choice((1000, 1000, 500, 500, 250)) * MILLISECOND
    diagram = rng.choice([_chain, _diamond, _joined, _tree])(rng.randint(3, 4), bucket_us)
    cluster = choose(chance.stream("choices"), _cluster(chance.stream("cluster"), diagram))
    options = dpc_options(cluster, diagram)
    topology = deploy(diagram, cluster.machines, cluster.readers, hedged=cluster.hedged)
    rng = chance.stream("costs")
    on_spark = next(iter(cluster.nodes.values())).engine == "spark"
    # New tuples arrive bucket by bucket, at each plan of a node: it must be able to keep up.
    busiest = max(len(replica.outputs) for replica in topology.replicas)
    slowest_us = 2 * bucket_us // (5 * busiest)
    batch_us = rng.choice((100, 200) if on_spark else (2, 5, 20)) * MILLISECOND
    costs = Costs(
        batch_us=min(batch_us, slowest_us),
        bucket_us=rng.choice((1, 4)) * MILLISECOND,
        sync_us=rng.choice((1, 5)) * MILLISECOND,
    )
    link = Link(rng.choice((1, 5)) * MILLISECOND, rng.choice((0, 2, 10)) * MILLISECOND)
    faults = _faults(chance.stream("faults"), topology, rng.randint(2, 8))
    return _scenario(
        *(seed, topology, options, faults),
        on_arrow=rng.random() < 0.3,
        costs=costs,
        link=link,
        **_clocks(chance.stream("clocks of nodes")),
    )


def _cluster(rng: Random, diagram: Diagram) -> Cluster:
    """Nodes of one engine with two or three replicas of each fragment."""
    engine: Engine = rng.choice(("spark", "reference"))
    nodes = {name: NodePlace(name, LOOPBACK, 0, engine=engine) for name in ("n1", "n2", "n3")}
    cluster = Cluster(
        name="drawn",
        diagram_path="drawn",
        state="drawn",
        max_delay_us=rng.choice((2, 3, 3, 5, 10)) * SECOND,
        heartbeat_us=rng.choice((100, 100, 200)) * MILLISECOND,
        nodes=nodes,
        replicas={f.name: tuple(nodes)[: rng.choice((2, 2, 3))] for f in cut(diagram)},
        sources={source.name: rng.choice(list(nodes)) for source in diagram.sources},
        clients={f"reader of {s}": ClientPlace(f"reader of {s}", s) for s in diagram.results},
    )
    hop_us = rng.choice((None, None, 50, 200, 500))
    if hop_us is not None and hop_us * MILLISECOND <= cluster.max_delay_us // 8:
        return replace(cluster, hop_us=hop_us * MILLISECOND)
    return cluster


def _differing(seed: int, chance: SeedTree) -> Scenario:
    """One of two or three replicas of a fragment computes something else from a bucket on."""
    rng = chance.stream("options")
    diagram = rng.choice([_chain, _diamond, _joined, _tree])(rng.randint(3, 4))
    topology = replicate(diagram, {}, default=rng.choice((2, 2, 3)))
    options = DpcOptions(
        bucket_us=SECOND,
        heartbeat_us=rng.choice((250, 400)) * MILLISECOND,
        max_delay_us=4 * SECOND,
        batch_buckets=rng.choice((1, 4, 16)),
    )
    differs = rng.choice(topology.replicas).name, rng.randint(3, 40)
    link = Link(rng.choice((1, 5)) * MILLISECOND, rng.choice((0, 2, 20)) * MILLISECOND)
    return _scenario(
        *(seed, topology, options, ()),
        on_arrow=rng.random() < 0.5,
        link=link,
        differs=differs,
        safety_us=60 * SECOND,
    )


def _choices(seed: int, chance: SeedTree) -> Scenario:
    return _deployed(seed, chance, _chosen)


def _chosen(rng: Random, cluster: Cluster) -> Cluster:
    """The cluster with policies and promises of its own for some results."""
    suspends = rng.random() < 0.15
    policies = Policies(
        up_failure="suspend" if suspends else rng.choice(("process", "process", "delay")),
        stabilization=rng.choice(("process", "delay", "suspend")),
        staggered=not suspends and rng.random() < 0.3,
        hedged=rng.random() < 0.4,
    )
    clients = {
        name: replace(client, hedge=rng.choice((1, 2))) for name, client in cluster.clients.items()
    }
    results = {} if suspends else {s: _promised(rng, s) for s in cluster.readers.values()}
    return replace(cluster, hop_us=None, policies=policies, clients=clients, results=results)


def _promised(rng: Random, result: str) -> ResultPromise:
    if rng.random() < 0.2:
        return ResultPromise(result, tentative="never")
    return ResultPromise(result, rng.choice((None, 2 * SECOND, 5 * SECOND, 12 * SECOND)))


def _crashes(seed: int, chance: SeedTree) -> Scenario:
    """One replica is cut off from a source, which crashes then and starts again meanwhile."""
    rng = chance.stream("faults")
    topology = replicate(_chain(1), {})
    source, replica = rng.choice(list(topology.sources)), rng.choice(topology.replicas).name
    at = rng.randrange(8 * SECOND, 60 * SECOND)
    faults = (
        Fault(Kind.CUT, at, 4 * SECOND, source, replica),
        Fault(Kind.CRASH, at + rng.randrange(SECOND // 2, 2 * SECOND), SECOND, source),
    )
    options = DpcOptions(bucket_us=SECOND, heartbeat_us=250 * MILLISECOND, max_delay_us=4 * SECOND)
    return _scenario(seed, topology, options, faults)


def _idle(seed: int, chance: SeedTree) -> Scenario:
    """Sources with times of their own give no rows for a while, shorter or longer than X."""
    rng = chance.stream("options")
    topology = replicate(rng.choice([_chain, _diamond, _tree])(3, SECOND // 2), {})
    sources = list(topology.sources)
    quiet = {
        name: tuple(
            (at, at + rng.randrange(SECOND, 20 * SECOND))
            for at in range(5 * SECOND, HEALED_US - 20 * SECOND, 25 * SECOND)
        )
        for name in rng.sample(sources, rng.randint(1, len(sources)))
    }
    options = DpcOptions(
        bucket_us=SECOND // 2, heartbeat_us=250 * MILLISECOND, max_delay_us=5 * SECOND
    )
    faults = _faults(chance.stream("faults"), topology, rng.choice((0, 1, 3)))
    restarts = tuple(
        Fault(Kind.CRASH, at, rng.randrange(SECOND // 5, 3 * SECOND), name)
        for name, spans in quiet.items()
        for at, _ in spans
        if rng.random() < 0.3
        for at in (at + rng.randrange(8 * SECOND),)
    )
    return _scenario(
        seed,
        topology,
        options,
        faults + restarts,
        on_arrow=True,
        source_host=EventSources(quiet, rng.choice((1, 2)) * SECOND),
    )


def _standby(seed: int, chance: SeedTree) -> Scenario:
    """Sources with two proxies, of which one may be lost for good."""
    rng = chance.stream("options")
    make = rng.choice([_chain, _diamond, _tree])
    diagram = make(rng.randint(2, 4) if make is _chain else 3)
    sources = [source.name for source in diagram.sources]
    paired = rng.sample(sources, rng.randint(1, len(sources) - 1))
    pairs = {s: SourcePair((f"{s}@1", f"{s}@2"), f"witness {s}") for s in paired}
    topology = replicate(diagram, {}, pairs=pairs)
    logs = chance.stream("logs")
    bounds = _bounds(logs)
    leases = bounds.bounded and logs.random() < 0.5
    options = DpcOptions(
        bucket_us=SECOND,
        heartbeat_us=250 * MILLISECOND,
        max_delay_us=8 * SECOND,
        hop_us=250 * MILLISECOND,  # what is lost on the way is sent again with the next heartbeat
        long_failure_us=8 * SECOND,
        log=bounds,
        leases={r.name: Lease(12 * SECOND, r.peers) for r in topology.replicas} if leases else {},
    )
    rng = chance.stream("faults")
    alone = rng.random() < 0.5
    faults = _one_by_one(rng, pairs[paired[0]]) if alone else _of_pairs(rng, topology)
    if bounds.bounded and not alone:
        # With leases a reader is let go that the leader hears neither by itself nor by the other.
        cuts = _from_readers(chance.stream("cuts"), topology)
        faults = (*cuts, faults[-1]) if leases else faults + cuts
    lossy = Link(5 * MILLISECOND, 20 * MILLISECOND, loss=0.0 if alone else 0.02, in_order=alone)
    return _scenario(
        seed,
        topology,
        options,
        faults,
        link=lossy,
        source_skew_us=rng.choice((0, 20, 1000)) * MILLISECOND,
        clock_offset_us=chance.stream("clocks").choice((0, 5)) * SECOND,
        clock_drift=chance.stream("drifts").choice((0.0, 1e-4, 2e-4)),
        copy_buckets=chance.stream("copies").choice((1, 1, 2, 20)),
        masks_source_faults=alone,
    )


def _bounds(rng: Random) -> LogBounds:
    """The bounds of all logs: in half of all runs none."""
    if rng.random() < 0.5:
        return LogBounds()
    buckets = rng.choice((None, 12, 24))
    return LogBounds(max_buckets=buckets, max_bytes=None if buckets else rng.choice((8000, 20_000)))


def _one_by_one(rng: Random, pair: SourcePair) -> tuple[Fault, ...]:
    """Faults of the nodes of one pair, each after all have recovered; the last one is for good."""
    faults = []
    at = rng.randrange(8 * SECOND, 12 * SECOND)
    while at < HEALED_US - 30 * SECOND:
        node, lasts = rng.choice(pair.members), rng.randrange(SECOND // 5, 15 * SECOND)
        kind = rng.choice((Kind.CRASH, Kind.WIPE, Kind.PAUSE, Kind.ISOLATE, Kind.CUT))
        other = rng.choice([n for n in (*pair.members, pair.witness) if n != node])
        faults.append(Fault(kind, at, lasts, node, other if kind is Kind.CUT else ""))
        at += lasts + rng.randrange(12 * SECOND, 20 * SECOND)
    lost = rng.choice((*pair.members, pair.witness))
    return (*faults, Fault(Kind.CRASH, at, FOR_GOOD_US, lost))


def _of_pairs(rng: Random, topology: Topology) -> tuple[Fault, ...]:
    """Faults of all nodes of the pairs at any time, and one that is lost for good in the end."""
    nodes = [n for pair in topology.pairs.values() for n in (*pair.members, pair.witness)]
    most = {Kind.CRASH: 5, Kind.PAUSE: 3, Kind.ISOLATE: 3, Kind.CUT: 5, Kind.CUT_ONE_WAY: 4}
    faults = draw_faults(rng, nodes, most | {Kind.LOSSY: 4}, HEALED_US - 15 * SECOND, 20 * SECOND)
    return (*faults, Fault(Kind.CRASH, HEALED_US, FOR_GOOD_US, rng.choice(nodes)))


def _from_readers(rng: Random, topology: Topology) -> tuple[Fault, ...]:
    """Cuts between one proxy of a source and readers, which the other proxy still hears."""
    cuts: list[Fault] = []
    for source, pair in topology.pairs.items():
        readers = [r.name for r in topology.replicas if source in r.producers]
        some = readers if rng.random() < 0.5 else [rng.choice(readers)]
        at, lasts = rng.randrange(8, 60) * SECOND, rng.randrange(5, 30) * SECOND
        member = rng.choice(pair.members)
        cuts += [Fault(Kind.CUT, at, lasts, member, reader) for reader in some]
    return tuple(cuts)


def _flapping(seed: int, chance: SeedTree) -> Scenario:
    rng = chance.stream("options")
    topology = replicate(rng.choice([_chain, _diamond, _tree])(4), {})
    sources = list(topology.sources)
    down = rng.randrange(2 * SECOND, 8 * SECOND)
    starts = range(5 * SECOND, HEALED_US, down)
    faults = tuple(
        Fault(Kind.ISOLATE, at, down + 200 * MILLISECOND, sources[i % len(sources)])
        for i, at in enumerate(starts)
    )
    options = DpcOptions(
        bucket_us=SECOND,
        heartbeat_us=250 * MILLISECOND,
        max_delay_us=rng.choice((2, 3, 4)) * SECOND,
        staggered=rng.random() < 0.3,
    )
    return _scenario(
        seed,
        topology,
        options,
        faults,
        on_arrow=rng.random() < 0.5,
        progress_us=2 * len(sources) * down + 5 * SECOND,
    )


def _bounded(seed: int, chance: SeedTree, replicas: int | None = None, more: int = 0) -> Scenario:
    rng = chance.stream("options")
    diagram = rng.choice([_chain, _diamond, _joined, _tree])(rng.randint(3, 4))
    topology = replicate(diagram, {}, default=replicas or rng.choice((1, 2)))
    spans = [o.span or 0 for r in topology.replicas for o in r.outputs]
    promised = rng.choice((6, 10))
    options = DpcOptions(
        bucket_us=SECOND,
        heartbeat_us=250 * MILLISECOND,
        max_delay_us=3 * SECOND,
        input_window=16,
        keep_log=sum(sorted(spans)[-4:]) + promised + 8,
    )
    at = rng.randrange(8 * SECOND, 15 * SECOND)
    cut = Fault(Kind.ISOLATE, at, rng.randrange(40, 60) * SECOND, rng.choice([*topology.sources]))
    faults = (cut, *_faults(chance.stream("faults"), topology, more + rng.randint(0, 3)))
    return _scenario(seed, topology, options, faults, on_arrow=True, promised=promised)


def _loss(seed: int, chance: SeedTree) -> Scenario:
    """All replicas of a fragment are without their disks at some moment."""
    rng = chance.stream("options")
    diagram = rng.choice([_chain, _diamond, _joined, _tree, _windows, _windows, _counted])(3)
    topology = replicate(diagram, {}, default=rng.choice((1, 2, 2, 3)))
    options = DpcOptions(
        bucket_us=SECOND,
        heartbeat_us=250 * MILLISECOND,
        max_delay_us=4 * SECOND,
        checkpoint_batches=rng.choice((1, 2, 5)),
    )
    rng = chance.stream("faults")
    at = rng.randrange(FIRST_FAULT_US + 10 * SECOND, LAST_FAULT_US)
    lost = rng.choice(topology.replicas)
    spared = [r for r in topology.replicas if r.peers and r.name not in (lost.name, *lost.peers)]
    wipes = [
        Fault(Kind.WIPE, at - rng.randrange(4 * SECOND), rng.randrange(5, 20) * SECOND, name)
        for name in (lost.name, *lost.peers)
    ]
    if spared and rng.random() < 0.5:
        once, one = rng.randrange(FIRST_FAULT_US, LAST_FAULT_US), rng.choice(spared)
        wipes.append(Fault(Kind.WIPE, once, 2 * SECOND, one.name))
        # It does not reach those that have its state, and must wait for them.
        wipes += [Fault(Kind.CUT, once, 8 * SECOND, one.name, peer) for peer in one.peers]
    rng = chance.stream("leases")
    if lost.peers and rng.random() < 0.25:  # one of them never comes back; no other fault is longer
        last = rng.randrange(1 + len(lost.peers))
        wipes[last] = replace(wipes[last], lasts_us=FOR_GOOD_US)
        leases = {r.name: Lease(50 * SECOND, r.peers) for r in topology.replicas}
        options = replace(options, leases=leases)
    rng = chance.stream("other faults")
    others = _faults(rng, topology, rng.choice((0, 0, 1, 3)))
    faults = (*wipes, *(fault for fault in others if fault.kind is not Kind.WIPE))
    spans = sum({o.stream: o.span or 0 for r in topology.replicas for o in r.outputs}.values())
    return _scenario(
        *(seed, topology, options, faults),
        on_arrow=True,
        promised=-spans - 2,
        loses_states=True,
    )


def _disks(seed: int, chance: SeedTree) -> Scenario:
    """Disks that lie, those of replicas beside other faults, or that of a source.

    Of each fragment one replica's disk lies at most: what all of them have lost is another preset.
    """
    rng = chance.stream("options")
    topology = replicate(rng.choice([_chain, _diamond, _joined, _tree])(3), {})
    options = DpcOptions(
        bucket_us=SECOND,
        heartbeat_us=250 * MILLISECOND,
        max_delay_us=4 * SECOND,
        batch_buckets=rng.choice((1, 4)),
        checkpoint_batches=rng.choice((1, 2, 5)),
    )
    rng = chance.stream("lies")
    if rng.random() < 0.3:
        faults = _source_lies(rng, topology)
    else:
        faults = tuple(sorted(_replicas_lie(rng, topology), key=lambda f: f.at_us))
    return _scenario(
        seed, topology, options, faults, on_arrow=rng.random() < 0.2, safety_us=60 * SECOND
    )


def _source_lies(rng: Random, topology: Topology) -> tuple[Fault, ...]:
    """One source goes back; then replicas may be restarted too, which forget what they know."""
    source = rng.choice(list(topology.sources))
    kind = rng.choice((Lie.OLD_COPY, Lie.LOST_WRITE, Lie.MISDIRECTED))
    at, lasts = rng.randrange(15, 30) * SECOND, rng.randrange(1, 4) * SECOND
    lie = Fault(kind, at, lasts, source, extra_us=rng.randrange(5, 10) * SECOND)
    readers = [r.name for r in topology.replicas if source in r.producers]
    restarts = rng.random() < 0.5
    return (lie, *(Fault(Kind.CRASH, at, 3 * SECOND, r) for r in readers if restarts))


def _replicas_lie(rng: Random, topology: Topology) -> list[Fault]:
    faults: list[Fault] = []
    for replica in topology.replicas:
        taken = {f.node for f in faults if isinstance(f.kind, Lie)}
        if taken & {replica.name, *replica.peers} or rng.random() < 0.4:
            continue
        kind = rng.choice(list(Lie))
        at, lasts = rng.randrange(15, 30) * SECOND, rng.randrange(1, 4) * SECOND
        faults.append(Fault(kind, at, lasts, replica.name, extra_us=rng.randrange(2, 9) * SECOND))
        if kind is Lie.ROT:  # some consumer is behind, and reads the bucket later
            reader = node_of(rng.choice(rng.choice(replica.outputs).consumers))
            faults.append(Fault(Kind.ISOLATE, at - 8 * SECOND, 9 * SECOND, reader))
        if rng.random() < 0.3:
            other = rng.choice(topology.replicas).name
            faults.append(Fault(Kind.CRASH, at + 3 * SECOND, 2 * SECOND, other))
    return faults


def _absent(seed: int, chance: SeedTree) -> Scenario:
    """Clients and one replica leave, for ever or until their leases are over; logs are bounded."""
    rng = chance.stream("options")
    diagram = rng.choice([_chain, _diamond, _joined, _tree])(rng.randint(3, 4))
    nodes = {f.name: (f"{f.name}/1", f"{f.name}/2") for f in cut(diagram)}
    clients = {
        f"{i} client of {s}": s for s in diagram.results for i in ("first", "second", "third")
    }
    topology = deploy(diagram, nodes, clients)
    full = rng.choice(list(WhenFull))
    # A log that waits needs leases: nothing else ends the wait for who never comes back.
    silence_us = rng.choice((12, 20)) * SECOND
    silence = silence_us if full is WhenFull.WAIT or rng.random() < 0.3 else None
    leases = dict.fromkeys(clients, Lease(silence)) | {
        r.name: Lease(silence, r.peers) for r in topology.replicas
    }
    bounds = LogBounds(
        keep_us=rng.choice((0, 0, 3)) * SECOND,
        max_buckets=rng.choice((None, 12, 24)),
        max_bytes=rng.choice((1500, 4000)),
        full=full,
    )
    small = rng.choice((800, 1500))
    options = DpcOptions(
        bucket_us=SECOND,
        heartbeat_us=250 * MILLISECOND,
        max_delay_us=4 * SECOND,
        batch_buckets=rng.choice((1, 4)),
        log=bounds,
        logs={source.name: replace(bounds, max_bytes=small) for source in diagram.sources},
        leases=leases,
    )
    rng = chance.stream("faults")
    leaver, returner, other = rng.sample(list(clients), 3)
    faults = [
        Fault(Kind.ISOLATE, rng.randrange(8, 40) * SECOND, lasts, client)
        for client, lasts in (
            (leaver, FOR_GOOD_US),
            (returner, rng.randrange(20, 55) * SECOND),
            (other, rng.randrange(4, 9) * SECOND),  # no log may take it for absent
        )
    ]
    if rng.random() < 0.6:
        replica = rng.choice(topology.replicas).name
        lasts = rng.choice((FOR_GOOD_US, rng.randrange(20, 55) * SECOND))
        faults.append(Fault(Kind.CRASH, rng.randrange(8, 40) * SECOND, lasts, replica))
    elif silence is not None:
        faults[1:2] = _unequal(chance.stream("unequal"), topology, faults[1], silence)
    by_time = tuple(sorted(faults, key=lambda f: f.at_us))
    return _scenario(seed, topology, options, by_time, on_arrow=rng.random() < 0.3)


def _unequal(rng: Random, topology: Topology, away: Fault, silence_us: int) -> list[Fault]:
    """A client whose lease is over at one replica only, which it hears before the other one.

    Leases begin anew at a replica that restarts. It does not answer when the client is back.
    """
    (client,) = (c for c in topology.clients if c.name == away.node)
    replica = rng.choice(client.producers)
    restarts_us = away.at_us + silence_us - 4 * SECOND
    away = replace(away, lasts_us=silence_us + rng.randrange(4, 9) * SECOND)
    answers_not_us = away.until_us - rng.randrange(SECOND)
    return [
        away,
        Fault(Kind.CRASH, restarts_us, 6 * SECOND, replica),
        Fault(Kind.ISOLATE, answers_not_us, rng.randrange(1, 9) * SECOND, replica),
    ]


def _swarm(seed: int, chance: SeedTree) -> Scenario:
    if chance.stream("kind").random() < 0.15:
        return _bounded(seed, chance, replicas=2, more=4)
    rng = chance.stream("options")
    diagram = rng.choice([_chain, _diamond, _joined, _tree])(rng.randint(3, 4))
    fragments = [name for name, _ in diagram.cut] if not isinstance(diagram.cut, str) else []
    topology = replicate(diagram, {f: rng.choice((2, 2, 3)) for f in fragments})
    heartbeat = rng.choice((250, 400, 500)) * MILLISECOND
    max_delay = rng.choice((4, 5, 6, 8)) * SECOND
    hop = rng.choice((200, 300)) * MILLISECOND
    options = DpcOptions(
        bucket_us=SECOND,
        heartbeat_us=heartbeat,
        max_delay_us=max_delay,
        hop_us=hop,
        correction_us=hop,
        up_failure=rng.choice((Policy.PROCESS, Policy.PROCESS, Policy.DELAY)),
        stabilization=rng.choice((Policy.PROCESS, Policy.PROCESS, Policy.DELAY)),
        staggered=rng.random() < 0.3,
        batch_buckets=rng.choice((1, 4, 16)),
        checkpoint_batches=rng.choice((1, 2, 5)),
        input_window=rng.choice((16, 32, 64)),
        send_window=rng.choice((4, 16)),
        log=LogBounds(max_buckets=rng.choice((None, None, None, 48))),
        long_failure_us=max_delay + rng.choice((0, 3)) * SECOND,
        correction_growth=chance.stream("growth").choice((1, 4)),
    )
    costs = Costs(
        batch_us=rng.choice((5, 20, 50)) * MILLISECOND,
        bucket_us=rng.choice((1, 10)) * MILLISECOND,
        sync_us=rng.choice((1, 5)) * MILLISECOND,
    )
    link = Link(
        latency_us=rng.choice((1, 5, 20)) * MILLISECOND,
        jitter_us=rng.choice((0, 2, 20)) * MILLISECOND,
        in_order=rng.random() < 0.7,
    )
    faults = _faults(chance.stream("faults"), topology, rng.randint(5, 12))
    return _scenario(
        seed,
        topology,
        options,
        faults,
        on_arrow=rng.random() < 0.5,
        costs=costs,
        link=link,
        **_clocks(chance.stream("clocks of nodes")),
    )


def _dynamic(seed: int, chance: SeedTree) -> Scenario:
    """The swarm, but replicas join and leave meanwhile."""
    swarm = _swarm(seed, chance)
    while swarm.options.keep_log is not None:
        chance = chance.under("again")
        swarm = _swarm(seed, chance)
    return changing(swarm, chance, _faults)


def _clocks(rng: Random, *, always: bool = False) -> dict[str, Any]:
    """How far clocks are off: by seconds, but those of the sources only together."""
    off = always or rng.random() < 0.6
    return {
        "clock_offset_us": 5 * SECOND if off else 0,
        "source_skew_us": rng.choice((0, 10, 20)) * MILLISECOND,
        "clock_drift": rng.choice((1e-4, 2e-4) if always else (0.0, 1e-5, 1e-4, 2e-4)),
        "clock_step_us": 5 * SECOND if off and rng.random() < 0.5 else 0,
    }


def _off(seed: int, chance: SeedTree) -> Scenario:
    """Any faults, or restarts within a short failure, with clocks that are off."""
    rng = chance.stream("clocks")
    clocks = _clocks(rng, always=True)
    if rng.random() < 0.5:
        return replace(_swarm(seed, chance), **clocks)
    return replace(_restarted(seed, chance), **clocks | {"clock_step_us": 10 * SECOND})


def _restarted(seed: int, chance: SeedTree) -> Scenario:
    """The last fragment hears nothing for less than X, and one of its inputs restarts meanwhile.

    That one is back first, with buckets from before, by a clock that may have been stepped since.
    """
    rng = chance.stream("faults")
    width = rng.choice((3, 4))
    leaves = {f"leaf{i}": 1 for i in range(1, width)}
    topology = replicate(_tree(width), leaves)
    readers = [r.name for r in topology.replicas if r.name.startswith("root/")]
    first, *others = rng.sample([f"{leaf}/1" for leaf in leaves], len(leaves))
    at = rng.randrange(15 * SECOND, 60 * SECOND)
    lasts = rng.randrange(2000 * MILLISECOND, 2500 * MILLISECOND)
    faults = [
        Fault(Kind.CRASH, at + rng.randrange(1100, 1500) * MILLISECOND, 300 * MILLISECOND, first),
        *(Fault(Kind.CUT, at, lasts, first, reader) for reader in readers),
        *(Fault(Kind.CUT, at, lasts + SECOND, other, r) for other in others for r in readers),
    ]
    options = DpcOptions(
        bucket_us=SECOND,
        heartbeat_us=250 * MILLISECOND,
        max_delay_us=7 * SECOND,
        hop_us=200 * MILLISECOND,
        long_failure_us=7 * SECOND,
    )
    return _scenario(seed, topology, options, tuple(faults))


def _mixture(seed: int, chance: SeedTree) -> Scenario:
    """A scenario of any preset with failures; every third one is of the swarm."""
    rng = chance.stream("preset")
    others = [name for name in PRESETS if name not in ("mixture", "swarm", "performance")]
    name = "swarm" if rng.random() < 0.3 else rng.choice(others)
    return PRESETS[name].draw(seed, chance.under(name))


def _scenario(
    seed: int,
    topology: Topology,
    options: DpcOptions,
    faults: tuple[Fault, ...],
    *,
    on_arrow: bool = False,
    **more: Any,
) -> Scenario:
    """A run on Arrow batches with the reference engine, or on digests."""
    digests = dict.fromkeys(topology.plans, DigestEngine)
    engines = _plan_engines(topology) if on_arrow else digests
    rows = arrow_rows(seed, options.bucket_us) if on_arrow else digest_rows(seed)
    return Scenario(seed, topology, engines, rows, options, faults=faults, **more)


def _plan_engines(topology: Topology) -> dict[str, Callable[[], PlanEngine]]:
    diagram = topology.diagram
    schemas = {s.name: s.schema for s in diagram.sources}
    engines: dict[str, Callable[[], PlanEngine]] = {}
    for stream, plan in topology.plans.items():
        engine = PlanEngine(plan, schemas, diagram.buckets)
        schemas[stream] = engine.schema
        engines[stream] = _always(engine)
    return engines


def _always(engine: PlanEngine) -> Callable[[], PlanEngine]:
    return lambda: engine


def digest_rows(seed: int) -> Callable[[str, int], Digest | None]:
    """The rows of a source in a bucket: now and then none."""

    def rows(source: str, number: int) -> Digest | None:
        value = blake2b(f"{seed} {source} {number}".encode(), digest_size=8).digest()
        return Digest(value, 1 + value[1] % 5) if value[0] % 4 else None

    return rows


def arrow_rows(seed: int, bucket_us: int) -> Callable[[str, int], pa.RecordBatch | None]:
    """The same rows as Arrow batches in the layout of a log."""
    schema = parse_schema(SCHEMA).arrow

    def rows(source: str, number: int) -> pa.RecordBatch | None:
        value = blake2b(f"{seed} {source} {number}".encode(), digest_size=8).digest()
        if not value[0] % 4:
            return None
        n = 1 + value[1] % 5
        stimes = [number * bucket_us + (i + 1) * bucket_us // n for i in range(n)]
        columns = [
            pa.array([int(TupleType.INSERTION)] * n, pa.int8()),
            pa.array([pack_id(number, i) for i in range(n)]),
            pa.array(stimes, TIMESTAMP),
            pa.array([f"k{value[2 + i] % 3}" for i in range(n)]),
            pa.array([value[2 + i] % 11 for i in range(n)], pa.int32()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return rows


PRESETS = {
    "swarm": Preset("everything: diagrams, replicas, options, clocks, links, faults", _swarm),
    "lite": Preset("a small diagram with a few faults, for a first look", _lite),
    "bounded": Preset("outages longer than logs reach back", _bounded),
    "loss": Preset("all replicas of a fragment lose their disks", _loss),
    "disks": Preset("disks that give back something else than what was written", _disks),
    "absent": Preset("consumers that leave for ever or for long, and bounded logs", _absent),
    "flapping": Preset("one source after the other is cut off: one is always down", _flapping),
    "idle": Preset("sources with times of their own that give no rows for a while", _idle),
    "standby": Preset("sources with two proxies, of which one is lost for good", _standby),
    "differing": Preset("one replica computes something else from a bucket on", _differing),
    "crashes": Preset("a source crashes when one of its readers cannot hear it", _crashes),
    "clocks": Preset("clocks that are seconds off, drift, and are stepped at restarts", _off),
    "deployed": Preset("what cluster files lead to, on either engine", _deployed),
    "choices": Preset("what the choices in cluster files lead to, on either engine", _choices),
    "dynamic": Preset("deployments that change: replicas join and leave", _dynamic),
    "mixture": Preset("any of these, drawn from the seed", _mixture),
    "performance": Preset("a long stream without faults", _performance),
}


def draw(preset: str, seed: int) -> Scenario:
    """The scenario of a seed."""
    return PRESETS[preset].draw(seed, SeedTree(seed).under(preset))


# --- diagrams ------------------------------------------------------------------------


def _sources(d: DiagramBuilder, n: int) -> list[Stream]:
    return [d.source(f"s{i + 1}", push=True, schema=SCHEMA) for i in range(n)]


def _chain(depth: int, bucket_us: int = SECOND) -> Diagram:
    """Three sources merged, then one fragment after the other."""
    names = [f"step{i}" for i in range(2, depth + 1)]
    d = DiagramBuilder(
        "chain",
        bucket=format_duration(bucket_us),
        fragments={"merge": ["merged"]} | {n: [n] for n in names},
    )
    stream = d.union("merged", *_sources(d, 3))
    for i, name in enumerate(names):
        if i == 1:
            counted = {"n": "count(*)", "v": "max(v)"}
            stream = d.aggregate(name, stream, window="2 s", by=["k"], compute=counted)
        else:
            stream = d.filter(name, stream, "v > 0")
    return d.done()


def _windows(_: int, bucket_us: int = SECOND) -> Diagram:
    """Long windows of the merged sources, and shorter ones of their results."""
    names = {"merge": ["merged"], "long": ["sums"], "short": ["most"], "end": ["shown"]}
    d = DiagramBuilder("windows", bucket=format_duration(bucket_us), fragments=names)
    merged = d.union("merged", *_sources(d, 2))
    compute = {"v": "sum(v)"}
    sums = d.aggregate("sums", merged, window="8 s", slide="2 s", by=["k"], compute=compute)
    most = d.aggregate("most", sums, window="4 s", by=["k"], compute={"v": "max(v)"})
    d.filter("shown", most, "v > 0")
    return d.done()


def _counted(_: int, bucket_us: int = SECOND) -> Diagram:
    """Windows of a number of tuples, whose state may reach back for ever, beside others."""
    names = {"merge": ["merged"], "count": ["sums"], "end": ["shown"], "side": ["past"]}
    d = DiagramBuilder("counted", bucket=format_duration(bucket_us), fragments=names)
    merged = d.union("merged", *_sources(d, 2))
    sums = d.aggregate("sums", merged, window="7 tuples", by=["k"], compute={"v": "sum(v)"})
    d.filter("shown", sums, "v > 0")
    d.filter("past", merged, "v > 1")
    return d.done()


def _diamond(width: int, bucket_us: int = SECOND) -> Diagram:
    """A merged stream goes two ways and comes together again."""
    d = DiagramBuilder(
        "diamond",
        bucket=format_duration(bucket_us),
        fragments={"merge": ["merged"], "left": ["l"], "right": ["r"], "end": ["out"]},
    )
    merged = d.union("merged", *_sources(d, width - 1))
    left, right = d.filter("l", merged, "v > 0"), d.filter("r", merged, "v < 9")
    d.union("out", left, right)
    return d.done()


def _joined(_: int, bucket_us: int = SECOND) -> Diagram:
    """Two streams joined, and one that bypasses the join."""
    d = DiagramBuilder(
        "joined",
        bucket=format_duration(bucket_us),
        fragments={"first": ["a"], "second": ["b"], "join": ["both", "past"]},
    )
    s = _sources(d, 3)
    a, b = d.union("a", s[0], s[1]), d.filter("b", s[2], "v > 0")
    d.output(d.join("both", a, b, within="2 s", on="left.k = right.k", select={"k": "left.k"}))
    d.output(d.filter("past", a, "v > 1"))
    return d.done()


def _tree(leaves: int, bucket_us: int = SECOND) -> Diagram:
    """Several fragments near the sources, and one that merges them."""
    names = [f"leaf{i + 1}" for i in range(leaves - 1)]
    d = DiagramBuilder(
        "tree",
        bucket=format_duration(bucket_us),
        fragments={n: [n] for n in names} | {"root": ["out"]},
    )
    sources = _sources(d, leaves - 1)
    d.union("out", *(d.filter(n, s, "v > 0") for n, s in zip(names, sources, strict=True)))
    return d.done()


# --- faults ---------------------------------------------------------------------------


def _faults(rng: Random, topology: Topology, n: int) -> tuple[Fault, ...]:
    """Draw this number of faults, all over before the safety phase ends."""
    faults: list[Fault] = []
    while len(faults) < n:
        faults += _some(rng, topology)
    faults = _without_total_loss(faults, topology)
    return tuple(sorted(faults, key=lambda f: (f.at_us, f.node, f.other)))


def _some(rng: Random, topology: Topology) -> list[Fault]:
    """One fault, or a series of them."""
    kind = rng.choice(list(Kind))
    at = rng.randrange(FIRST_FAULT_US, LAST_FAULT_US)
    longest = HEALED_US - at
    lasts = min(longest, int(rng.choice((0.5, 1, 2, 5, 10, 30)) * SECOND * rng.uniform(0.5, 1.5)))
    node, other = _where(rng, topology, kind)
    if rng.random() < 0.15:
        return _during_recovery(rng, topology, at)
    if rng.random() < 0.15 and kind in (Kind.CUT, Kind.ISOLATE, Kind.CUT_ONE_WAY):
        period = rng.randrange(2 * SECOND, 8 * SECOND)
        starts = range(at, min(HEALED_US - period, at + 5 * period), period)
        return [Fault(kind, start, period // 2, node, other) for start in starts]
    return [Fault(kind, at, lasts, node, other)]


def _during_recovery(rng: Random, topology: Topology, at: int) -> list[Fault]:
    """Cut a source off for long, and another one just when the first is back."""
    first, second = rng.sample(list(topology.sources), 2)
    lasts = rng.randrange(12 * SECOND, 20 * SECOND)
    again = at + lasts + rng.randrange(0, 800 * MILLISECOND)
    return [
        Fault(Kind.ISOLATE, at, lasts, first),
        Fault(Kind.ISOLATE, again, min(8 * SECOND, HEALED_US - again), second),
    ]


def _where(rng: Random, topology: Topology, kind: Kind) -> tuple[str, str]:
    replicas = {r.name: r for r in topology.replicas}
    if kind in (Kind.CUT, Kind.CUT_ONE_WAY, Kind.LOSSY):
        config = replicas[rng.choice(list(replicas))]
        upstream = [n for nodes in config.producers.values() for n in nodes]
        downstream = [node_of(c) for o in config.outputs for c in o.consumers]
        around = [*upstream, *config.peers, *downstream]
        pair = (config.name, rng.choice(around))
        return pair if rng.random() < 0.5 else (pair[1], pair[0])
    if kind is Kind.ISOLATE and rng.random() < 0.5:
        return rng.choice(list(topology.sources)), ""
    if kind is Kind.CRASH and rng.random() < 0.2:
        return rng.choice(list(topology.sources)), ""
    return rng.choice(list(replicas)), ""


def _without_total_loss(faults: list[Fault], topology: Topology) -> list[Fault]:
    """Drop lost disks that would lose the last copy of a fragment's state."""
    peers = {r.name: r.peers for r in topology.replicas}
    wiped: list[str] = []
    kept = []
    for fault in faults:
        if fault.kind is Kind.WIPE:
            if any(p in wiped for p in peers[fault.node]):
                continue
            wiped.append(fault.node)
        kept.append(fault)
    return kept
