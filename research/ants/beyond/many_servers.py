"""Networks of up to 5,000 servers."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from australis.kernel.durations import SECOND
from research.ants.runs import colony_on, instance
from research.claims import Claim, Progress, Table, own_claim
from research.predicates import at_most, exactly


@dataclass(frozen=True)
class Wide:
    """Some queries on many servers."""

    servers: int
    queries: int
    placed: int
    placed_after_s: float
    messages: float
    """The messages of each cell per minute, without changes."""
    kept: int
    """The largest number of destinations kept by a cell."""


def measure_wide(servers: int, number: int, progress: Progress) -> Wide:
    progress(f"{servers} servers")
    made = instance(servers, servers, number, (2, 6), rate=15.0)
    colony = colony_on(made, servers)
    took_s = [(colony.placed_us[n] - colony.submitted_us[n]) / SECOND for n in colony.placements]
    before = colony.messages
    colony.run(20)
    messages = (colony.messages - before) * 3 / servers
    kept = max(len(host.cell.trails.vectors) for host in colony.hosts.values())
    return Wide(servers, number, len(colony.placements), fmean(took_s), messages, kept)


def wide_claims(found: list[Wide]) -> list[Claim]:
    few, many = found
    missing = sum(one.queries - one.placed for one in found)
    return [
        own_claim(f"Up to {many.servers} servers: queries not placed", missing, exactly(0)),
        own_claim(
            f"Messages of a cell, {many.servers} servers, part of that with {few.servers}",
            many.messages / few.messages,
            at_most(1.5),
        ),
    ]


def wide_table(found: list[Wide]) -> Table:
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
