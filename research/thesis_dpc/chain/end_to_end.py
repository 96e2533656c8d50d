"""Our deadline, which travels with the bucket; the thesis leaves it for future work."""

from __future__ import annotations

from research.claims import Claim, own_claim
from research.predicates import at_least, at_most, exactly, fields
from research.thesis_dpc.chain.charts import latencies, listed
from research.thesis_dpc.chain.techniques import (
    ARRIVAL,
    D_S,
    DEEPEST,
    END_2,
    END_8,
    IN_TURN,
    LONG_S,
    Cell,
    ChainPlan,
    Found,
    Technique,
)

TOTAL_S = D_S * DEEPEST


def claims(found: Found, plan: ChainPlan) -> list[Claim]:
    """The claims for an end-to-end deadline, beside one that counts from arrival."""

    def added(technique: Technique, *more: Cell) -> float:
        cells = [*((technique, d, plan.standard) for d in plan.depths), *more]
        return max(found[cell].proc_new_s - found[cell].normal_s for cell in cells)

    again = [found[t, DEEPEST, LONG_S].stable_again_s for t in (IN_TURN, END_2)]
    arrival = latencies(found, ARRIVAL, plan)
    return [
        own_claim(
            "Ours: an end-to-end deadline adds at most X at any depth (worst added s, by X)",
            {"X = 2 s": added(END_2), "X = 8 s": added(END_8)},
            fields(**{"X = 2 s": at_most(D_S), "X = 8 s": at_most(TOTAL_S)}),
        ),
        own_claim(
            "Ours: and with X = 8 s a failure of 5 s gives no tentative tuple at any depth",
            max(found[END_8, d, 5].n_tentative for d in plan.depths),
            exactly(0),
        ),
        own_claim(
            f"Ours: D from arrival at each node adds up instead (Proc_new at depths {plan.depths},"
            " s; tolerated: at the last one)",
            arrival[-1],
            at_least(0.9 * TOTAL_S),
            shown=listed(arrival),
        ),
        own_claim(
            "Ours: replicas that reconcile in turn add at most X too, also after a failure of"
            f" {LONG_S} s at depth {DEEPEST} (worst added s)",
            added(IN_TURN, (IN_TURN, DEEPEST, LONG_S)),
            at_most(D_S),
        ),
        own_claim(
            "Ours: and after that failure everything is stable no later than where each has two"
            " lanes at once (ratio)",
            again[0] / again[1],
            at_most(1),
        ),
    ]
