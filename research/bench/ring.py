"""`australis bench ring`: a hundred thousand lookups among ten thousand peers, as messages."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from random import Random
from typing import Any

from australis.kernel.durations import SECOND
from australis.kernel.errors import Stopped
from australis.kernel.rng import SeedTree
from australis.protocols.ring.events import LookedUp, RingOptions
from australis.sim.network import Link, Network
from australis.sim.ring.rings import Ring
from research.bench.failover import target_lines

PEERS = 10_000
LOOKUPS = 100_000
LIMIT_S = 60.0
MAX_HOPS = 7.5
"""The largest mean number of hops; half of log2 of the number of peers is 6.6."""
WAVE = 2_000
_LINK = Link(latency_us=20_000, jitter_us=10_000, in_order=False)
Done = Callable[[int, int], None]


def measure(peers: int, lookups: int, done: Done) -> dict[str, Any]:
    """Run lookups from random peers for random names, a wave of them every simulated second."""
    rng = Random(1)
    began = time.perf_counter()
    ring = Ring(Network(Random(2), _LINK), SeedTree(1), _options())
    ring.assemble([f"peer{i}" for i in range(peers)])
    assembled_s = time.perf_counter() - began
    names = sorted(ring.hosts)
    asked: list[tuple[str, str]] = []
    began = time.perf_counter()
    for first in range(0, lookups, WAVE):
        for number in range(first, min(lookups, first + WAVE)):
            asker, name = rng.choice(names), f"name{number}"
            asked.append((asker, name))
            ring.hosts[asker].take(LookedUp(name, name))
        ring.world.run(ring.world.now + SECOND)
        done(len(asked), lookups)
    ring.world.run(ring.world.now + 5 * SECOND)
    seconds = time.perf_counter() - began
    hops, right = [], ring.all_responsible(name for _, name in asked)
    for asker, name in asked:
        found, took = ring.hosts[asker].found[name]
        if found[:1] != (right[name],):
            raise Stopped(f"{asker} found {found[:1]} for {name}, not {right[name]}")
        hops.append(took)
    mean = statistics.fmean(hops)
    return {
        "bench": "ring",
        "peers": peers,
        "lookups": lookups,
        "assembled_s": assembled_s,
        "wall_s": seconds,
        "simulated_s": ring.world.now / SECOND,
        "messages": ring.world.delivered,
        "hops": {"mean": mean, "most": max(hops)},
        "targets": [
            {"name": "wall time, s", "value": seconds, "max": LIMIT_S, "ok": seconds <= LIMIT_S},
            {"name": "hops, mean", "value": mean, "max": MAX_HOPS, "ok": mean <= MAX_HOPS},
        ],
    }


def _options() -> RingOptions:
    """Options with longer maintenance intervals than the defaults."""
    return RingOptions(stabilise_us=10 * SECOND, fingers_us=30 * SECOND)


def table(result: dict[str, Any]) -> str:
    """The result as a table."""
    lines = [
        f"{result['lookups']:,} lookups among {result['peers']:,} peers: {result['wall_s']:.1f} s"
        f" for {result['simulated_s']:.0f} simulated seconds and {result['messages']:,} messages",
        f"hops: {result['hops']['mean']:.2f} on average, {result['hops']['most']} at most;"
        " every lookup found the peer that is responsible",
    ]
    return "\n".join([*lines, *target_lines(result["targets"])])
