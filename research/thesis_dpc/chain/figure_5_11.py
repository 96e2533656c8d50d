"""Figures 5-11 to 5-13: what delaying gains in consistency, and how long reconciliation takes."""

from __future__ import annotations

from research.claims import Claim, Picture, Table
from research.plots import COLOURS, DASHED, Plot, Series
from research.predicates import at_most, between, each, never_rising
from research.thesis_dpc.chain.charts import by_depth, count, listed
from research.thesis_dpc.chain.techniques import (
    D_S,
    DEEPEST,
    DELAY,
    LONG_S,
    PROCESS,
    RATE,
    ChainPlan,
    Found,
    Technique,
)


def _gain(found: Found, depth: int, failure: int) -> int:
    """The tentative tuples that Delay & Delay saves compared with Process & Process."""
    return found[PROCESS, depth, failure].n_tentative - found[DELAY, depth, failure].n_tentative


def _relative(found: Found, depth: int, failure: int) -> float:
    return _gain(found, depth, failure) / found[PROCESS, depth, failure].n_tentative


def claims(found: Found, plan: ChainPlan) -> list[Claim]:
    """The claims of section 5.4.2."""
    short = [f for f in plan.failures if 10 <= f <= 30]
    constant = [_gain(found, d, f) / (d * D_S * RATE) for d in plan.depths for f in short]
    relative = [_relative(found, DEEPEST, f) for f in plan.failures]
    reconciling = [
        found[PROCESS, d, plan.standard].stable_again_s - plan.standard for d in plan.depths
    ]
    return [
        Claim(
            "Fig. 5-11: Delay gains a constant amount, proportional to the delay through the chain"
            " (gain / tuples of n D, lowest and highest)",
            constant,
            each(between(0.8, 1.4)),
            "constant and approximately proportional",
            shown=f"{min(constant):.2f}, {max(constant):.2f}",
        ),
        Claim(
            f"Fig. 5-11: the relative gain falls with the failure's duration {plan.failures} s"
            " (depth 4)",
            relative,
            never_rising(),
            "relative gains decrease",
            shown=listed(relative),
        ),
        Claim(
            "Fig. 5-12: reconciliation takes only slightly longer in a deep chain (deepest / one"
            " node)",
            reconciling[-1] / reconciling[0],
            between(1, 1.15),
            "only slightly",
        ),
        _long_failure(_relative(found, DEEPEST, LONG_S)),
    ]


def _long_failure(saved: float) -> Claim:
    return Claim(
        "Fig. 5-13: after a failure of 60 s delaying brings almost nothing at depth 4 (share of"
        " tentative tuples saved)",
        saved,
        at_most(0.05),
        "negligible, only the D of the last node",
        known_miss="a stable bucket supersedes tentative ones wherever it arrives, so the gain of"
        " delaying stays about n D: see the deviations",
    )


def tables(found: Found, plan: ChainPlan) -> list[Table]:
    """N_tentative, a table for each failure."""
    return [
        by_depth(f"N_tentative, failure of {f} s", (PROCESS, DELAY), found, plan, f, count)
        for f in plan.failures
    ]


def picture(found: Found, plan: ChainPlan) -> Picture:
    """The same as curves, a colour for each failure."""

    def curve(t: Technique, failure: int) -> Series:
        points = tuple((float(d), float(found[t, d, failure].n_tentative)) for d in plan.depths)
        colour = COLOURS[plan.failures.index(failure) % len(COLOURS)]
        name = f"{t.name.split(',')[0]}, {failure} s"
        return Series(name, points, colour=colour, dash="-" if t is PROCESS else DASHED)

    curves = [curve(t, f) for f in plan.failures for t in (PROCESS, DELAY)]
    title = "Figures 5-11, 5-13: N_tentative"
    return Picture("5-11", Plot(title, "nodes", "N_tentative (tuples)", curves))
