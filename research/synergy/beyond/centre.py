"""Peers that balance themselves, beside a centralized balancer with global knowledge."""

from __future__ import annotations

from statistics import fmean

from australis.sim.hotspots.simulation import Managed
from research.claims import Claim, Table, own_claim
from research.predicates import at_least, at_most
from research.synergy.delay import CLEARLY


def centre_claims(ways: dict[Managed, list[float]]) -> list[Claim]:
    peers, centre = fmean(ways[Managed.PEERS]), fmean(ways[Managed.CENTRE])
    nobody = fmean(ways[Managed.NOBODY])
    return [
        own_claim(
            "Delay with a centre that knows everything and moves for nothing, part of that with"
            " peers that balance themselves",
            centre / peers,
            at_most(1),
        ),
        own_claim(
            "Of what such a centre saves in delay the peers save (part)",
            (nobody - peers) / (nobody - centre),
            at_least(0.5),
        ),
    ]


def ways_table(ways: dict[Managed, list[float]]) -> Table:
    count = len(next(iter(ways.values())))
    rows = tuple(
        (way.value, *(round(d, 2) for d in delays), round(fmean(delays), 2))
        for way, delays in ways.items()
    )
    columns = ("balanced by", *(f"seed {n}" for n in range(count)), "mean (s)")
    return Table("Mean delay (s)", columns, rows)


def large_claim(ratios: list[float], size: int) -> Claim:
    return own_claim(
        f"{size} peers: delay with load management, part of that without",
        fmean(ratios),
        at_most(CLEARLY),
    )
