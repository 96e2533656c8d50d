"""How many contracts to sign, and at what price (thesis 6.5, 6.6.2: figures 6-8 to 6-11)."""

from __future__ import annotations

import numpy as np

from australis.protocols.contracts.planning import (
    Benefit,
    Draw,
    Floats,
    benefits,
    best_counter_offer,
    best_number,
)
from research.claims import (
    Claim,
    Picture,
    Progress,
    Result,
    Source,
    Table,
    Value,
)
from research.plots import Plot, Series
from research.predicates import above, at_least, at_most, within
from research.thesis_contracts.arrays.loads import bounded_pareto
from research.thesis_contracts.prices import Purchase, purchases, sales

LEAST, CAPACITY = 0.01, 1.0
SELLERS = {"light": -0.5, "uniform": -1.0, "heavy": -2.0}
MEANS = {"light": 0.37, "uniform": 0.505, "heavy": 0.67}
SPIKES = {"moderate": (10.0, 0.14), "extreme": (100.0, 0.5)}
"""Figure 6-8 (a) and (b): the largest load in multiples of capacity, and the shape."""
P_SPIKE = 0.05
MOST = 20
SAMPLES = 500_000
SALES = 10
"""The largest number of contracts of a seller."""
PRICES = (0.25, 0.33, 0.5, 0.66, 0.75)
MEDIANS = {"light": 0.33, "uniform": 0.5, "heavy": 0.66}
"""The price nearest to each median; the thesis has 0.3, 0.5 and 0.7."""
WORTHS = (0.0, 0.25, 0.5, 0.75)
TABLE_6_2 = {
    1: (0.33, 0.50, 0.67, 0.83),
    3: (0.20, 0.40, 0.60, 0.80),
    5: (0.14, 0.36, 0.57, 0.79),
    7: (0.11, 0.33, 0.55, 0.78),
}
Key = tuple[str, str]


class ContractsPlanning:
    """The benefit of the first, second, ... contract."""

    name = "contracts-planning"
    description = "The benefit of the nth contract, prices below capacity, counter-offers."
    reproduces = "thesis figures 6-8 to 6-11, tables 6.1 and 6.2"
    duration = "30 s, quick 5 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Draw many spikes, with many partners each."""
        samples = SAMPLES // 10 if quick else SAMPLES
        rng = np.random.default_rng(6)
        found: dict[Key, list[Benefit]] = {}
        for spike, (most, shape) in SPIKES.items():
            for seller, light in SELLERS.items():
                progress(f"{spike} spikes, {seller} load")
                found[spike, seller] = benefits(
                    _pareto(most, shape, rng), _pareto(CAPACITY, light, rng), MOST, samples, P_SPIKE
                )
        bought: dict[tuple[str, float], list[Purchase]] = {}
        for seller, shape in SELLERS.items():
            for level in PRICES:
                progress(f"contracts at {level:g} of capacity, {seller} load")
                draw = _pareto(CAPACITY, shape, rng)
                bought[seller, level] = purchases(
                    draw, draw, level, 10, samples, _cost, _slope(level)
                )
        sold: dict[tuple[str, float], list[Purchase]] = {}
        for seller, shape in SELLERS.items():
            progress(f"contracts as a seller, {seller} load")
            own = _pareto(CAPACITY, shape, rng)
            spikes = _now_and_then(_pareto(*SPIKES["moderate"], rng), rng)
            for level, offered in (
                (CAPACITY, spikes),
                (MEDIANS[seller], _above(own, MEDIANS[seller])),
            ):
                sold[seller, level] = sales(
                    own, offered, level, SALES, samples, _cost, _slope(level)
                )
        return Result(
            (
                *_distributions(),
                *_first_few(found),
                *_median(bought),
                *_selling(sold),
                _counter_offers(),
            ),
            (
                _overload(found),
                _worth(found),
                _bought(bought),
                _table_6_2(),
                _table_6_1(found, bought, sold),
            ),
            _DEVIATIONS,
            (*_pictures(found), *_bought_pictures(bought)),
        )


def _pareto(most: float, shape: float, rng: np.random.Generator) -> Draw:
    return lambda size: bounded_pareto(LEAST, most, shape, size, rng)


def _now_and_then(spike: Draw, rng: np.random.Generator) -> Draw:
    """Spikes with their rare occurrence."""
    return lambda size: spike(size) * (rng.random(size) < P_SPIKE)


def _above(load: Draw, level: float) -> Draw:
    """The load of a buyer above a level."""
    return lambda size: np.maximum(0.0, load(size) - level)


def _cost(load: Floats) -> Floats:
    """The cost function of the thesis' example for figure 6-11."""
    cost: Floats = (load - 0.2) / (1 - load + 0.2)
    return cost


def _slope(level: float) -> float:
    """The marginal cost at a load: the price that corresponds to it."""
    return 1 / (1.2 - level) ** 2


# --- claims -------------------------------------------------------------------------------


def _drawn_mean(most: float, shape: float) -> float:
    return float(np.mean(_pareto(most, shape, np.random.default_rng(68))((SAMPLES,))))


def _distributions() -> list[Claim]:
    sellers = [
        Claim(
            f"The loads drawn from the {name} distribution have mean",
            _drawn_mean(CAPACITY, shape),
            within(MEANS[name], relative=0.01),
            MEANS[name],
        )
        for name, shape in SELLERS.items()
    ]
    spikes = [
        Claim(
            f"The {name} spikes that are drawn have mean T",
            _drawn_mean(most, shape),
            within(1, relative=0.1),
            1,
        )
        for name, (most, shape) in SPIKES.items()
    ]
    return [*sellers, *spikes]


def _first_few(found: dict[Key, list[Benefit]]) -> list[Claim]:
    """The first five contracts bring most of the benefit of twenty."""
    claims = []
    for (spike, seller), one in found.items():
        part = (one[0].overloaded - one[5].overloaded) / (one[0].overloaded - one[MOST].overloaded)
        claims.append(
            Claim(
                f"Spikes {spike}, sellers {seller}: of the overload that twenty contracts avoid,"
                " five avoid (part)",
                part,
                above(0.5),
                "most",
            )
        )
    return claims


def _median(bought: dict[tuple[str, float], list[Purchase]]) -> list[Claim]:
    claims = []
    for seller, median in MEDIANS.items():
        parts = [
            bought[seller, median][n].moved / max(bought[seller, p][n].moved for p in PRICES)
            for n in range(3)
        ]
        claims.append(
            Claim(
                f"Load {seller}: with one to three contracts most moves at the median price"
                " (part of what moves at the best of five prices)",
                min(parts),
                at_least(0.95),
                1,
            )
        )
        five = bought[seller, median]
        part = five[4].gained / five[-1].gained
        claims.append(
            Claim(
                f"Load {seller}: five contracts at the median gain, of what ten gain (part)",
                part,
                at_least(0.85),
                "nearly all",
            )
        )
    return claims


def _selling(sold: dict[tuple[str, float], list[Purchase]]) -> list[Claim]:
    claims = []
    for (seller, level), one in sold.items():
        if level == CAPACITY:
            part = one[-1].gained / (SALES * one[0].gained)
            claims.append(
                Claim(
                    f"Load {seller}: ten contracts to sell at capacity gain, of ten times what one"
                    " gains (part)",
                    part,
                    at_least(0.7),
                    "almost linear",
                )
            )
        else:
            part = one[4].gained / one[-1].gained
            claims.append(
                Claim(
                    f"Load {seller}: five contracts to sell at the median gain, of what ten gain"
                    " (part)",
                    part,
                    at_least(0.85),
                    "nearly all",
                )
            )
    return claims


def _counter_offers() -> Claim:
    off = max(
        abs(best_counter_offer(worth, n) - paper)
        for n, row in TABLE_6_2.items()
        for worth, paper in zip(WORTHS, row, strict=True)
    )
    return Claim(
        "Table 6.2: the furthest of sixteen counter-offers from the thesis'",
        off,
        at_most(0.0101),
        0,
        Source.TABLE,
    )


# --- tables and plots ----------------------------------------------------------------------


def _overload(found: dict[Key, list[Benefit]]) -> Table:
    shown = (0, 1, 2, 3, 5, 10, 20)
    rows = tuple(
        (
            f"{spike} spikes, {seller} load",
            *(f"{one[n].overloaded:.3f}, {one[n].excess:.3f}" for n in shown),
        )
        for (spike, seller), one in found.items()
    )
    title = "Figures 6-8 and 6-9: probability of overload in a spike, and its mean, by contracts"
    return Table(title, ("contracts", *map(str, shown)), rows)


def _worth(found: dict[Key, list[Benefit]]) -> Table:
    costs = (0.0001, 0.0005, 0.001, 0.002, 0.005)
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (f"{spike} spikes, {seller} load", *(best_number(one, cost) for cost in costs))
        for (spike, seller), one in found.items()
    )
    title = "Figure 6-10: how many contracts to sign if each costs so much (20 or more: 20)"
    return Table(title, ("each costs", *(f"{cost:g}" for cost in costs)), rows)


def _bought(bought: dict[tuple[str, float], list[Purchase]]) -> Table:
    shown = (1, 3, 5, 10)
    rows = tuple(
        (
            f"{seller} load, price at {level:g}",
            *(f"{one[n - 1].moved:.3f}, {one[n - 1].gained:.3f}" for n in shown),
        )
        for (seller, level), one in bought.items()
    )
    title = "Figure 6-11: load moved and utility gained by contracts below capacity"
    return Table(title, ("contracts", *map(str, shown)), rows)


def _table_6_2() -> Table:
    rows = tuple(
        (
            f"{n} competitors",
            *(
                f"{best_counter_offer(w, n):.2f} ({p:.2f})"
                for w, p in zip(WORTHS, row, strict=True)
            ),
        )
        for n, row in TABLE_6_2.items()
    )
    title = "Table 6.2: counter-offers by valuation (the thesis')"
    return Table(title, ("", *(f"{w:g}" for w in WORTHS)), rows)


def _table_6_1(
    found: dict[Key, list[Benefit]],
    bought: dict[tuple[str, float], list[Purchase]],
    sold: dict[tuple[str, float], list[Purchase]],
) -> Table:
    """The number of contracts, of ten, that bring nine tenths of the benefit of all ten."""
    names = tuple(SELLERS)
    spikes = (found["moderate", name][1 : SALES + 1] for name in names)
    rows: tuple[tuple[Value, ...], ...] = (
        ("capacity", "buyer", *(_most([b.saved for b in one]) for one in spikes), "a few"),
        ("median", "buyer", *(_enough(bought[n, MEDIANS[n]]) for n in names), "a few"),
        ("capacity", "seller", *(_enough(sold[n, CAPACITY]) for n in names), "many"),
        ("median", "seller", *(_enough(sold[n, MEDIANS[n]]) for n in names), "a few"),
    )
    columns = ("price at load level", "as", *(f"{name} load" for name in names), "thesis")
    title = "Table 6.1: so many contracts bring nine tenths of what ten do"
    return Table(title, columns, rows)


def _enough(found: list[Purchase]) -> int:
    return _most([one.gained for one in found])


def _most(gained: list[float]) -> int:
    return next(n for n, one in enumerate(gained, 1) if one >= 0.9 * gained[-1])


def _pictures(found: dict[Key, list[Benefit]]) -> list[Picture]:
    pictures = []
    for figure, what, y in (
        ("6-8", "overloaded", "probability of overload"),
        ("6-9", "excess", "overload (parts of capacity)"),
        ("6-10", "saved", "benefit"),
    ):
        for spike in SPIKES:
            curves = [
                Series(
                    s, tuple((float(b.contracts), float(getattr(b, what))) for b in found[spike, s])
                )
                for s in SELLERS
            ]
            title = f"Figure {figure}: {spike} spikes"
            pictures.append(Picture(f"{figure}-{spike}", Plot(title, "contracts", y, curves)))
    return pictures


def _points(found: list[Purchase], what: str) -> tuple[tuple[float, float], ...]:
    return tuple((float(one.contracts), float(getattr(one, what))) for one in found)


def _bought_pictures(bought: dict[tuple[str, float], list[Purchase]]) -> list[Picture]:
    pictures = []
    for seller in SELLERS:
        for what, y in (("moved", "load moved"), ("gained", "utility gained")):
            curves = [Series(f"{p:g} T", _points(bought[seller, p], what)) for p in PRICES]
            title = f"Figure 6-11: {y}, {seller} load"
            name = f"6-11-{seller}-{what}"
            pictures.append(Picture(name, Plot(title, "contracts", y, curves)))
    return pictures


_DEVIATIONS = (
    "The thesis gives the price of a load level as the slope of the cost there; so do we.",
    "How much a contract costs is not in the text: figure 6-10 is shown for several costs.",
)
EXPERIMENT = ContractsPlanning()
