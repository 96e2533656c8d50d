"""The centralized optimum of a control step, computed from what each agent knows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from math import inf

from australis.elasticity.equilibrium import settled
from australis.elasticity.game import Game, Profile
from australis.elasticity.gossip import push_sum
from australis.elasticity.graph import FlowGraph
from australis.elasticity.incentives import cooperate, raised
from australis.protocols.elasticity.events import ElasticityOptions


@dataclass(frozen=True)
class Choice:
    """The outcome on which all agents should agree."""

    round: int
    rounds: int
    """The last round whose cost all agents learnt."""
    profile: Profile
    incentives: Mapping[str, float]
    first: Profile
    """The best equilibrium without incentives."""
    costs: Mapping[str, float | None]
    """The total cost as each agent computes it."""


def central(game: Game, options: ElasticityOptions) -> Choice:
    """The outcome of agents that receive all messages."""
    if options.gossip and options.rounds > 1:
        return _by_push_sum(game, options)
    found = cooperate(game, options.increment, options.rounds)
    played = [profile for profile, _ in islice(rounds(game, options.increment), found.rounds)]
    better = found.rounds == 1 or played[-1].cost < played[-2].cost
    cost = found.profile.cost if options.rounds > 1 else None
    return Choice(
        found.rounds if better else found.rounds - 1,
        found.rounds,
        found.profile,
        found.incentives,
        found.first,
        dict.fromkeys(game.modules, cost),
    )


def rounds(game: Game, increment: float) -> Iterator[tuple[Profile, dict[str, float]]]:
    """The equilibria of all rounds and their incentives, without a stopping rule."""
    ratios = game.graph.ratios
    incentives = dict.fromkeys(game.modules, 0.0)
    while True:
        ideal = {name: m.ideal_degree(incentives[name]) for name, m in game.modules.items()}
        paces_s = {n: ratios[n] * m.service.time_s(ideal[n]) for n, m in game.modules.items()}
        found = settled(game, ideal, max(paces_s.values()))
        yield found, dict(incentives)
        for name, module in game.modules.items():
            if paces_s[name] == found.pace_s:
                incentives[name] = raised(module, incentives[name], increment)


def _by_push_sum(game: Game, options: ElasticityOptions) -> Choice:
    """The outcome if all agents stop as soon as one of them finds a round no better than the one
    before.
    """
    least: Mapping[str, float] = dict.fromkeys(game.modules, inf)
    played: list[tuple[Profile, dict[str, float]]] = []
    for profile, incentives in rounds(game, options.increment):
        played.append((profile, incentives))
        if len(played) == options.rounds:
            break
        sums = push_sum(game.graph, _each_pays(game, profile), options.gossip)
        if any(sums[name] >= least[name] for name in sums):
            break
        least = sums
    stands, incentives = played[-2]
    number = len(played)
    return Choice(number - 1, number, stands, incentives, played[0][0], dict(least))


def _each_pays(game: Game, profile: Profile) -> dict[str, float]:
    ratios = game.graph.ratios
    return {
        name: module.cost(profile.degrees[name], profile.pace_s / ratios[name])
        for name, module in game.modules.items()
    }


def slowest_s(game: Game, among: Collection[str]) -> float:
    """The pace on which these agents agree without incentives if they receive messages from no
    others.
    """
    modules, ratios = game.modules, game.graph.ratios
    return max(
        ratios[name] * modules[name].service.time_s(modules[name].ideal_degree()) for name in among
    )


def parts(
    graph: FlowGraph, here: Collection[str], open_: Collection[tuple[str, str]]
) -> list[Part]:
    """The groups of agents that can exchange messages, given the agents that are up and the open
    links.
    """
    left = [name for name in graph.modules if name in here]
    found: list[Part] = []
    near = {
        name: [
            other for other in graph.neighbours[name] if other in here and (name, other) in open_
        ]
        for name in left
    }
    while left:
        hops = {name: _hops(near, name) for name in _hops(near, left[0])}
        found.append(Part(tuple(hops), max(max(far.values()) for far in hops.values())))
        left = [name for name in left if name not in hops]
    return found


@dataclass(frozen=True)
class Part:
    """A group of agents that can exchange messages."""

    names: tuple[str, ...]
    diameter: int


def _hops(near: Mapping[str, list[str]], start: str) -> dict[str, int]:
    found = {start: 0}
    reached = [start]
    for name in reached:  # The group grows during the loop.
        for other in near[name]:
            if other not in found:
                found[other] = found[name] + 1
                reached.append(other)
    return found
