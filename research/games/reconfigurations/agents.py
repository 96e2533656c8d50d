"""Agents with messages, beside the centralized solution."""

from __future__ import annotations

from dataclasses import dataclass

from australis.elasticity.equilibrium import best_equilibrium
from australis.elasticity.generate import object_recognition
from australis.elasticity.incentives import cooperate
from australis.protocols.elasticity.events import ElasticityOptions, Measured
from australis.sim.elasticity.simulation import ElasticitySimulation
from research.claims import Claim, own_claim
from research.games.trial import ROUNDS, repetition
from research.games.workloads import Workload
from research.predicates import at_most, none

EXACT = 1e-9


@dataclass(frozen=True)
class Agreement:
    """Agents beside the centralized solution, over the steps of a load."""

    steps: int
    apart: float
    """The largest relative difference of a number of cores, before rounding."""
    efficient: bool
    """Whether every outcome is an efficiency vector."""
    ideal: bool
    """Whether in every outcome some module has its ideal number of cores."""


def agreement(workload: Workload, quick: bool) -> Agreement:
    """Run agents with messages on the real arrivals, and compare."""
    load = repetition(workload, 0)[:: 20 if quick else 2]
    apart, efficient, ideal = 0.0, True, True
    game = object_recognition()
    for rounds in (1, ROUNDS):
        floor = ElasticitySimulation(
            game.arriving(load[0]), ElasticityOptions(newest=1.0, rounds=rounds)
        )
        for every_s in load:
            floor.tell(game.graph.source, Measured(every_s=every_s))
            floor.run()
            truth = game.arriving(every_s)
            known = cooperate(truth, rounds=rounds)
            degrees = floor.degrees()
            apart = max(
                apart,
                *(abs(degrees[name] / n - 1) for name, n in known.profile.degrees.items()),
            )
            efficient &= truth.performance(degrees).efficient
            ideal &= any(
                abs(degrees[name] - module.ideal_degree(known.incentives[name])) < EXACT * 32
                for name, module in truth.modules.items()
            )
            if rounds == 1:
                assert known.profile == best_equilibrium(truth)
    return Agreement(2 * len(load), apart, efficient, ideal)


def agreement_claims(found: list[Agreement]) -> list[Claim]:
    steps = sum(one.steps for one in found)
    apart = max(one.apart for one in found)
    return [
        Claim(
            "Steps in which agents end at an efficiency vector, somebody at its ideal number of cores",
            [one for one in found if not (one.efficient and one.ideal)],
            none(),
            "all",
            shown=f"all {steps}"
            if all(one.efficient and one.ideal for one in found)
            else "not all",
        ),
        own_claim(
            "Largest relative difference to the central solution, before rounding",
            apart,
            at_most(EXACT),
        ),
    ]
