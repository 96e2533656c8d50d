"""Tables and curves over depths and over failures, which the figures share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from research.claims import Table, Value
from research.plots import Series
from research.thesis_dpc.chain.techniques import DEEPEST, ChainPlan, Found, Technique
from research.thesis_dpc.measure import Heard


def count(h: Heard) -> Value:
    """N_tentative."""
    return h.n_tentative


def latency(h: Heard) -> Value:
    """Proc_new in seconds."""
    return round(h.proc_new_s, 2)


def latencies(found: Found, technique: Technique, plan: ChainPlan) -> list[float]:
    """Proc_new by depth, with the standard failure."""
    return [found[technique, d, plan.standard].proc_new_s for d in plan.depths]


def listed(values: Iterable[float]) -> str:
    """Some numbers in one cell."""
    return ", ".join(f"{v:.2f}" for v in values)


def by_depth(
    title: str,
    techniques: tuple[Technique, ...],
    found: Found,
    plan: ChainPlan,
    failure: int,
    value: Callable[[Heard], Value],
) -> Table:
    """A row for each depth."""
    rows = ((d, *(value(found[t, d, failure]) for t in techniques)) for d in plan.depths)
    return Table(title, ("nodes", *(t.name for t in techniques)), tuple(rows))


def by_failure(
    title: str,
    techniques: tuple[Technique, ...],
    found: Found,
    plan: ChainPlan,
    value: Callable[[Heard], Value],
) -> Table:
    """A row for each failure, at the largest depth."""
    rows = ((f, *(value(found[t, DEEPEST, f]) for t in techniques)) for f in plan.failures)
    return Table(title, ("failure (s)", *(t.name for t in techniques)), tuple(rows))


def failure_curves(
    techniques: tuple[Technique, ...], found: Found, plan: ChainPlan, of: str
) -> list[Series]:
    """A curve over failures for each technique, at the largest depth."""
    return [
        Series(
            t.name,
            tuple((float(f), float(getattr(found[t, DEEPEST, f], of))) for f in plan.failures),
        )
        for t in techniques
    ]
