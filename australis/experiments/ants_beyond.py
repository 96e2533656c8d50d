"""Ants where the paper did not look: large queries on real networks, 5,000 servers, failures while ants
are under way, lost ants, and other settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean

from australis.experiments.ants_runs import DEVIATIONS, Instance, colony_on, instance
from australis.experiments.claims import Claim, Progress, Result, Table, own_claim
from australis.kernel.durations import SECOND
from australis.placement import generate
from australis.placement.bound import least_latency_s
from australis.placement.model import Books, footprint
from australis.placement.search import local_search, optimum
from australis.protocols.ants.events import AntOptions
from australis.sim.ants.colony import Colony

# --- large queries on real networks
NETWORKS = ("sndlib/abilene", "sndlib/geant", "sndlib/germany50", "topozoo/Geant2012")
TASKS = (10, 20, 40)
SEEDS = range(3)
IMPROVE_S = 60
NEAR = 1.05
# --- many servers
MANY = 5_000
FEW = 300
QUERIES = 50
# --- failures
BUSY = 12
"""Queries on so many servers times two."""
OBSERVED_S = 120
DOWN_S = 10
EVERY_S = (0, 20, 5)
"""A server and a link fail so often; 0 for never."""
# --- loss
LOSSES = (0.0, 0.05, 0.2)
# --- settings
SWEPT: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("scouts", (3, 6, 24)),
    ("detours", (0, 1, 4)),
    ("routing_ants", (10, 40)),
    ("reinforcement", (0.05, 0.5)),
    ("outstanding", (0.0, 0.1)),
    ("scent_us", (2 * SECOND, 20 * SECOND)),
)
SWEEP = range(30)


class AntsBeyond:
    """Five questions."""

    name = "ants-beyond"
    description = (
        "Large queries on real networks, 5,000 servers, failures, lost ants, other settings."
    )
    reproduces = "nothing: beyond the paper"
    duration = "6 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """All parts; with `quick` fewer of everything."""
        large = _large(
            NETWORKS[:1] if quick else NETWORKS,
            TASKS[:2] if quick else TASKS,
            SEEDS[:1] if quick else SEEDS,
            progress,
        )
        wide = [_wide(size, QUERIES // 5 if quick else QUERIES, progress)
                for size in ((50, FEW) if quick else (FEW, MANY))]  # fmt: skip
        failing = [_failing(every, progress) for every in (EVERY_S[::2] if quick else EVERY_S)]
        lossy = [_lossy(loss, SWEEP[:5] if quick else SWEEP, progress) for loss in LOSSES]
        swept = _sweep(SWEPT[1:2] if quick else SWEPT, SWEEP[:8] if quick else SWEEP, progress)
        return Result(
            (
                *_large_claims(large),
                *_wide_claims(wide),
                *_failing_claims(failing),
                *_lossy_claims(lossy),
                *_sweep_claims(swept),
            ),
            (
                _large_table(large),
                _wide_table(wide),
                _failing_table(failing),
                _lossy_table(lossy),
                _sweep_table(swept),
            ),
            (
                *DEVIATIONS[:2],
                "Real networks are those of topohub; its lengths give latencies, speeds are drawn.",
                "Best known: a local search that begins with the ants' placement. Bound: nobody waits,"
                " and links take no time but their latency (`placement.bound`); no placement may reach"
                " it.",
            ),
        )


# --- large queries ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Large:
    """One query."""

    network: str
    servers: int
    tasks: int
    ants_s: float
    best_s: float
    bound_s: float


def _large(
    networks: Sequence[str], sizes: Sequence[int], seeds: range, progress: Progress
) -> list[Large]:
    found = []
    for name in networks:
        for tasks in sizes:
            progress(f"{tasks} tasks on {name}")
            for seed in seeds:
                rng = Random(f"{name} {tasks} {seed}")
                network = generate.measured(name, rng)
                query = generate.query("q", network, tasks, rng, rate=10.0)
                colony = colony_on(Instance(network, (query,)), seed)
                colony.run(IMPROVE_S)
                ants = colony.books().latency_s("q")
                start = dict(colony.placements["q"].hosts)
                _, best = local_search(query, Books(network), rng, [start], kicks=5)
                bound = least_latency_s(query, network)
                found.append(Large(name, len(network.servers), tasks, ants, min(ants, best), bound))
    return found


def _large_claims(found: list[Large]) -> list[Claim]:
    ratio = fmean(one.ants_s / one.best_s for one in found)
    below = sum(one.best_s < one.bound_s * (1 - 1e-9) for one in found)
    return [
        own_claim(
            f"Up to {max(o.tasks for o in found)} tasks on real networks: latency, times the best known,"
            " mean",
            ratio,
            ratio <= NEAR,
            f"≤ {NEAR:g}",
        ),
        own_claim("Placements below the bound", below, below == 0, "0"),
    ]


def _large_table(found: list[Large]) -> Table:
    rows = []
    for key in dict.fromkeys((one.network, one.servers, one.tasks) for one in found):
        these = [one for one in found if (one.network, one.servers, one.tasks) == key]
        rows.append(
            (
                *key,
                round(fmean(one.ants_s for one in these) * 1e3, 2),
                round(fmean(one.ants_s / one.best_s for one in these), 4),
                round(fmean(one.ants_s / one.bound_s for one in these), 3),
                round(fmean(one.best_s / one.bound_s for one in these), 3),
            )
        )
    columns = (
        "network", "servers", "tasks", "ants (ms)", "times best known", "times the bound",
        "best known, times the bound",
    )  # fmt: skip
    return Table("One large query on a real network", columns, tuple(rows))


# --- many servers ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wide:
    """Some queries on many servers."""

    servers: int
    queries: int
    placed: int
    placed_after_s: float
    messages: float
    """Of each cell in a minute, while nothing changes,"""
    kept: int
    """and the most that one of them remembers of destinations."""


def _wide(servers: int, number: int, progress: Progress) -> Wide:
    progress(f"{servers} servers")
    made = instance(servers, servers, number, (2, 6), rate=15.0)
    colony = colony_on(made, servers)
    took_s = [(colony.placed_us[n] - colony.submitted_us[n]) / SECOND for n in colony.placements]
    before = colony.messages
    colony.run(20)
    messages = (colony.messages - before) * 3 / servers
    kept = max(len(host.cell.trails.vectors) for host in colony.hosts.values())
    return Wide(servers, number, len(colony.placements), fmean(took_s), messages, kept)


def _wide_claims(found: list[Wide]) -> list[Claim]:
    few, many = found
    missing = sum(one.queries - one.placed for one in found)
    return [
        own_claim(f"Up to {many.servers} servers: queries not placed", missing, missing == 0, "0"),
        own_claim(
            f"Messages of a cell, {many.servers} servers, part of that with {few.servers}",
            many.messages / few.messages,
            many.messages <= 1.5 * few.messages,
            "≤ 1.5",
        ),
    ]


def _wide_table(found: list[Wide]) -> Table:
    rows = tuple(
        (
            one.servers,
            f"{one.placed} of {one.queries}",
            round(one.placed_after_s, 2),
            round(one.messages),
            one.kept,
        )
        for one in found
    )
    columns = (
        "servers", "placed", "placed after (s)", "messages of a cell/min", "destinations kept, at most",
    )  # fmt: skip
    return Table("Many servers", columns, rows)


# --- failures ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failing:
    """Queries on servers and links that fail."""

    every_s: int
    up: float
    """The part of the time that queries run, on average, that could:"""
    anew: int
    """how often one was placed."""
    latency_s: float
    """At the end, when all has been well for a while."""
    placed: int


def _failing(every_s: int, progress: Progress) -> Failing:
    progress(f"failures every {every_s} s" if every_s else "no failures")
    made = instance(7, 2 * BUSY, BUSY, (2, 5), rate=15.0)
    rng = Random(7)
    colony = colony_on(made, 7)
    first = dict(colony.placed_us)
    ends = {at for query in made.queries for at in query.pinned.values()}
    others = sorted(set(made.network.servers) - ends)
    up, anew = [], 0
    for second in range(OBSERVED_S):
        if every_s and second % every_s == 0:
            _fail(colony, rng.choice(others), rng)
        colony.run(1)
        up.append(len(colony.placements) / len(made.queries))
        anew += sum(colony.placed_us[name] > first.get(name, 0) for name in colony.placements)
        first = dict(colony.placed_us)
    colony.run(DOWN_S + OBSERVED_S)
    latency_s = colony.books().mean_latency_s()
    return Failing(every_s, fmean(up), anew, latency_s, len(colony.placements))


def _fail(colony: Colony, server: str, rng: Random) -> None:
    """A server that no producer or consumer is at fails for a while, and a link somewhere."""
    world = colony.world
    if colony.hosts[server].machine is not None:
        colony.crash(server)
        world.at(world.now + DOWN_S * SECOND, colony.start, server)
    here, there = rng.choice(sorted(colony.ground.links))
    world.network.cut(here, there)
    world.at(world.now + DOWN_S * SECOND, world.network.mend, here, there)


def _failing_claims(found: list[Failing]) -> list[Claim]:
    calm, worst = found[0], found[-1]
    missing = sum(BUSY - one.placed for one in found)
    return [
        own_claim("After failures: queries not placed", missing, missing == 0, "0"),
        own_claim(
            f"A failure every {worst.every_s} s: part of the time that queries run",
            worst.up,
            worst.up >= 0.8,
            "≥ 0.8",
        ),
        own_claim(
            "Latency afterwards, times that without failures",
            worst.latency_s / calm.latency_s,
            worst.latency_s <= 1.1 * calm.latency_s,
            "≤ 1.1",
        ),
    ]


def _failing_table(found: list[Failing]) -> Table:
    rows = tuple(
        (
            one.every_s or "never",
            f"{one.up:.1%}",
            one.anew,
            round(one.latency_s * 1e3, 2),
            one.placed,
        )
        for one in found
    )
    columns = (
        "failure every (s)",
        "queries run",
        "placed anew",
        "latency afterwards (ms)",
        "placed",
    )
    title = f"{BUSY} queries on {2 * BUSY} servers; a server and a link are down for {DOWN_S} s each time"
    return Table(title, columns, rows)


# --- loss, settings ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried:
    """Single queries, with one setting."""

    setting: str
    ratio: float
    """Latency, times the optimum,"""
    worst: float
    after_s: float
    """and until it was placed,"""
    messages: float
    """by so many messages."""


def _try(setting: str, options: AntOptions, seeds: range, loss: float = 0.0) -> Tried:
    ratios, after_s, messages = [], [], []
    for seed in seeds:
        rng = Random(seed)
        network = generate.transit_stub(12, rng)
        query = generate.query("q", network, rng.randint(2, 5), rng)
        colony = Colony(network, seed, options, loss)
        colony.settle()
        before = colony.messages
        colony.submit(query)
        assert colony.run_until_placed(patience_s=300.0), f"{setting}: seed {seed} is not placed"
        messages.append(colony.messages - before)
        placement = colony.placements["q"]
        found = footprint(query, placement, network)
        assert found is not None
        empty = Books(network)
        _, best = optimum(query, empty, dict(placement.hosts))
        ratios.append(empty.cost_s(found) / best)
        after_s.append((colony.placed_us["q"] - colony.submitted_us["q"]) / SECOND)
    return Tried(setting, fmean(ratios), max(ratios), fmean(after_s), fmean(messages))


def _lossy(loss: float, seeds: range, progress: Progress) -> Tried:
    progress(f"{loss:.0%} of all messages lost")
    return _try(f"{loss:.0%}", AntOptions(), seeds, loss)


def _lossy_claims(found: list[Tried]) -> list[Claim]:
    worst = max(one.ratio for one in found)
    return [
        own_claim(
            f"Up to {found[-1].setting} of all messages lost: latency, times the optimum, mean",
            worst,
            worst <= NEAR,
            f"≤ {NEAR:g}",
        ),
        own_claim(
            f"{found[-1].setting} lost: seconds until a query is placed",
            found[-1].after_s,
            found[-1].after_s <= 15,
            "≤ 15",
        ),
    ]


def _lossy_table(found: list[Tried]) -> Table:
    return _tried_table("Messages that get lost", "lost", found)


def _sweep(
    swept: Sequence[tuple[str, tuple[float, ...]]], seeds: range, progress: Progress
) -> list[Tried]:
    progress("the settings as they are")
    found = [_try("as they are", AntOptions(), seeds)]
    for name, values in swept:
        for value in values:
            shown = f"{value / SECOND:g} s" if name.endswith("_us") else f"{value:g}"
            progress(f"{name} {shown}")
            options = replace(AntOptions(), **{name: value})  # type: ignore[arg-type]
            if name == "scouts":
                options = replace(options, reports_needed=max(1, int(value) * 2 // 3))
            found.append(_try(f"{name} {shown}", options, seeds))
    return found


def _sweep_claims(found: list[Tried]) -> list[Claim]:
    best = min(one.ratio for one in found)
    behind = found[0].ratio / best
    return [
        own_claim(
            "Latency with the settings as they are, times that with the best ones tried",
            behind,
            behind <= 1.02,
            "≤ 1.02",
        )
    ]


def _sweep_table(found: list[Tried]) -> Table:
    return _tried_table("Other settings, one at a time", "setting", found)


def _tried_table(title: str, what: str, found: list[Tried]) -> Table:
    rows = tuple(
        (
            one.setting,
            round(one.ratio, 4),
            round(one.worst, 3),
            round(one.after_s, 2),
            round(one.messages),
        )
        for one in found
    )
    return Table(title, (what, "times the optimum", "worst", "placed after (s)", "messages"), rows)


EXPERIMENT = AntsBeyond()
