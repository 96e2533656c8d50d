"""Chains of replicated nodes, and how to divide the delay among them (figures 5-10 to 5-15)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from australis.experiments.claims import Claim, Picture, Progress, Result, Source, Table, Value
from australis.experiments.measure import Heard, measure_all
from australis.experiments.setting import BUCKET_US, FAILS_AT_US, Setting
from australis.experiments.svg import Series, plot
from australis.experiments.thesis import MutedSource, ThesisReplica
from australis.kernel.durations import SECOND
from australis.protocols.dpc.options import Deadline, Policy
from australis.protocols.dpc.replica import ReplicaMachine
from australis.sim.dpc.hosts import Costs

RATE = 500
D_S = 2.0
DEEPEST = 4
WHOLE_S = 6.5
"""What the thesis assigns to each SUnion instead of 8 s, "because queues start to form"."""
GRAIN = 2 * RATE * BUCKET_US // SECOND
"""Two buckets of tuples: no count is finer."""
COSTS = Costs(batch_us=1_000, bucket_us=500, row_us=250.0, sync_us=1_000)
"""The cost model of a chain: about eight times real time at 500 tuples/s.

The thesis gives no speed for its chains, only that a failure of 30 s is where reconciliation
begins to take longer than the delays through the chain: some seconds.
"""


@dataclass(frozen=True)
class Technique:
    """How the nodes of a chain delay their tuples."""

    name: str
    policy: Policy
    delay_s: float
    deadline: Deadline = Deadline.PER_NODE
    replica_class: type[ReplicaMachine] = ThesisReplica

    def setting(self, depth: int, failure_s: int) -> Setting:
        """A chain of this depth with a failure of this duration."""
        until_us = FAILS_AT_US + failure_s * SECOND
        return Setting(
            RATE,
            int(self.delay_s * SECOND),
            up_failure=self.policy,
            stabilization=self.policy,
            deadline=self.deadline,
            depth=depth,
            replicas=2,
            costs=COSTS,
            source=partial(MutedSource, which="s3", from_us=FAILS_AT_US, until_us=until_us),
            replica_class=self.replica_class,
            ends_us=(failure_s + 10) * SECOND,
        )


PROCESS = Technique("Process & Process, D = 2 s", Policy.PROCESS, D_S)
DELAY = Technique("Delay & Delay, D = 2 s", Policy.DELAY, D_S)
WHOLE = Technique("Process & Process, D = 6.5 s", Policy.PROCESS, WHOLE_S)
END_2 = Technique("end to end, X = 2 s", Policy.PROCESS, D_S, Deadline.END_TO_END, ReplicaMachine)
END_8 = Technique(
    "end to end, X = 8 s", Policy.PROCESS, D_S * DEEPEST, Deadline.END_TO_END, ReplicaMachine
)
ARRIVAL = Technique("D = 2 s from arrival", Policy.PROCESS, D_S, Deadline.PER_NODE, ReplicaMachine)

Cell = tuple[Technique, int, int]
"""A technique, a depth, and a failure's duration in seconds."""
Found = Mapping[Cell, Heard]


class DpcChain:
    """All figures of 5.4.2 and 5.4.3."""

    name = "dpc-chain"
    description = "Delays through chains of 1 to 4 replicated nodes."
    reproduces = "thesis figures 5-10 to 5-15"
    duration = "2 to 3 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run every combination once, then read all figures from it."""
        depths = (1, DEEPEST) if quick else (1, 2, 3, DEEPEST)
        failures = (5, 30) if quick else (5, 10, 15, 30, 60)
        cells = list(dict.fromkeys(_cells(depths, failures)))
        heard = measure_all([t.setting(d, f) for t, d, f in cells], progress, "chains")
        found = dict(zip(cells, heard, strict=True))
        return Result(
            (
                *_latency_claims(found, depths),
                *_consistency_claims(found, depths, failures),
                *_assignment_claims(found, depths, failures),
                *_end_to_end_claims(found, depths),
            ),
            _tables(found, depths, failures),
            _DEVIATIONS,
            _pictures(found, depths, failures),
        )


def _cells(depths: Iterable[int], failures: Iterable[int]) -> Iterable[Cell]:
    failures = tuple(failures)
    for depth in depths:
        for failure in failures:
            yield from ((PROCESS, depth, failure), (DELAY, depth, failure))
        yield from ((t, depth, 30) for t in (END_2, END_8, ARRIVAL))
        yield from ((t, depth, 5) for t in (WHOLE, END_8))
    for failure in failures:
        yield from ((t, DEEPEST, failure) for t in (WHOLE, END_8))


# --- claims -----------------------------------------------------------------------------------


def _latency(
    found: Found, technique: Technique, depths: Iterable[int], failure: int = 30
) -> list[float]:
    return [found[technique, d, failure].proc_new_s for d in depths]


def _said(values: Iterable[float]) -> str:
    return ", ".join(f"{v:.2f}" for v in values)


def _latency_claims(found: Found, depths: tuple[int, ...]) -> list[Claim]:
    """Figure 5-10, failures of 30 s."""
    process, delay = _latency(found, PROCESS, depths), _latency(found, DELAY, depths)
    normal = found[PROCESS, 1, 30].normal_s
    per_node = [
        (b - a) / (d2 - d1)
        for a, b, d1, d2 in zip(delay, delay[1:], depths, depths[1:], strict=False)
    ]
    met = all(
        v <= D_S * d + normal + 0.1 * d
        for vs in (process, delay)
        for v, d in zip(vs, depths, strict=True)
    )
    return [
        Claim(
            f"Fig. 5-10: both meet 2n s plus the normal latency at depths {depths} (Process; Delay, s)",
            f"{_said(process)}; {_said(delay)}",
            met,
            "both meet 2n s",
            tolerance=f"2n + {normal:.2f} + 0.1 a node",
        ),
        Claim(
            "Fig. 5-10: Process & Process stays close to one node's delay (deepest / one node)",
            round(process[-1] / process[0], 3),
            process[-1] / process[0] <= 1.25,
            "closer to that of a single node",
            tolerance="≤ 1.25",
        ),
        Claim(
            "Fig. 5-10: Delay & Delay grows by D with every node (s a node)",
            round(min(per_node), 3),
            all(abs(step - D_S) <= 0.2 for step in per_node),
            "by a fixed amount",
            tolerance="2 ± 0.2 each",
        ),
    ]


def _gain(found: Found, depth: int, failure: int) -> int:
    """How many tentative tuples fewer Delay & Delay gives than Process & Process."""
    return found[PROCESS, depth, failure].n_tentative - found[DELAY, depth, failure].n_tentative


def _relative(found: Found, depth: int, failure: int) -> float:
    return _gain(found, depth, failure) / found[PROCESS, depth, failure].n_tentative


def _consistency_claims(
    found: Found, depths: tuple[int, ...], failures: tuple[int, ...]
) -> list[Claim]:
    """Figures 5-11 and 5-13."""
    short = [f for f in failures if 10 <= f <= 30]
    longest = failures[-1]
    constant = [_gain(found, d, f) / (d * D_S * RATE) for d in depths for f in short]
    relative = [_relative(found, DEEPEST, f) for f in failures]
    reconciling = [found[PROCESS, d, 30].stable_again_s - 30 for d in depths]
    return [
        Claim(
            "Fig. 5-11: Delay gains a constant amount, proportional to the delay through the chain"
            " (gain / tuples of n D, lowest and highest)",
            f"{min(constant):.2f}, {max(constant):.2f}",
            min(constant) > 0.8 and max(constant) < 1.4,
            "constant and approximately proportional",
            tolerance="0.8 to 1.4",
        ),
        Claim(
            f"Fig. 5-11: the relative gain falls with the failure's duration {failures} s (depth 4)",
            _said(relative),
            relative == sorted(relative, reverse=True),
            "relative gains decrease",
        ),
        Claim(
            "Fig. 5-12: reconciliation takes only slightly longer in a deep chain (deepest / one"
            " node, 30 s failure)",
            round(reconciling[-1] / reconciling[0], 3),
            1 <= reconciling[-1] / reconciling[0] <= 1.15,
            "only slightly",
            tolerance="1 to 1.15",
        ),
        *([_long_failure(relative[-1])] if longest >= 60 else []),
    ]


def _long_failure(saved: float) -> Claim:
    """Figure 5-13."""
    return Claim(
        "Fig. 5-13: after a failure of 60 s delaying brings almost nothing at depth 4 (share of"
        " tentative tuples saved)",
        round(saved, 3),
        saved <= 0.05,
        "negligible, only the D of the last node",
        tolerance="≤ 0.05",
    )


def _assignment_claims(
    found: Found, depths: tuple[int, ...], failures: tuple[int, ...]
) -> list[Claim]:
    """Figures 5-14 and 5-15."""
    masked = [found[WHOLE, d, 5].n_tentative for d in depths]
    late = max(found[WHOLE, DEEPEST, f].proc_new_s for f in failures)
    three = (PROCESS, DELAY, WHOLE)
    masking = [t.name for t in three if found[t, DEEPEST, 5].n_tentative == 0]
    total = D_S * DEEPEST
    long = [f for f in failures if f >= 15]
    extra = max(
        found[WHOLE, DEEPEST, f].n_tentative / found[PROCESS, DEEPEST, f].n_tentative for f in long
    )
    return [
        Claim(
            f"Fig. 5-15: with D = 6.5 s at each SUnion a failure of 5 s gives no tentative tuple at"
            f" depths {depths}",
            max(masked),
            max(masked) == 0,
            0,
            tolerance="exact",
        ),
        Claim(
            "Fig. 5-15: of the three it is the only one to do so at depth 4 (those that do)",
            "; ".join(masking),
            masking == [WHOLE.name],
            "the only technique",
            tolerance="exact",
        ),
        Claim(
            "Fig. 5-14: the whole delay at each SUnion meets 8 s for every failure at depth 4"
            " (worst Proc_new, s)",
            round(late, 2),
            late <= total,
            f"≤ {total:g}",
            tolerance=f"≤ {total:g} s",
        ),
        Claim(
            "Fig. 5-15: and performs as well as Process & Process for longer failures"
            " (tentative tuples, ratio)",
            round(extra, 3),
            extra <= 1.1,
            "as well as the other approaches",
            tolerance="≤ 1.1",
        ),
    ]


def _end_to_end_claims(found: Found, depths: tuple[int, ...]) -> list[Claim]:
    """Our deadline, which travels with the bucket; the thesis leaves it for future work."""
    ours = [
        (x, d, found[t, d, 30].proc_new_s - found[t, d, 30].normal_s)
        for x, t in ((D_S, END_2), (D_S * DEEPEST, END_8))
        for d in depths
    ]
    arrival = _latency(found, ARRIVAL, depths)
    masked = max(found[END_8, d, 5].n_tentative for d in depths)
    return [
        Claim(
            "Ours: an end-to-end deadline adds at most X at any depth (X, worst added s)",
            "; ".join(
                f"{x:g}: {max(a for x2, _, a in ours if x2 == x):.2f}" for x in (D_S, D_S * DEEPEST)
            ),
            all(added <= x for x, _, added in ours),
            None,
            Source.UNAVAILABLE,
            "≤ X",
        ),
        Claim(
            "Ours: and with X = 8 s a failure of 5 s gives no tentative tuple at any depth",
            masked,
            masked == 0,
            None,
            Source.UNAVAILABLE,
            "exact",
        ),
        Claim(
            f"Ours: D from arrival at each node adds up instead (Proc_new at depths {depths}, s)",
            _said(arrival),
            arrival[-1] >= 0.9 * D_S * DEEPEST,
            None,
            Source.UNAVAILABLE,
            f"≥ 0.9 · {DEEPEST} · D",
        ),
    ]


# --- tables and plots ---------------------------------------------------------------------------


def _tables(found: Found, depths: tuple[int, ...], failures: tuple[int, ...]) -> tuple[Table, ...]:
    def latency(h: Heard) -> Value:
        return round(h.proc_new_s, 2)

    by_depth = (PROCESS, DELAY, END_2, END_8, ARRIVAL)
    at_depth = (PROCESS, DELAY, WHOLE, END_8)
    counts = [
        _by_depth(f"N_tentative, failure of {f} s", (PROCESS, DELAY), found, depths, f, _count)
        for f in failures
    ]
    return (
        _by_depth(
            "Figure 5-10: Proc_new (s), failure of 30 s", by_depth, found, depths, 30, latency
        ),
        *counts,
        _by_failure("Figure 5-14: Proc_new (s), depth 4", at_depth, found, failures, latency),
        _by_failure("Figure 5-15: N_tentative, depth 4", at_depth, found, failures, _count),
    )


def _count(h: Heard) -> Value:
    return h.n_tentative


def _by_depth(
    title: str,
    techniques: tuple[Technique, ...],
    found: Found,
    depths: tuple[int, ...],
    failure: int,
    value: Callable[[Heard], Value],
) -> Table:
    rows = ((d, *(value(found[t, d, failure]) for t in techniques)) for d in depths)
    return Table(title, ("nodes", *(t.name for t in techniques)), tuple(rows))


def _by_failure(
    title: str,
    techniques: tuple[Technique, ...],
    found: Found,
    failures: tuple[int, ...],
    value: Callable[[Heard], Value],
) -> Table:
    rows = ((f, *(value(found[t, DEEPEST, f]) for t in techniques)) for f in failures)
    return Table(title, ("failure (s)", *(t.name for t in techniques)), tuple(rows))


def _pictures(
    found: Found, depths: tuple[int, ...], failures: tuple[int, ...]
) -> tuple[Picture, ...]:
    def depth_curve(t: Technique) -> Series:
        return Series(t.name, tuple((d, found[t, d, 30].proc_new_s) for d in depths))

    def count_curve(t: Technique, failure: int) -> Series:
        points = tuple((float(d), float(found[t, d, failure].n_tentative)) for d in depths)
        return Series(f"{t.name.split(',')[0]}, {failure} s", points)

    def failure_curve(t: Technique, of: str) -> Series:
        points = ((float(f), float(getattr(found[t, DEEPEST, f], of))) for f in failures)
        return Series(t.name, tuple(points))

    latency = [depth_curve(t) for t in (PROCESS, DELAY, END_2, ARRIVAL)]
    counts = [count_curve(t, f) for f in failures for t in (PROCESS, DELAY)]
    assigned = (PROCESS, DELAY, WHOLE, END_8)
    return (
        Picture(
            "5-10",
            plot("Figure 5-10: Proc_new, failure of 30 s", "nodes", "Proc_new (s)", latency),
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


_DEVIATIONS = (
    "The thesis' failure: one input stops producing boundaries but keeps sending tuples, so that"
    " the output rate stays the same. In our system a bucket leaves a source together with its"
    " boundary; a stand-in (MutedSource in experiments/thesis.py) sends its buckets tentatively"
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
    "Replicas reconcile in place, each with two lanes, not in turns.",
)
EXPERIMENT = DpcChain()
