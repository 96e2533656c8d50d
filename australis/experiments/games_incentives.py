"""Incentives: how large a step, how many rounds, how near the optimum (games figures 15, 16)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean

from australis.elasticity.equilibrium import best_equilibrium, social_optimum
from australis.elasticity.generate import object_recognition
from australis.elasticity.incentives import cooperate
from australis.elasticity.rounding import whole_cores
from australis.elasticity.strategies import Playing
from australis.elasticity.workloads import RANDOM_WALK, WORKLOADS, Workload
from australis.experiments.claims import Claim, Picture, Progress, Result, Source, Table
from australis.experiments.games_runs import DEVIATIONS, QUICK, SHOWN, both, many
from australis.experiments.svg import Series, plot
from australis.sim.elasticity.compare import priced
from australis.sim.elasticity.trial import in_model, repetition

INCREMENTS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Parts of the price of a core."""
PAPER_STEP = 0.1
"""What the paper's experiments have."""
DEAR = 3.0
"""So many times the price, the optimum is not always to keep up, and steps matter."""
LIMIT = 400
"""Rounds at most: so many that it never matters."""
SEEDS = 20
FLAT = 0.002
"""Less than this a smaller step no longer gains."""
TASKS_EVERY_S = (0.9, 0.7, 0.6, 0.5, 0.45, 0.4, 0.3)
UNPAID_PART = 0.85
UNPAID = ("dispatcher", "denoiser-1", "denoiser-2")


@dataclass(frozen=True)
class Tuned:
    """One size of steps."""

    increment: float
    rounds: float
    most: int
    exact: float
    """The cost before rounding, times the social optimum,"""
    price: float
    """after rounding,"""
    reported: float
    """and that upside down."""


class GamesIncentives:
    """The random walk with steps of several sizes, and what incentives modules get."""

    name = "games-incentives"
    description = "Rounds, and cost beside the social optimum, by the size of steps of incentives."
    reproduces = "games figures 15 and 16"
    duration = "1 min, quick 10 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Twenty repetitions; with `quick` two."""
        found, dear = (
            [_tuned(increment, factor, quick, progress) for increment in INCREMENTS]
            for factor in (1.0, DEAR)
        )
        return Result(
            (*_claims(found, dear), *_paid_claims()),
            (_table(found, 1.0), _table(dear, DEAR), _paid_table()),
            (
                *DEVIATIONS,
                "With table III keeping up with what comes is always best: incentives of any size end"
                " there, since whoever holds up nobody is not paid. That smaller steps come nearer to"
                f" the optimum is shown with cores at {DEAR:g} times the price.",
                "The paper's figure 16b stops to gain at a threshold that the stored text does not"
                " give. Here steps end at the best round, where algorithm 2 applies the one before the"
                " last.",
            ),
            (_rounds_picture(found), *(_paid_picture(workload) for workload in WORKLOADS)),
        )


# --- figure 16 ----------------------------------------------------------------------------------------


def _one(increment: float, factor: float, seed: int) -> tuple[float, int, float, float, float]:
    load = repetition(RANDOM_WALK, seed)
    game = priced(factor)
    strategy = Playing(game, rounds=LIMIT, increment=increment, newest=1.0)
    played = in_model(lambda game, _: strategy, load, seed, known=True, game=game)
    best = [social_optimum(game.arriving(every_s)).cost for every_s in load]
    paid = [sum(costs.values()) for costs in played.costs]
    exact = [outcome.profile.cost for outcome in strategy.outcomes]
    rounds = [outcome.rounds for outcome in strategy.outcomes]
    return (
        fmean(rounds),
        max(rounds),
        fmean(cost / least for cost, least in zip(exact, best, strict=True)),
        fmean(cost / least for cost, least in zip(paid, best, strict=True)),
        fmean(least / cost for cost, least in zip(paid, best, strict=True)),
    )


def _tuned(increment: float, factor: float, quick: bool, progress: Progress) -> Tuned:
    seeds = range(QUICK // 2 if quick else SEEDS)
    found = many(partial(_one, increment, factor), seeds, progress, f"steps of {increment:g}")
    rounds, most, exact, price, reported = zip(*found, strict=True)
    return Tuned(increment, fmean(rounds), max(most), fmean(exact), fmean(price), fmean(reported))


def _claims(found: list[Tuned], dear: list[Tuned]) -> list[Claim]:
    rounds = [one.rounds for one in found]
    exact = [one.exact for one in dear]
    usual = next(one.price for one in dear if one.increment == PAPER_STEP)
    gain = max(usual - one.price for one in dear if one.increment < PAPER_STEP)
    return [
        Claim(
            f"Rounds a step, with steps of {' '.join(f'{one.increment:g}' for one in found)}",
            " ".join(f"{value:.1f}" for value in rounds),
            all(a < b for a, b in pairwise(rounds)),
            "more with smaller steps",
            Source.PROSE,
            "always more",
        ),
        Claim(
            f"Cost before rounding, times the social optimum, cores at {DEAR:g} times the price",
            " ".join(f"{value:.4f}" for value in exact),
            all(a >= b for a, b in pairwise(exact)),
            "nearer with smaller steps",
            Source.PROSE,
            "never more",
        ),
        Claim(
            f"The same with whole cores: what steps smaller than {PAPER_STEP:g} gain at most",
            round(gain, 5),
            gain <= FLAT,
            "stops to gain",
            Source.PROSE,
            f"≤ {FLAT:g}",
        ),
    ]


def _table(found: list[Tuned], factor: float) -> Table:
    rows = tuple(
        (
            one.increment,
            round(one.rounds, 2),
            one.most,
            round(one.exact, 5),
            round(one.price, 5),
            round(one.reported, 5),
        )
        for one in found
    )
    columns = (
        *("step, part of a core's price", "rounds", "most", "cost, times the optimum"),
        *("with whole cores", "upside down (paper)"),
    )
    title = f"rwalk, arrivals known, cores at {factor:g} times the price of table III"
    return Table(title, columns, rows)


def _rounds_picture(found: list[Tuned]) -> Picture:
    series = [Series("rounds", tuple((one.increment, one.rounds) for one in found))]
    title = "rwalk: mean rounds by the step of incentives"
    return Picture("rounds", plot(title, "step, part of a core's price", "rounds", series))


# --- figure 15 --------------------------------------------------------------------------------------------


def _incentives(played: Playing) -> dict[str, list[float]]:
    """By module: the part of a core's price that is paid, step by step."""
    prices = {name: m.core_price for name, m in object_recognition().modules.items()}
    return {
        name: [outcome.incentives[name] / price for outcome in played.outcomes]
        for name, price in prices.items()
    }


def _paid_claims() -> list[Claim]:
    most = 0.0
    light: list[bool] = []
    pressed: list[bool] = []
    for workload in WORKLOADS:
        _, _, (_, second), _ = both(workload, 0)
        paid = _incentives(second)
        most = max(most, *(max(paid[name]) for name in UNPAID))
        for step, outcome in enumerate(second.outcomes):
            here = any(begin <= step < end for begin, end in workload.same)
            (light if here else pressed).append(not any(outcome.incentives.values()))
    return [
        Claim(
            "Incentives of the Dispatcher and the Denoisers, at most",
            round(most, 4),
            most == 0,
            0,
            Source.PROSE,
            "none",
        ),
        Claim(
            "The part of the steps of light load in which nobody is paid",
            round(fmean(light), 3),
            fmean(light) >= UNPAID_PART > fmean(pressed),
            "all",
            Source.PROSE,
            f"≥ {UNPAID_PART:g}, and less elsewhere ({fmean(pressed):.2f})",
        ),
    ]


def _paid_table() -> Table:
    game = object_recognition()
    rows = []
    for every_s in TASKS_EVERY_S:
        truth = game.arriving(every_s)
        outcome = cooperate(truth, rounds=LIMIT)
        price = best_equilibrium(truth).cost / social_optimum(truth).cost
        shares = {n: outcome.incentives[n] / truth.modules[n].core_price for n in SHOWN[2:]}
        cores = whole_cores(truth, outcome.profile.degrees)
        rows.append(
            (
                every_s,
                round(price, 4),
                round(1 / price, 4),
                *(round(shares[name], 2) for name in SHOWN[2:]),
                *(cores[name] for name in SHOWN[2:]),
                outcome.rounds,
            )
        )
    columns = (
        *("a task every (s)", "price of stability", "upside down"),
        *("incentive edge-detector", "recognizer", "cores edge-detector", "recognizer", "rounds"),
    )
    return Table(
        "Incentives by how often tasks come, parts of a core's price", columns, tuple(rows)
    )


def _paid_picture(workload: Workload) -> Picture:
    _, _, (_, second), _ = both(workload, 0)
    paid, name = _incentives(second), workload.name
    series = [
        Series(module, tuple(enumerate(paid[module])), size=0.8, dash="") for module in SHOWN[2:]
    ]
    title = f"{name}: incentives, parts of a core's price"
    return Picture(f"incentives-{name}", plot(title, "control step", "part", series))


EXPERIMENT = GamesIncentives()
