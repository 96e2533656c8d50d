"""Lost ants, and settings other than the defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean

from australis.kernel.durations import SECOND
from australis.placement import generate
from australis.placement.model import Books, footprint
from australis.protocols.ants.events import AntOptions
from australis.sim.ants.simulation import AntsSimulation
from research.ants.beyond.common import NEAR
from research.ants.search import optimum
from research.claims import Claim, Progress, Table, own_claim
from research.predicates import at_most


@dataclass(frozen=True)
class Tried:
    """Single queries, with one setting."""

    setting: str
    ratio: float
    """The latency relative to the optimum."""
    worst: float
    after_s: float
    """The time until the query was placed."""
    messages: float
    """The number of messages until then."""


def _try(setting: str, options: AntOptions, seeds: range, loss: float = 0.0) -> Tried:
    ratios, after_s, messages = [], [], []
    for seed in seeds:
        rng = Random(seed)
        network = generate.transit_stub(12, rng)
        query = generate.query("q", network, rng.randint(2, 5), rng)
        colony = AntsSimulation(network, seed, options, loss)
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


def measure_lossy(loss: float, seeds: range, progress: Progress) -> Tried:
    progress(f"{loss:.0%} of all messages lost")
    return _try(f"{loss:.0%}", AntOptions(), seeds, loss)


def lossy_claims(found: list[Tried]) -> list[Claim]:
    worst = max(one.ratio for one in found)
    return [
        own_claim(
            f"Up to {found[-1].setting} of all messages lost: latency, times the optimum, mean",
            worst,
            at_most(NEAR),
        ),
        own_claim(
            f"{found[-1].setting} lost: seconds until a query is placed",
            found[-1].after_s,
            at_most(15),
        ),
    ]


def lossy_table(found: list[Tried]) -> Table:
    return _tried_table("Messages that get lost", "lost", found)


def measure_sweep(
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


def sweep_claims(found: list[Tried]) -> list[Claim]:
    best = min(one.ratio for one in found)
    behind = found[0].ratio / best
    return [
        own_claim(
            "Latency with the settings as they are, times that with the best ones tried",
            behind,
            at_most(1.02),
        )
    ]


def sweep_table(found: list[Tried]) -> Table:
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
