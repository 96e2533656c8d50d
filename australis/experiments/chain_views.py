"""The tables and plots of `dpc-chain`."""

from __future__ import annotations

from collections.abc import Callable

from australis.experiments.chain import (
    ARRIVAL,
    DEEPEST,
    DELAY,
    END_2,
    END_8,
    PROCESS,
    WHOLE,
    Found,
    Plan,
    Technique,
)
from australis.experiments.claims import Picture, Table, Value
from australis.experiments.measure import Heard
from australis.experiments.svg import COLOURS, Series, plot


def tables(found: Found, plan: Plan) -> tuple[Table, ...]:
    """All tables."""

    def latency(h: Heard) -> Value:
        return round(h.proc_new_s, 2)

    by_depth = (PROCESS, DELAY, END_2, END_8, ARRIVAL)
    at_depth = (PROCESS, DELAY, WHOLE, END_8)
    counts = [
        _by_depth(f"N_tentative, failure of {f} s", (PROCESS, DELAY), found, plan, f, _count)
        for f in plan.failures
    ]
    return (
        _by_depth(
            f"Figure 5-10: Proc_new (s), failure of {plan.standard} s",
            by_depth,
            found,
            plan,
            plan.standard,
            latency,
        ),
        *counts,
        _by_failure("Figure 5-14: Proc_new (s), depth 4", at_depth, found, plan, latency),
        _by_failure("Figure 5-15: N_tentative, depth 4", at_depth, found, plan, _count),
    )


def _count(h: Heard) -> Value:
    return h.n_tentative


def _by_depth(
    title: str,
    techniques: tuple[Technique, ...],
    found: Found,
    plan: Plan,
    failure: int,
    value: Callable[[Heard], Value],
) -> Table:
    rows = ((d, *(value(found[t, d, failure]) for t in techniques)) for d in plan.depths)
    return Table(title, ("nodes", *(t.name for t in techniques)), tuple(rows))


def _by_failure(
    title: str,
    techniques: tuple[Technique, ...],
    found: Found,
    plan: Plan,
    value: Callable[[Heard], Value],
) -> Table:
    rows = ((f, *(value(found[t, DEEPEST, f]) for t in techniques)) for f in plan.failures)
    return Table(title, ("failure (s)", *(t.name for t in techniques)), tuple(rows))


def pictures(found: Found, plan: Plan) -> tuple[Picture, ...]:
    """All plots."""

    def depth_curve(t: Technique) -> Series:
        return Series(
            t.name, tuple((d, found[t, d, plan.standard].proc_new_s) for d in plan.depths)
        )

    def count_curve(t: Technique, failure: int) -> Series:
        points = tuple((float(d), float(found[t, d, failure].n_tentative)) for d in plan.depths)
        colour = COLOURS[plan.failures.index(failure) % len(COLOURS)]
        dash = "" if t is PROCESS else "6 3"
        return Series(f"{t.name.split(',')[0]}, {failure} s", points, colour=colour, dash=dash)

    def failure_curve(t: Technique, of: str) -> Series:
        points = ((float(f), float(getattr(found[t, DEEPEST, f], of))) for f in plan.failures)
        return Series(t.name, tuple(points))

    latency = [depth_curve(t) for t in (PROCESS, DELAY, END_2, ARRIVAL)]
    counts = [count_curve(t, f) for f in plan.failures for t in (PROCESS, DELAY)]
    assigned = (PROCESS, DELAY, WHOLE, END_8)
    return (
        Picture(
            "5-10",
            plot(
                f"Figure 5-10: Proc_new, failure of {plan.standard} s",
                "nodes",
                "Proc_new (s)",
                latency,
            ),
        ),
        Picture(
            "5-11",
            plot(
                "Figures 5-11, 5-13: N_tentative",
                "nodes",
                "N_tentative (tuples)",
                counts,
                height=460,
            ),
        ),
        Picture(
            "5-14",
            plot(
                "Figure 5-14: Proc_new of four nodes",
                "failure (s)",
                "Proc_new (s)",
                [failure_curve(t, "proc_new_s") for t in assigned],
            ),
        ),
        Picture(
            "5-15",
            plot(
                "Figure 5-15: N_tentative of four nodes",
                "failure (s)",
                "N_tentative (tuples)",
                [failure_curve(t, "n_tentative") for t in assigned],
            ),
        ),
    )
