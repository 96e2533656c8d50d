"""The thresholds of load management, each changed alone."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from research.claims import Table, Value
from research.synergy.runs import outcome


@dataclass(frozen=True)
class Means:
    """Means over some seeds."""

    delay_s: float
    moved: float
    messages: float


def means(settings: dict[str, float], seeds: range, churn: float = 0.0) -> Means:
    runs = [outcome(seed, churn=churn, **settings) for seed in seeds]  # type: ignore[arg-type]
    return Means(
        fmean(fmean(run.delays_s) for run in runs),
        fmean(run.moved for run in runs),
        fmean(run.migration_messages + run.updates for run in runs),
    )


def sensitive_table(found: dict[tuple[str, float], Means]) -> Table:
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (f"{name} = {value:g}", round(one.delay_s, 2), round(one.moved, 1), round(one.messages))
        for (name, value), one in found.items()
    )
    columns = ("threshold", "mean delay (s)", "components moved", "messages for it")
    return Table("Thresholds, each changed alone (h = 2, l = 0.2, t = 1 min)", columns, rows)
