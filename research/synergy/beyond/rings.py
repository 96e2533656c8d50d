"""Rings of many self-maintaining peers: lookups, entries, messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from statistics import fmean

from australis.kernel.durations import MINUTE, SECOND
from australis.kernel.rng import SeedTree
from australis.protocols.ring.events import Fetched, LookedUp, Registered
from australis.sim.hotspots.simulation import CALM_RING
from australis.sim.network import Link, Network
from australis.sim.ring.rings import Ring
from research.claims import Claim, Table, own_claim
from research.predicates import at_most, exactly

RING_MINUTES = 5
LOOKUPS = 2_000
OPERATORS = 5
"""The number of operators that each peer registers; there are a third as many kinds as peers."""
MORE_HOPS = 1.0
"""The number of hops of a lookup allowed beyond half of log2 of the peers."""


@dataclass(frozen=True)
class RingRun:
    """A ring with its maintenance traffic, some registrations and lookups."""

    hops: float
    right: int
    messages: float
    """The messages of each peer per minute."""
    fallen_right: int
    """The correct lookups, issued at the moment when a tenth of the peers failed."""
    entries_lost: int
    """The entries of remaining peers that are not found a keep-alive later."""
    entries: int
    """The entries that remaining peers registered."""


def measure_ring(size: int) -> RingRun:
    rng = Random(size)
    link = Link(latency_us=20_000, jitter_us=10_000, in_order=False)
    ring = Ring(Network(Random(2), link), SeedTree(size), CALM_RING)
    names = [f"peer{i}" for i in range(size)]
    ring.assemble(names)
    kinds = [f"operator{kind}" for kind in range(max(10, size // 3))]
    offers = {name: set(rng.choices(kinds, k=OPERATORS)) for name in names}
    for name, offered in offers.items():
        for kind in sorted(offered):
            ring.hosts[name].take(Registered(kind, b"load"))
    ring.world.run(10 * SECOND)
    began, sent = ring.world.now, ring.world.delivered
    ring.world.run(began + RING_MINUTES * MINUTE)
    messages = (ring.world.delivered - sent) / size / RING_MINUTES
    hops, right = _look_up(ring, rng, 5)
    for name in rng.sample(names, size // 10):
        ring.hosts[name].crash()
        del offers[name]
    _, fallen_right = _look_up(ring, rng, 15)
    ring.world.run(ring.world.now + ring.options.keep_alive_us)
    lost = _not_found(ring, rng, kinds, offers)
    entries = sum(map(len, offers.values()))
    return RingRun(hops, right, messages, fallen_right, lost, entries)


def _look_up(ring: Ring, rng: Random, patience_s: int) -> tuple[float, int]:
    """Look names up from many peers; return the mean of the hops, and the number of correct
    lookups.
    """
    present = ring.present
    asked = [(rng.choice(present), f"name{n}") for n in range(LOOKUPS)]
    for asker, name in asked:
        ring.hosts[asker].found.pop(name, None)
        ring.hosts[asker].take(LookedUp(name, name))
    ring.world.run(ring.world.now + patience_s * SECOND)
    who = ring.all_responsible(name for _, name in asked)
    found = [ring.hosts[asker].found.get(name, ((), 0)) for asker, name in asked]
    right = sum(f[0][:1] == (who[name],) for f, (_, name) in zip(found, asked, strict=True))
    return fmean(hops for _, hops in found), right


def _not_found(ring: Ring, rng: Random, kinds: list[str], offers: dict[str, set[str]]) -> int:
    """The number of expected entries that are not found."""
    present = ring.present
    askers = {kind: rng.choice(present) for kind in kinds}
    for kind, asker in askers.items():
        ring.hosts[asker].take(Fetched(kind, kind))
    ring.world.run(ring.world.now + 15 * SECOND)
    there = {
        (entry.owner, kind)
        for kind, asker in askers.items()
        for entry in ring.hosts[asker].kept[kind] or ()
    }
    return sum((name, kind) not in there for name, offered in offers.items() for kind in offered)


def ring_claims(rings: dict[int, RingRun]) -> list[Claim]:
    worst = max(one.hops - math.log2(size) / 2 for size, one in rings.items())
    wrong = sum(LOOKUPS - one.right for one in rings.values())
    misled = sum(LOOKUPS - one.fallen_right for one in rings.values())
    lost = sum(one.entries_lost for one in rings.values())
    sizes = sorted(rings)
    growth = rings[sizes[-1]].messages / rings[sizes[0]].messages
    return [
        own_claim("Lookups that do not find the peer that is responsible", wrong, exactly(0)),
        own_claim(
            "A tenth of the peers fails at once: lookups of that moment that do not find it",
            misled,
            exactly(0),
        ),
        own_claim("Entries of those that are left, not found a keep-alive later", lost, exactly(0)),
        own_claim(
            "Hops of a lookup more than half of log2 of the peers, at most over all sizes",
            worst,
            at_most(MORE_HOPS),
        ),
        own_claim(
            f"Messages of a peer in a minute, {sizes[-1]:,} peers against {sizes[0]}",
            growth,
            at_most(2),
        ),
    ]


def ring_table(rings: dict[int, RingRun]) -> Table:
    rows = tuple(
        (
            size,
            round(one.hops, 2),
            round(math.log2(size) / 2, 2),
            round(one.messages, 1),
            f"{one.fallen_right:,} of {LOOKUPS:,}",
            f"{one.entries - one.entries_lost:,} of {one.entries:,}",
        )
        for size, one in rings.items()
    )
    columns = (
        "peers",
        "hops",
        "half of log2",
        "messages of a peer in a minute",
        "right as a tenth fails",
        "entries found later",
    )
    return Table("Rings that keep themselves up, five registrations a peer", columns, rows)
