"""Operators, peers and applications: drawn at random as in the paper, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from australis.kernel.errors import UserError
from australis.protocols.hotspots.events import HotSpotOptions
from australis.protocols.hotspots.ontology import Ontology


@dataclass(frozen=True)
class PeerPlan:
    """One peer."""

    offers: tuple[str, ...]
    speed: float = 1.0
    others: float = 0.0
    """The mean number of other users' processes that are ready to run there."""


@dataclass(frozen=True)
class ApplicationPlan:
    """One application: its operators in order, and its source's rate in tuples per second."""

    operators: tuple[str, ...]
    per_s: float


@dataclass(frozen=True)
class PeersPlan:
    """Everything given before a run."""

    operators: Mapping[str, float]
    """The cost of one tuple at each operator, in seconds of a processor of speed 1."""
    peers: Mapping[str, PeerPlan]
    applications: Mapping[str, ApplicationPlan]
    options: HotSpotOptions = field(default_factory=HotSpotOptions)

    def __post_init__(self) -> None:
        known = Ontology(self.operators)
        if not self.peers:
            raise UserError("are missing: there is no peer to run anything", name="peers")
        offered = set()
        for name, peer in self.peers.items():
            for operator in peer.offers:
                known.check(operator, name)
                offered.add(operator)
        for name, application in self.applications.items():
            for operator in application.operators:
                known.check(operator, name)
                if operator not in offered:
                    raise UserError(f"needs '{operator}', which no peer offers", name=name)

    @property
    def utilisation(self) -> float:
        """The part of all processors' capacity that the applications need."""
        demand = sum(
            a.per_s * sum(self.operators[o] for o in a.operators)
            for a in self.applications.values()
        )
        return demand / sum(peer.speed for peer in self.peers.values())


@dataclass(frozen=True)
class Drawn:
    """The parameters of a random plan; the defaults are the paper's values."""

    peers: int = 30
    operators: int = 10
    offered: int = 5
    """The number of operators that each peer offers."""
    length: int = 5
    """The number of operators of an application; there are as many applications as peers."""
    utilisation: float = 0.15
    """The utilisation of all processors together."""
    mean_cost_s: float = 0.25
    """The mean cost of one tuple at one operator, on a processor of speed 1: two thousand tuples
    are then delivered in about ten minutes.
    """
    others: float = 2.0
    """The mean number of other users' processes that are ready to run at a peer."""


def draw(what: Drawn, options: HotSpotOptions, rng: Random) -> PeersPlan:
    """Draw a plan in which each operator is offered by at least one peer."""
    operators = [f"Encryption.DES.{56 + 8 * i}" for i in range(what.operators)]
    costs = {o: what.mean_cost_s * rng.uniform(0.5, 1.5) for o in operators}
    peers: dict[str, PeerPlan] = {}
    while len({o for peer in peers.values() for o in peer.offers}) < len(operators):
        for i in range(what.peers):
            offers = tuple(rng.sample(operators, what.offered))
            peers[f"peer{i}"] = PeerPlan(offers, rng.uniform(0.6, 1.4), what.others)
    applications = {
        f"app{i}": ApplicationPlan(tuple(rng.sample(operators, what.length)), 1.0)
        for i in range(what.peers)
    }
    scale = what.utilisation / PeersPlan(costs, peers, applications).utilisation
    applications = {
        name: ApplicationPlan(one.operators, one.per_s * scale)
        for name, one in applications.items()
    }
    return PeersPlan(costs, peers, applications, options)
