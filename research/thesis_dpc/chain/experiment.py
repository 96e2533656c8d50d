"""Chains of replicated nodes, and how to divide the delay among them (figures 5-10 to 5-15)."""

from __future__ import annotations

from research.claims import Progress, Result
from research.thesis_dpc.chain import end_to_end, figure_5_10, figure_5_11, figure_5_14
from research.thesis_dpc.chain.techniques import FULL, QUICK, cells
from research.thesis_dpc.measure import measure_all


class DpcChain:
    """All figures of 5.4.2 and 5.4.3."""

    name = "dpc-chain"
    description = "Delays through chains of 1 to 4 replicated nodes."
    reproduces = "thesis figures 5-10 to 5-15"
    duration = "1 to 3 min, quick 30 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run every combination once, then read all figures from it."""
        plan = QUICK if quick else FULL
        runs = list(dict.fromkeys(cells(plan)))
        heard = measure_all([t.setting(d, f) for t, d, f in runs], progress, "chains")
        found = dict(zip(runs, heard, strict=True))
        figures = figure_5_10, figure_5_11, figure_5_14, end_to_end
        return Result(
            tuple(claim for figure in figures for claim in figure.claims(found, plan)),
            (
                figure_5_10.table(found, plan),
                *figure_5_11.tables(found, plan),
                *figure_5_14.tables(found, plan),
            ),
            _DEVIATIONS,
            (
                figure_5_10.picture(found, plan),
                figure_5_11.picture(found, plan),
                *figure_5_14.pictures(found, plan),
            ),
        )


_DEVIATIONS = (
    "The thesis' failure: one input stops producing boundaries but keeps sending tuples, so that"
    " the output rate stays the same. In our system a bucket leaves a source together with its"
    " boundary; a stand-in (MutedSource in thesis_dpc/replicas.py) sends its buckets tentatively"
    " during the failure, says UP_FAILURE, and serves its log again afterwards.",
    "Fixed delays D are those of the thesis (ThesisReplica): D counts from arrival, but a node that"
    " processes tuples as they arrive suspends once, for D since boundaries stopped, which all"
    " nodes notice at the same time. Deadline.PER_NODE of australis/protocols counts from arrival"
    " only, so that D adds up along the chain; it stands beside them as 'D from arrival'.",
    "Long failures (figure 5-13): the gain of delaying stays about n D at every depth, and does so"
    " with slower reprocessing too. The thesis' replica that stays in UP_FAILURE puts out the most"
    " recent corrected tuples as tentative until its partner has caught up with current execution,"
    " which eats up all but the last node's D. Here a stable bucket supersedes the overlay wherever"
    " it arrives, and a node is done once its log has passed what it had said tentatively: what the"
    " chain holds back is never said tentatively at all. For the same reason Delay & Delay with"
    " D = 2 s masks a failure of 5 s at depth 4 as well (figure 5-15).",
    "The cost model makes reprocessing about eight times as fast as real time; the thesis gives no"
    " value. Runs are not averaged: their only chance is the jitter of the network, far below the"
    " bucket of 100 ms in which everything is counted.",
    "Replicas reconcile in place, each with two lanes, except in the runs 'in turn', which follow"
    " 4.7.3; the two claims about those were written after a first run. A checker of the simulated"
    " world watches that two never have their turn at once.",
)
EXPERIMENT = DpcChain()
