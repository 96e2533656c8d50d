"""Hot spots beyond the paper: larger rings, thresholds, churn, and a centre that knows everything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from statistics import fmean

from australis.experiments.claims import Claim, Progress, Result, Table, Value, own_claim
from australis.experiments.synergy_delay import CLEARLY
from australis.experiments.synergy_runs import QUICK, outcome
from australis.kernel.durations import MINUTE, SECOND
from australis.protocols.ring.events import Fetched, LookedUp, Registered
from australis.sim.hotspots.peers import CALM_RING, Managed, Setting
from australis.sim.network import Link, Network
from australis.sim.ring.rings import Ring

SIZES = (30, 300, 10_000)
QUICK_SIZES = (30, 300)
SEEDS = range(5)
RING_MINUTES = 5
LOOKUPS = 2_000
OPERATORS = 5
"""Each peer registers so many; there are a third as many kinds as peers."""
CHURN = 0.01
SENSITIVITY: dict[str, tuple[dict[str, float], ...]] = {
    "h": ({"overload": 1.0}, {"overload": 2.0}, {"overload": 3.0}, {"overload": 5.0}),
    "l": ({"imbalance": 0.0}, {"imbalance": 0.2}, {"imbalance": 1.0}, {"imbalance": 2.0}),
    "t": ({"minutes": 1}, {"minutes": 5}, {"minutes": 15}),
}
MORE_HOPS = 1.0
"""A lookup may take so many hops more than half of log2 of the peers."""


@dataclass(frozen=True)
class RingRun:
    """A ring with nothing but its own work, some registrations and lookups."""

    hops: float
    right: int
    messages: float
    """Of each peer in a minute."""
    fallen_right: int
    """Lookups that were right although a tenth of the peers failed the moment they were asked."""
    entries_lost: int
    """What peers that are left registered, not found a keep-alive later,"""
    entries: int
    """of so many."""


class SynergyBeyond:
    """What the paper left out."""

    name = "synergy-beyond"
    description = "Larger rings, other thresholds, churn, and a central balancer beside the peers."
    reproduces = "nothing: it goes beyond the paper"
    duration = "6 min, quick 30 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """All of it; with `quick` smaller rings and fewer seeds."""
        seeds = QUICK if quick else SEEDS
        rings = {}
        for size in QUICK_SIZES if quick else SIZES:
            progress(f"a ring of {size:,}")
            rings[size] = _ring(size)
        ways = {}
        for way in Managed:
            progress(f"balanced by {way.value}")
            ways[way] = [fmean(outcome(seed, way).delays_s) for seed in seeds]
        progress("ten times as many peers")
        large = 60 if quick else 300
        ratios = [
            fmean(outcome(seed, peers=large).delays_s)
            / fmean(outcome(seed, Managed.NOBODY, peers=large).delays_s)
            for seed in seeds[: 1 if quick else 2]
        ]
        sensitive = {}
        for name, settings in SENSITIVITY.items():
            for one in settings if not quick else settings[:1]:
                progress(", ".join(f"{key} = {value}" for key, value in one.items()))
                sensitive[name, next(iter(one.values()))] = _means(one, seeds)
        progress("1% of the peers fail each minute")
        churned = _churn(seeds)
        return Result(
            (
                *_ring_claims(rings),
                *_centre_claims(ways),
                _large_claim(ratios, large),
                *_churn_claims(churned),
            ),
            (_ring_table(rings), _ways_table(ways), _sensitive_table(sensitive), _churn_table(churned)),
            _DEVIATIONS,
        )  # fmt: skip


# --- rings ---------------------------------------------------------------------------------------


def _ring(size: int) -> RingRun:
    rng = Random(size)
    link = Link(latency_us=20_000, jitter_us=10_000, in_order=False)
    ring = Ring(Network(Random(2), link), rng, CALM_RING)
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
    """Peers look names up: the mean of the hops, and how often they are right."""
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
    """How many of the entries that should be there are not found."""
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


def _ring_claims(rings: dict[int, RingRun]) -> list[Claim]:
    worst = max(one.hops - math.log2(size) / 2 for size, one in rings.items())
    wrong = sum(LOOKUPS - one.right for one in rings.values())
    misled = sum(LOOKUPS - one.fallen_right for one in rings.values())
    lost = sum(one.entries_lost for one in rings.values())
    sizes = sorted(rings)
    growth = rings[sizes[-1]].messages / rings[sizes[0]].messages
    return [
        own_claim("Lookups that do not find the peer that is responsible", wrong, wrong == 0, "0"),
        own_claim(
            "A tenth of the peers fails at once: lookups of that moment that do not find it",
            misled,
            misled == 0,
            "0",
        ),
        own_claim(
            "Entries of those that are left, not found a keep-alive later", lost, lost == 0, "0"
        ),
        own_claim(
            "Hops of a lookup more than half of log2 of the peers, at most over all sizes",
            worst,
            worst <= MORE_HOPS,
            f"≤ {MORE_HOPS:g}",
        ),
        own_claim(
            f"Messages of a peer in a minute, {sizes[-1]:,} peers against {sizes[0]}",
            growth,
            growth <= 2,
            "≤ 2",
        ),
    ]


def _ring_table(rings: dict[int, RingRun]) -> Table:
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


# --- a centre ------------------------------------------------------------------------------------


def _centre_claims(ways: dict[Managed, list[float]]) -> list[Claim]:
    peers, centre = fmean(ways[Managed.PEERS]), fmean(ways[Managed.CENTRE])
    nobody = fmean(ways[Managed.NOBODY])
    return [
        own_claim(
            "Delay with a centre that knows everything and moves for nothing, part of that with"
            " peers that balance themselves",
            centre / peers,
            centre <= peers,
            "≤ 1",
        ),
        own_claim(
            "Of what such a centre saves in delay the peers save (part)",
            (nobody - peers) / (nobody - centre),
            nobody - peers >= 0.5 * (nobody - centre),
            "≥ 0.5",
        ),
    ]


def _ways_table(ways: dict[Managed, list[float]]) -> Table:
    count = len(next(iter(ways.values())))
    rows = tuple(
        (way.value, *(round(d, 2) for d in delays), round(fmean(delays), 2))
        for way, delays in ways.items()
    )
    columns = ("balanced by", *(f"seed {n}" for n in range(count)), "mean (s)")
    return Table("Mean delay (s)", columns, rows)


def _large_claim(ratios: list[float], size: int) -> Claim:
    return own_claim(
        f"{size} peers: delay with load management, part of that without",
        fmean(ratios),
        fmean(ratios) <= CLEARLY,
        f"≤ {CLEARLY:g}",
    )


# --- thresholds ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Means:
    """Over some seeds."""

    delay_s: float
    moved: float
    messages: float


def _means(settings: dict[str, float], seeds: range, churn: float = 0.0) -> Means:
    runs = [outcome(seed, churn=churn, **settings) for seed in seeds]  # type: ignore[arg-type]
    return Means(
        fmean(fmean(run.delays_s) for run in runs),
        fmean(run.moved for run in runs),
        fmean(run.migration_messages + run.updates for run in runs),
    )


def _sensitive_table(found: dict[tuple[str, float], Means]) -> Table:
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (f"{name} = {value:g}", round(one.delay_s, 2), round(one.moved, 1), round(one.messages))
        for (name, value), one in found.items()
    )
    columns = ("threshold", "mean delay (s)", "components moved", "messages for it")
    return Table("Thresholds, each changed alone (h = 2, l = 0.2, t = 1 min)", columns, rows)


# --- churn ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Churned:
    """Runs in which peers fail and join, beside runs in which nobody does."""

    failed: int
    recomposed: int
    waiting: int
    """Components that nobody was found for until the end."""
    lost: float
    """The part of the tuples."""
    delay: float
    """Times that without churn."""


def _churn(seeds: range) -> Churned:
    runs = [outcome(seed, churn=CHURN) for seed in seeds]
    calm = fmean(fmean(outcome(seed).delays_s) for seed in seeds)
    sent = sum(run.delivered + run.lost for run in runs)
    return Churned(
        sum(run.failed for run in runs),
        sum(run.recomposed for run in runs),
        sum(run.homeless for run in runs),
        sum(run.lost for run in runs) / sent,
        fmean(fmean(run.delays_s) for run in runs) / calm,
    )


def _churn_claims(found: Churned) -> list[Claim]:
    return [
        own_claim(
            f"{CHURN:.0%} of the peers fail each minute: delay, times that if nobody does",
            found.delay,
            found.delay <= 1.5,
            "≤ 1.5",
        ),
        own_claim(
            "and components that nobody was found for within a minute",
            found.waiting,
            found.waiting == 0,
            "0",
        ),
    ]


def _churn_table(found: Churned) -> Table:
    row = (found.failed, found.recomposed, f"{found.lost:.2%}", round(found.delay, 2))
    columns = ("peers failed", "components found elsewhere", "tuples lost", "delay, times as long")
    return Table(f"{CHURN:.0%} of the peers fail each minute and others join", columns, (row,))


_DEVIATIONS = (
    "Components of a peer that fails have no replica here: tuples in its queues are lost, and all"
    " that come before a new place is found. With replicas (`protocols.dpc`) they are not.",
    f"Each run is {Setting().minutes} minutes long; the centre decides as often as peers do.",
)
EXPERIMENT = SynergyBeyond()
