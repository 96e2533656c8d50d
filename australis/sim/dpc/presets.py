"""Scenarios drawn from a seed, in named presets.

`lite` is a small diagram with a few faults, for a first look. `swarm` draws everything
there is to draw: diagrams, replicas, options, clocks, links and faults. `bounded` has
outages longer than its logs reach back; the swarm has some of these too. `flapping` cuts
one source after the other so that one is always down. `performance` has no faults and
a long stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from random import Random
from typing import Any

import pyarrow as pa

from australis.diagram.build import DiagramBuilder, Stream
from australis.diagram.model import Diagram
from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import UserError
from australis.kernel.ids import pack_id
from australis.kernel.rng import Chance
from australis.protocols.dpc.options import DpcOptions, Policy
from australis.protocols.dpc.topology import Topology, node_of, replicate
from australis.sim.dpc.engine import Digest, DigestEngine, PlanEngine
from australis.sim.dpc.faults import Fault, Kind
from australis.sim.dpc.hosts import Costs
from australis.sim.dpc.run import Scenario
from australis.sim.network import Link
from australis.streams.schema import TIMESTAMP, TupleType, parse_schema

SCHEMA = "k string, v int"
FIRST_FAULT_US = 8 * SECOND
LAST_FAULT_US = 75 * SECOND
HEALED_US = 100 * SECOND


def draw(preset: str, seed: int) -> Scenario:
    """The scenario of a seed."""
    makers: Mapping[str, Callable[[int, Chance], Scenario]] = {
        "lite": _lite,
        "swarm": _swarm,
        "flapping": _flapping,
        "bounded": _bounded,
        "performance": _performance,
    }
    if preset not in makers:
        raise UserError(f"is not a preset (known: {', '.join(makers)})", name=preset)
    return makers[preset](seed, Chance(seed).under(preset))


def _lite(seed: int, chance: Chance) -> Scenario:
    topology = replicate(_chain(2), {})
    options = DpcOptions(bucket_us=SECOND, heartbeat_us=250 * MILLISECOND)
    faults = _faults(chance.stream("faults"), topology, 2)
    return _scenario(seed, topology, options, faults)


def _performance(seed: int, chance: Chance) -> Scenario:
    topology = replicate(_chain(4), {})
    options = DpcOptions(bucket_us=SECOND, heartbeat_us=250 * MILLISECOND)
    return _scenario(seed, topology, options, (), safety_us=600 * SECOND)


def _flapping(seed: int, chance: Chance) -> Scenario:
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


def _bounded(seed: int, chance: Chance, replicas: int | None = None, more: int = 0) -> Scenario:
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


def _swarm(seed: int, chance: Chance) -> Scenario:
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
        max_log=rng.choice((None, None, None, 48)),
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
        clock_offset_us=rng.choice((0, 10, 20)) * MILLISECOND,
        clock_drift=rng.choice((0.0, 1e-5, 1e-4)),
    )


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
    """What a source has in a bucket: now and then nothing."""

    def rows(source: str, number: int) -> Digest | None:
        value = blake2b(f"{seed} {source} {number}".encode(), digest_size=8).digest()
        return Digest(value, 1 + value[1] % 5) if value[0] % 4 else None

    return rows


def arrow_rows(seed: int, bucket_us: int) -> Callable[[str, int], pa.RecordBatch | None]:
    """The same as Arrow batches in the layout of a log."""
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


# --- diagrams ------------------------------------------------------------------------


def _sources(d: DiagramBuilder, n: int) -> list[Stream]:
    return [d.source(f"s{i + 1}", push=True, schema=SCHEMA) for i in range(n)]


def _chain(depth: int) -> Diagram:
    """Three sources merged, then one fragment after the other."""
    names = [f"step{i}" for i in range(2, depth + 1)]
    d = DiagramBuilder(
        "chain", bucket="1 s", fragments={"merge": ["merged"]} | {n: [n] for n in names}
    )
    stream = d.union("merged", *_sources(d, 3))
    for i, name in enumerate(names):
        if i == 1:
            counted = {"n": "count(*)", "v": "max(v)"}
            stream = d.aggregate(name, stream, window="2 s", by=["k"], compute=counted)
        else:
            stream = d.filter(name, stream, "v > 0")
    return d.done()


def _diamond(width: int) -> Diagram:
    """A merged stream goes two ways and comes together again."""
    d = DiagramBuilder(
        "diamond",
        bucket="1 s",
        fragments={"merge": ["merged"], "left": ["l"], "right": ["r"], "end": ["out"]},
    )
    merged = d.union("merged", *_sources(d, width - 1))
    left, right = d.filter("l", merged, "v > 0"), d.filter("r", merged, "v < 9")
    d.union("out", left, right)
    return d.done()


def _joined(_: int) -> Diagram:
    """Two streams joined, and one that goes past the join."""
    d = DiagramBuilder(
        "joined",
        bucket="1 s",
        fragments={"first": ["a"], "second": ["b"], "join": ["both", "past"]},
    )
    s = _sources(d, 3)
    a, b = d.union("a", s[0], s[1]), d.filter("b", s[2], "v > 0")
    d.output(d.join("both", a, b, within="2 s", on="left.k = right.k", select={"k": "left.k"}))
    d.output(d.filter("past", a, "v > 1"))
    return d.done()


def _tree(leaves: int) -> Diagram:
    """Several fragments near the sources, and one that merges them."""
    names = [f"leaf{i + 1}" for i in range(leaves - 1)]
    d = DiagramBuilder("tree", bucket="1 s", fragments={n: [n] for n in names} | {"root": ["out"]})
    sources = _sources(d, leaves - 1)
    d.union("out", *(d.filter(n, s, "v > 0") for n, s in zip(names, sources, strict=True)))
    return d.done()


# --- faults ---------------------------------------------------------------------------


def _faults(rng: Random, topology: Topology, n: int) -> tuple[Fault, ...]:
    """So many faults, all over before the safety phase ends."""
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
    """A source is cut off for long, and another one just when the first comes back."""
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
    """A disk may be lost, but never the last copy of a fragment's state."""
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
