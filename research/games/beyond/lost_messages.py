"""Agents that lose messages, beside the centralized solution."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from australis.elasticity.incentives import cooperate
from australis.protocols.elasticity.events import ElasticityOptions
from australis.sim.elasticity.simulation import ElasticitySimulation
from australis.sim.network import Link
from research.claims import Claim, Table, own_claim
from research.games.beyond.common import EXACT
from research.games.beyond.random_graphs import made
from research.predicates import exactly

LOSS = 0.05


@dataclass(frozen=True)
class Lossy:
    """Agents that lose messages, beside the centralized solution."""

    apart: float
    more: float
    """The number of messages relative to runs without loss."""
    ended_s: float
    """The duration of the longest step."""


def measure_lossy(seed: int) -> Lossy:
    game = made(20, seed)
    options = ElasticityOptions(newest=1.0, rounds=10, gossip=0)
    quiet = ElasticitySimulation(game, options, seed=seed)
    quiet.run(3)
    floor = ElasticitySimulation(game, options, Link(loss=LOSS), seed)
    floor.run(3)
    known = cooperate(game, rounds=10).profile.degrees
    apart = max(abs(n / known[name] - 1) for name, n in floor.degrees().items() if known[name])
    took = max(
        (at % options.step_us) / 1e6 for host in floor.hosts.values() for at in host.ended_us
    )
    more = sum(floor.messages.values()) / sum(quiet.messages.values())
    return Lossy(apart, more, took)


def lossy_claims(found: list[Lossy]) -> list[Claim]:
    right = sum(one.apart <= EXACT for one in found)
    return [
        own_claim(
            f"Games of 20 modules that end at the central solution with {LOSS:.0%} of messages lost",
            right,
            exactly(len(found)),
        )
    ]


def lossy_table(found: list[Lossy]) -> Table:
    columns = ("games", "largest difference", "messages, times those without", "longest step (s)")
    row = (
        len(found),
        max(one.apart for one in found),
        round(fmean(one.more for one in found), 3),
        round(max(one.ended_s for one in found), 2),
    )
    return Table(f"{LOSS:.0%} of all messages lost", columns, (row,))
