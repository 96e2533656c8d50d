"""How often cores change, and how efficiently they are used (games figures 12, 13, table IV)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil
from statistics import fmean

from australis.elasticity.equilibrium import best_equilibrium
from australis.elasticity.generate import object_recognition
from australis.elasticity.incentives import cooperate
from australis.elasticity.inertia import Inertia
from australis.elasticity.strategies import Playing
from australis.elasticity.workloads import WORKLOADS, Workload
from australis.experiments.claims import Claim, Picture, Progress, Result, Source, Table, own_claim
from australis.experiments.games_runs import (
    DEVIATIONS,
    QUICK,
    REPETITIONS,
    SHOWN,
    STRATEGIES,
    Repetition,
    both,
    many,
    repeated,
    shown,
)
from australis.experiments.svg import Series, plot
from australis.protocols.elasticity.events import ElasticityOptions, Measured
from australis.sim.elasticity.floor import Floor
from australis.sim.elasticity.trial import ROUNDS, in_model, repetition

Figures = tuple[int, int, float, float]
PAPER: dict[str, dict[str, Figures]] = {
    "cyclic": {
        "denoiser-1": (4, 8, 0.87, 0.88),
        "denoiser-2": (5, 14, 0.86, 0.90),
        "edge-detector": (12, 45, 0.99, 0.97),
        "recognizer": (23, 96, 0.97, 0.98),
    },
    "trend": {
        "denoiser-1": (5, 11, 0.87, 0.89),
        "denoiser-2": (7, 21, 0.87, 0.88),
        "edge-detector": (51, 125, 0.98, 0.96),
        "recognizer": (121, 199, 0.97, 0.99),
    },
    "rwalk": {
        "denoiser-1": (6, 12, 0.86, 0.88),
        "denoiser-2": (8, 44, 0.86, 0.87),
        "edge-detector": (68, 205, 0.99, 0.97),
        "recognizer": (154, 297, 0.98, 0.99),
    },
}
"""Changes and relative efficiency, selfish and cooperative (table IV)."""
EFFICIENT = 0.86
SAME = 0.9
IDEAL = {"edge-detector": 15, "recognizer": 21}
EXACT = 1e-9
INERTIA = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
"""What a change costs; a core of the Recognizer costs 0.0177 a step."""
STEPS_WEIGHED = 5.0
SLACK = 0.02


class GamesReconfigurations:
    """The paper's application on its three loads, with both strategies."""

    name = "games-reconfigurations"
    description = "How often cores change in 600 control steps, and how efficiently they are used."
    reproduces = "games figures 12 and 13, table IV"
    duration = "2 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """A hundred repetitions; with `quick` four."""
        found = repeated(quick, progress)
        progress("agents beside the central solution")
        agreed = [agreement(workload, quick) for workload in WORKLOADS]
        stiff = _stiff(quick, progress)
        return Result(
            (*_claims(found), *_agreement_claims(agreed), *_stiff_claims(stiff)),
            (*(_table(name, runs) for name, runs in found.items()), _stiff_table(stiff)),
            (
                *DEVIATIONS,
                "The paper's text gives 16 as the ideal number of cores of the Edge Detector; table III"
                " and expression 10 give 14.8, rounded up 15. Where the 16 is from is unexplained.",
                "Denoisers have two to four cores, so that rounding up makes them less efficient than"
                " 0.86, by how much depends on what the loads are like where they are light. Curves with"
                " narrow peaks of 1.3 to 1.5 s there bring them to 0.83 to 0.86 without noise and as many"
                " tasks as in table V; but with the noise that table IV asks for, strategies then differ"
                " in up to a quarter of the steps of light load.",
                "The Edge Detector needs 10.9 cores at the pace of the best equilibrium: measured times"
                " of tasks vary enough that it goes from 11 to 12 and back where the paper's does not.",
                "Hysteresis is not in the paper, which does not count what a change costs.",
            ),
            tuple(picture for workload in WORKLOADS for picture in _pictures(workload)),
        )


# --- table IV ---------------------------------------------------------------------------------------


def _claims(found: dict[str, list[Repetition]]) -> list[Claim]:
    game = object_recognition()
    ideal = {name: game.modules[name].ideal_degree() for name in IDEAL}
    claims = [
        Claim(
            f"Ideal cores of the {name}, rounded up",
            ceil(degree),
            ceil(degree) == IDEAL[name],
            {"edge-detector": 16, "recognizer": 21}[name],
            Source.PROSE,
            f"{IDEAL[name]}: expression 10 gives {degree:.1f}",
        )
        for name, degree in ideal.items()
    ]
    least = min(
        fmean(run[strategy].efficiencies[name] for run in runs)
        for runs in found.values()
        for strategy in STRATEGIES
        for name in SHOWN
    )
    claims.append(
        Claim(
            "Relative efficiency, the least mean of all modules, loads and strategies",
            round(least, 3),
            least >= EFFICIENT,
            EFFICIENT,
            Source.TABLE,
            f"≥ {EFFICIENT:g}",
        )
    )
    for name, runs in found.items():
        claims += _load_claims(name, runs)
    return claims


def _load_claims(name: str, runs: list[Repetition]) -> list[Claim]:
    changes = [
        tuple(fmean(run[strategy].changes[module] for run in runs) for strategy in STRATEGIES)
        for module in SHOWN
    ]
    same = fmean(run.same for run in runs)
    elsewhere = fmean(run.elsewhere for run in runs)
    return [
        Claim(
            f"{name}: changes of cores, selfish and cooperative ({', '.join(SHOWN)})",
            ", ".join(f"{alone:.0f} {together:.0f}" for alone, together in changes),
            all(alone < together for alone, together in changes),
            ", ".join(f"{alone} {together}" for alone, together, *_ in PAPER[name].values()),
            Source.TABLE,
            "more with cooperation, all modules",
        ),
        Claim(
            f"{name}: steps of light load in which both decide the same",
            round(same, 3),
            same >= SAME > elsewhere,
            "all",
            Source.PROSE,
            f"≥ {SAME:g}, and less elsewhere ({elsewhere:.2f})",
        ),
    ]


def _table(name: str, runs: list[Repetition]) -> Table:
    rows = []
    for module in SHOWN:
        row: list[str | float | int] = [module]
        for at, strategy in enumerate(STRATEGIES):
            row += [shown(run[strategy].changes[module] for run in runs), PAPER[name][module][at]]
        for at, strategy in enumerate(STRATEGIES, 2):
            mean = fmean(run[strategy].efficiencies[module] for run in runs)
            row += [round(mean, 3), PAPER[name][module][at]]
        rows.append(tuple(row))
    columns = (
        *("module", "changes selfish", "paper", "cooperative", "paper"),
        *("efficiency selfish", "paper", "cooperative", "paper"),
    )
    return Table(f"{name}: changes and efficiency, {len(runs)} repetitions", columns, tuple(rows))


# --- agents ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """Agents beside the central solution, over the steps of a load."""

    steps: int
    apart: float
    """The largest relative difference of a number of cores, before rounding."""
    efficient: bool
    """Whether every outcome is an efficiency vector,"""
    ideal: bool
    """and somebody has its ideal number of cores in every one."""


def agreement(workload: Workload, quick: bool) -> Agreement:
    """Agents with messages, on what really comes."""
    load = repetition(workload, 0)[:: 20 if quick else 2]
    apart, efficient, ideal = 0.0, True, True
    game = object_recognition()
    for rounds in (1, ROUNDS):
        floor = Floor(game.arriving(load[0]), ElasticityOptions(newest=1.0, rounds=rounds))
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


def _agreement_claims(found: list[Agreement]) -> list[Claim]:
    steps = sum(one.steps for one in found)
    apart = max(one.apart for one in found)
    return [
        Claim(
            "Steps in which agents end at an efficiency vector, somebody at its ideal number of cores",
            steps if all(one.efficient and one.ideal for one in found) else "not all",
            all(one.efficient and one.ideal for one in found),
            "all",
            Source.PROSE,
            f"all {steps}",
        ),
        own_claim(
            "Largest relative difference to the central solution, before rounding",
            apart,
            apart <= EXACT,
            f"≤ {EXACT:g}",
        ),
    ]


# --- hysteresis -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stiff:
    """What hysteresis saves and loses, if a change costs something."""

    price: float
    changes: float
    """Of all modules together, a repetition,"""
    cost: float
    """for cores and delay, without what changes cost,"""
    plain_changes: float
    """and both without hysteresis."""
    plain_cost: float

    @property
    def saved(self) -> float:
        """Part of the cost with changes that is saved."""
        plain = self.plain_cost + self.price * self.plain_changes
        return 1 - (self.cost + self.price * self.changes) / plain

    @property
    def lost(self) -> float:
        """By how much cores and delay cost more."""
        return self.cost / self.plain_cost - 1


def _stiff_one(price: float, seed: int) -> tuple[float, float]:
    inertia = Inertia(price, STEPS_WEIGHED, SLACK if price else 0.0)
    changes = cost = 0.0
    for workload in WORKLOADS:
        load = repetition(workload, seed)
        played = in_model(lambda game, _: Playing(game, rounds=ROUNDS, inertia=inertia), load, seed)
        changes += sum(played.changes().values())
        cost += played.cost
    return changes, cost


def _stiff(quick: bool, progress: Progress) -> list[Stiff]:
    seeds = range(QUICK // 2 if quick else REPETITIONS // 10)
    means = {}
    for price in INERTIA:
        found = many(partial(_stiff_one, price), seeds, progress, f"a change costs {price:g}")
        means[price] = (fmean(c for c, _ in found), fmean(c for _, c in found))
    plain_changes, plain_cost = means[0.0]
    return [
        Stiff(price, changes, cost, plain_changes, plain_cost)
        for price, (changes, cost) in means.items()
    ]


def _stiff_claims(found: list[Stiff]) -> list[Claim]:
    priced = [one for one in found if one.price]
    return [
        own_claim(
            "Hysteresis saves something whatever a change costs: the least part of the cost with it",
            min(one.saved for one in priced),
            all(one.saved > 0 for one in priced),
            "> 0",
        ),
        own_claim(
            "Changes left with hysteresis, the most of all prices, part of those without",
            max(one.changes / one.plain_changes for one in priced),
            all(one.changes < one.plain_changes for one in priced),
            "< 1",
        ),
    ]


def _stiff_table(found: list[Stiff]) -> Table:
    rows = tuple(
        (
            one.price,
            round(one.changes, 1),
            round(one.cost, 1),
            f"{one.lost:+.2%}",
            f"{one.saved:+.2%}",
        )
        for one in found
    )
    columns = ("a change costs", "changes", "cost without them", "more than before", "saved in all")
    return Table(
        f"Hysteresis, all three loads: cores are given back if they cost more than a change in"
        f" {STEPS_WEIGHED:g} steps, and taken if a module is late by more than {SLACK:.0%}",
        columns,
        rows,
    )


# --- figures ------------------------------------------------------------------------------------------------


def _pictures(workload: Workload) -> list[Picture]:
    selfish, cooperative, (_first, _), load = both(workload, 0)
    arrivals = [
        Series("in each step", tuple(enumerate(load)), dots_only=True, size=1.0),
        Series("curve", tuple(enumerate(workload.curve())), size=0.8, dash=""),
    ]
    cores = [
        Series(
            f"{module}, {name}",
            tuple((n, c[module]) for n, c in enumerate(played.cores)),
            size=0.8,
            dash="",
        )
        for module in ("edge-detector", "recognizer")
        for name, played in (("selfish", selfish), ("cooperative", cooperative))
    ]
    return [
        Picture(
            f"arrivals-{workload.name}",
            plot(f"{workload.name}: time between tasks", "control step", "seconds", arrivals),
        ),
        Picture(
            f"cores-{workload.name}",
            plot(f"{workload.name}: cores", "control step", "cores", cores),
        ),
    ]


EXPERIMENT = GamesReconfigurations()
