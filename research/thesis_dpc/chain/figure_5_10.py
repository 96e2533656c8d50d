"""Figure 5-10: how late new tuples are, by the depth of the chain."""

from __future__ import annotations

from research.claims import Claim, Picture, Table, steps
from research.plots import Plot, Series
from research.predicates import at_most, each, within
from research.thesis_dpc.chain.charts import by_depth, latencies, latency, listed
from research.thesis_dpc.chain.techniques import (
    ARRIVAL,
    D_S,
    DELAY,
    END_2,
    END_8,
    IN_TURN,
    PROCESS,
    ChainPlan,
    Found,
)

PER_NODE_S = 0.1
"""The delay that a node may add beside its own delay D."""


def claims(found: Found, plan: ChainPlan) -> list[Claim]:
    """The claims of section 5.4.2."""
    process, delay = latencies(found, PROCESS, plan), latencies(found, DELAY, plan)
    normal = found[PROCESS, 1, plan.standard].normal_s
    over = [
        (v - normal) / d - D_S
        for vs in (process, delay)
        for v, d in zip(vs, plan.depths, strict=True)
    ]
    per_node = [more / n for more, n in zip(steps(delay), steps(plan.depths), strict=True)]
    return [
        Claim(
            f"Fig. 5-10: both meet 2n s plus the normal latency ({normal:.2f} s) at depths"
            f" {plan.depths} (Process; Delay, s; tolerated: more for each node)",
            over,
            each(at_most(PER_NODE_S, " s")),
            "both meet 2n s",
            shown=f"{listed(process)}; {listed(delay)}",
        ),
        Claim(
            "Fig. 5-10: Process & Process stays close to one node's delay (deepest / one node)",
            process[-1] / process[0],
            at_most(1.25),
            "closer to that of a single node",
        ),
        Claim(
            "Fig. 5-10: Delay & Delay grows by D with every node (s a node)",
            per_node,
            each(within(D_S, absolute=0.2)),
            "by a fixed amount",
            shown=round(min(per_node), 3),
        ),
    ]


def table(found: Found, plan: ChainPlan) -> Table:
    """Proc_new of all techniques."""
    techniques = (PROCESS, DELAY, END_2, END_8, ARRIVAL, IN_TURN)
    title = f"Figure 5-10: Proc_new (s), failure of {plan.standard} s"
    return by_depth(title, techniques, found, plan, plan.standard, latency)


def picture(found: Found, plan: ChainPlan) -> Picture:
    """The same as curves."""
    curves = [
        Series(t.name, tuple(zip(map(float, plan.depths), latencies(found, t, plan), strict=True)))
        for t in (PROCESS, DELAY, END_2, ARRIVAL)
    ]
    title = f"Figure 5-10: Proc_new, failure of {plan.standard} s"
    return Picture("5-10", Plot(title, "nodes", "Proc_new (s)", curves))
