"""Figure 5-18: what each technique costs while nothing fails."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import correlation

from research.claims import Claim, Picture, Source, Table
from research.plots import Plot, Series
from research.predicates import above, at_least
from research.thesis_dpc.reconcile.trials import INTERVAL_S, Overhead


def claims(running: Mapping[int, Overhead]) -> list[Claim]:
    """The claims of section 5.5.2."""
    sizes = [float(s) for s in running]
    return [
        Claim(
            "Fig. 5-18: periodic checkpoints cost more CPU than stream markers at every state size"
            " (ratio, lowest)",
            min(o.checkpoints / o.markers for o in running.values()),
            above(1),
            "checkpoints are more expensive",
        ),
        Claim(
            "Fig. 5-18: the cost of checkpoints grows with the state (correlation)",
            correlation(sizes, [o.checkpoints for o in running.values()]),
            at_least(0.95),
            "S p_copy / l",
            Source.TABLE,
        ),
    ]


def table(running: Mapping[int, Overhead], rate: int) -> Table:
    """CPU time by the size of the state."""
    rows = [
        (s, *(round(1000 * v, 3) for v in (o.checkpoints, o.markers, o.processing)))
        for s, o in running.items()
    ]
    columns = ("state", "checkpoints", "stream markers", "processing itself")
    title = f"Figure 5-18: CPU (ms) a second of stream at {rate} tuples/s, every {INTERVAL_S:g} s"
    return Table(title, columns, tuple(rows))


def picture(running: Mapping[int, Overhead]) -> Picture:
    """The same as curves."""
    curves = [
        Series(name, tuple((s, 1000 * getattr(o, of)) for s, o in running.items()))
        for name, of in (("checkpoints", "checkpoints"), ("stream markers", "markers"))
    ]
    cpu = "CPU (ms) a second of stream"
    return Picture("5-18", Plot("Figure 5-18: CPU overhead", "state (tuples)", cpu, curves))
