"""What a client receives during a failure (figure 5-4, section 5.2)."""

from __future__ import annotations

from australis.kernel.durations import MILLISECOND, SECOND
from australis.protocols.dpc.options import Deadline, Policy
from research.claims import Claim, Picture, Progress, Result, Table, own_claim
from research.plots import Plot, Series
from research.predicates import at_least, at_most, between, exactly, fields, none, within
from research.thesis_dpc.measure import Delivery, Heard, What, measure
from research.thesis_dpc.setting import FAILS_AT_US, SOURCES, Setting, disconnect
from research.thesis_dpc.strip import Strip, chart_text, squares, strip_text

X_S = 3.0
FAILURE_S = 20.0
RATE = 3000
"""The thesis' basic set-up (5.4); 5.2 gives no rate."""
BUCKET_US = 200 * MILLISECOND
PER_BUCKET = RATE * BUCKET_US // SECOND
PER_SQUARE = PER_BUCKET // len(SOURCES)


class DpcClient:
    """The strip and the latency, with one version of the node and with our two lanes."""

    name = "dpc-client"
    description = "What a client sees before, during and after a failure of 20 s."
    reproduces = "thesis figure 5-4"
    duration = "5 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """The thesis' run, then the same with our default policy."""
        progress("one node that suspends new tuples while it reconciles")
        single = measure(_setting(Policy.SUSPEND))
        progress("our two lanes")
        lanes = measure(_setting(Policy.PROCESS))
        kinds = list(squares(_shown(single), PER_SQUARE, len(SOURCES)))
        title = "Figure 5-4: what the client receives"
        return Result(
            (*_claims(single), _second_peak(single), _no_second_peak(lanes)),
            (_phases(single, lanes),),
            _DEVIATIONS,
            (
                Picture("strip", Strip(f"{title} (a square: {PER_SQUARE} tuples)", kinds)),
                Picture("latency", _latency(single, lanes)),
            ),
            (strip_text(kinds), _latency_text(single)),
        )


def _setting(stabilization: Policy) -> Setting:
    return Setting(
        RATE,
        int(X_S * SECOND),
        stabilization=stabilization,
        deadline=Deadline.END_TO_END,
        faults=(disconnect("s3", int(FAILURE_S * SECOND)),),
        bucket_us=BUCKET_US,
        ends_us=int((FAILURE_S + 20) * SECOND),
    )


def _shown(heard: Heard) -> list[Delivery]:
    """The deliveries from five seconds before the failure until a while after stabilization."""
    begin, end = FAILS_AT_US - 5 * SECOND, FAILS_AT_US + int((FAILURE_S + 12) * SECOND)
    return [d for d in heard.deliveries if begin <= d.at_us <= end]


# --- claims -------------------------------------------------------------------------------


def _tentative(heard: Heard) -> list[Delivery]:
    return [d for d in heard.deliveries if d.what is What.TENTATIVE]


def _claims(heard: Heard) -> list[Claim]:
    tentative = _tentative(heard)
    first = tentative[0]
    added = (heard.latency_us(first)) / SECOND - heard.normal_s
    before = [d for d in heard.deliveries if d.at_us < FAILS_AT_US]
    unstable = [d for d in before if d.what is not What.STABLE]
    healed = FAILS_AT_US + int(FAILURE_S * SECOND)
    during = [d for d in tentative if d.at_us < healed]
    share = 1 - sum(d.rows for d in during) / (len(during) * PER_BUCKET)
    return [
        Claim(
            "Before the failure everything is stable",
            {"stable": len(before) - len(unstable), "other": len(unstable)},
            fields(stable=at_least(1), other=exactly(0)),
            "stable",
            shown=f"{len(before)} buckets, {len(unstable)} not stable",
        ),
        Claim(
            "The node suspends, then gives tentative results after almost X = 3 s more (s)",
            added,
            between(0.8 * X_S, X_S),
            "almost 3",
        ),
        Claim(
            "A third of the tuples is missing during the failure",
            share,
            within(1 / 3, absolute=0.01),
            "a third",
        ),
        _replaced(heard),
    ]


def _replaced(heard: Heard) -> Claim:
    """UNDO, then every tentative bucket once as stable, then REC_DONE."""
    kinds = [d.what for d in heard.deliveries]
    told = {d.bucket for d in _tentative(heard)}
    wrong = []
    corrected: list[int] = []
    if not kinds.count(What.UNDO) == kinds.count(What.REC_DONE) == 1:
        wrong.append("not one UNDO and one REC_DONE")
    else:
        undo, done = kinds.index(What.UNDO), kinds.index(What.REC_DONE)
        inside = heard.deliveries[undo + 1 : done]
        corrected = [d.bucket for d in inside if d.bucket in told]
        if any(d.what is not What.STABLE for d in inside):
            wrong.append("not only stable tuples between")
        if sorted(corrected) != sorted(told):
            wrong.append("not each tentative bucket once")
        if heard.deliveries[undo].rows:
            wrong.append("an UNDO with rows")
    return Claim(
        "Tentative results are replaced by UNDO, stable corrections of all of them, REC_DONE",
        wrong,
        none(),
        "UNDO, corrections, REC_DONE",
        shown=f"{len(told)} tentative buckets, {len(corrected)} corrected between UNDO and REC_DONE",
    )


def _after_healing(heard: Heard) -> float:
    """The worst latency of a bucket that begins after the failure has healed."""
    healed = FAILS_AT_US + int(FAILURE_S * SECOND)
    return max(heard.latency_us(d) for d in heard.new(healed)) / SECOND


def _second_peak(heard: Heard) -> Claim:
    return Claim(
        "One version of the node: a second peak of the latency while it reconciles (peak / normal)",
        _after_healing(heard) / heard.normal_s,
        at_least(2),
        "a second peak",
    )


def _no_second_peak(lanes: Heard) -> Claim:
    """Our own claim: the tentative lane continues during stabilization."""
    worst = _after_healing(lanes) - lanes.normal_s
    return own_claim(
        "Our two lanes: no new tuple waits longer than X during reconciliation (added s)",
        worst,
        at_most(X_S, " s"),
    )


# --- tables and plots ----------------------------------------------------------------------


def _phases(single: Heard, lanes: Heard) -> Table:
    rows = [
        (name, h.normal_s, h.proc_new_s, _after_healing(h), h.n_tentative, h.stable_again_s)
        for name, h in (("one version, suspends", single), ("our two lanes", lanes))
    ]
    columns = (
        "node",
        "latency before (s)",
        "Proc_new (s)",
        "worst after healing (s)",
        "N_tentative",
        "stable again after (s)",
    )
    return Table("Latency and inconsistency", columns, tuple(rows))


def _points(heard: Heard, what: What) -> tuple[tuple[float, float], ...]:
    return tuple(
        (d.at_us / SECOND, heard.latency_us(d) / SECOND)
        for d in _shown(heard)
        if d.new and d.what is what
    )


def _latency(single: Heard, lanes: Heard) -> Plot:
    series = [
        Series("stable", _points(single, What.STABLE), True, "#4caf50"),
        Series("tentative", _points(single, What.TENTATIVE), True, "#e0a800"),
        Series("our lanes, tentative", _points(lanes, What.TENTATIVE), True, "#1f6fb4", 1.5),
    ]
    title = "Figure 5-4: latency of new tuples (one input cut from 10 to 30 s)"
    return Plot(title, "time received (s)", "latency (s)", series)


def _latency_text(heard: Heard) -> str:
    points = [*_points(heard, What.STABLE), *_points(heard, What.TENTATIVE)]
    return chart_text(points, "time received (s)", "latency of new tuples (s)")


_DEVIATIONS = (
    "The thesis shows every tuple of an unnamed rate; here a square stands for 200 tuples of the"
    " basic set-up's 3,000 tuples/s.",
    "Latency counts from the start of a bucket of 200 ms (its oldest tuple).",
    "The thesis' screenshots are of one version of the node, which suspends new tuples while it"
    " reconciles. That is one of our policies (STABILIZATION: suspend); by default our tentative"
    " lane goes on, and the second peak goes, at the price of more tentative tuples.",
)
EXPERIMENT = DpcClient()
