"""Incentives: step size, rounds, and distance from the optimum (games figures 15, 16)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import fmean

from australis.elasticity.equilibrium import best_equilibrium, social_optimum
from australis.elasticity.generate import object_recognition
from australis.elasticity.incentives import cooperate
from australis.elasticity.rounding import whole_cores
from research.claims import Claim, Picture, Progress, Result, Table
from research.games.compare import priced
from research.games.runs import DEVIATIONS, QUICK, SHOWN, both, many
from research.games.strategies import Playing
from research.games.trial import in_model, repetition
from research.games.workloads import RANDOM_WALK, WORKLOADS, Workload
from research.plots import Plot, Series
from research.predicates import at_least, at_most, below, exactly, fields, never_rising, rising

INCREMENTS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
"""The step sizes, as parts of the price of a core."""
PAPER_STEP = 0.1
"""The step size of the paper's experiments."""
DEAR = 3.0
"""The price factor at which the optimum is not always to keep up, so that steps matter."""
LIMIT = 400
"""A limit of rounds that is never reached."""
SEEDS = 20
FLAT = 0.002
"""A cost reduction below this does not count as a gain of a smaller step."""
TASKS_EVERY_S = (0.9, 0.7, 0.6, 0.5, 0.45, 0.4, 0.3)
UNPAID_PART = 0.85
UNPAID = ("dispatcher", "denoiser-1", "denoiser-2")


@dataclass(frozen=True)
class Tuned:
    """The outcome with one step size."""

    increment: float
    rounds: float
    most: int
    exact: float
    """The cost before rounding, relative to the social optimum."""
    price: float
    """The relative cost after rounding."""
    reported: float
    """The inverse of the relative cost, as the paper reports it."""


class GamesIncentives:
    """The random walk with several step sizes, and the incentives that modules get."""

    name = "games-incentives"
    description = "Rounds, and cost beside the social optimum, by the size of steps of incentives."
    reproduces = "games figures 15 and 16"
    duration = "1 min, quick 10 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run twenty repetitions; with `quick` two."""
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
            rounds,
            rising(),
            "more with smaller steps",
            shown=" ".join(f"{value:.1f}" for value in rounds),
        ),
        Claim(
            f"Cost before rounding, times the social optimum, cores at {DEAR:g} times the price",
            exact,
            never_rising(),
            "nearer with smaller steps",
            shown=" ".join(f"{value:.4f}" for value in exact),
        ),
        Claim(
            f"The same with whole cores: what steps smaller than {PAPER_STEP:g} gain at most",
            gain,
            at_most(FLAT),
            "stops to gain",
            shown=round(gain, 5),
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
    return Picture("rounds", Plot(title, "step, part of a core's price", "rounds", series))


# --- figure 15 --------------------------------------------------------------------------------------------


def _incentives(played: Playing) -> dict[str, list[float]]:
    """The part of a core's price that is paid, by module and step."""
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
            most,
            exactly(0),
            0,
        ),
        Claim(
            "The part of the steps of light load in which nobody is paid",
            {"light": fmean(light), "elsewhere": fmean(pressed)},
            fields(light=at_least(UNPAID_PART), elsewhere=below(UNPAID_PART)),
            "all",
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
        Series(module, tuple(enumerate(paid[module])), size=0.8, dash="-") for module in SHOWN[2:]
    ]
    title = f"{name}: incentives, parts of a core's price"
    return Picture(f"incentives-{name}", Plot(title, "control step", "part", series))


EXPERIMENT = GamesIncentives()
