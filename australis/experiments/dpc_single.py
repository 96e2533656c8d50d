"""Availability and consistency of one node (figures 5-7 and 5-8, section 5.4.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import correlation, linear_regression

from australis.experiments.claims import Claim, Picture, Progress, Result, Table, Value, at_least
from australis.experiments.measure import Heard, measure_all
from australis.experiments.setting import BUCKET_US, Setting, disconnect
from australis.experiments.svg import Series, plot
from australis.experiments.thesis import ThesisReplica
from australis.experiments.versions import TwoVersions, VersionedReplica
from australis.kernel.durations import SECOND
from australis.protocols.dpc.options import Policy

FAILURE_S = 5.0
RATE_5_7 = 3000
RATE_5_8 = 4500
DELAY_5_8_S = 2.7
BOUND_S = 3.0
"""Proc_new below this means Delay_new below X (5.4.1)."""
VIABLE = ("Process & Process", "Process & Delay", "Delay & Process", "Delay & Delay")
SUSPENDING = ("Process & Suspend", "Delay & Suspend")
NOISE = 2 * RATE_5_8 * BUCKET_US // SECOND
"""Two buckets of tuples: no count is finer than a bucket at either end of a failure."""

Key = tuple[str, float]
"""A combination of policies, and D or a failure's duration in seconds."""


class DpcSingle:
    """Both figures."""

    name = "dpc-single"
    description = "Suspend, delay or process new tuples on one node."
    reproduces = "thesis figures 5-7 and 5-8"
    duration = "1 to 2 min, quick 10 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Both figures, then figure 5-8 on a node of ours."""
        delays = (0.5, 2.0, 4.0, 4.9, 5.5) if quick else tuple(d / 2 for d in range(1, 13))
        lasts = (2, 4, 8, 10) if quick else (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 60)
        by_delay = _figure_5_7(delays, progress)
        two = _figure_5_8(map(float, lasts), progress, ours=False)
        one = _figure_5_8(map(float, lasts), progress, ours=True)
        return Result(
            (*_claims_5_7(by_delay), *_claims_5_8(two), *_claims_ours(one)),
            (
                *_tables("Figure 5-7, 5 s failure", "D (s)", by_delay),
                *_tables("Figure 5-8, two versions of the node", "failure (s)", two),
                *_tables("Figure 5-8 on our node, two lanes on one CPU", "failure (s)", one),
            ),
            _DEVIATIONS,
            (*_pictures("5-7", "D (s)", by_delay), *_pictures("5-8", "failure (s)", two)),
        )


# --- running ----------------------------------------------------------------------------


def _figure_5_7(delays: Iterable[float], progress: Progress) -> dict[Key, Heard]:
    keys = [(p, d) for p in (Policy.PROCESS, Policy.DELAY) for d in delays]
    settings = [
        Setting(
            RATE_5_7,
            int(d * SECOND),
            up_failure=p,
            stabilization=p,
            faults=(disconnect("s3", int(FAILURE_S * SECOND)),),
            ends_us=15 * SECOND,
            replica_class=VersionedReplica,
            replica_host=TwoVersions,
        )
        for p, d in keys
    ]
    found = measure_all(settings, progress, "figure 5-7")
    return {(p.value.title(), d): h for (p, d), h in zip(keys, found, strict=True)}


def _figure_5_8(lasts: Iterable[float], progress: Progress, *, ours: bool) -> dict[Key, Heard]:
    policies = (Policy.PROCESS, Policy.DELAY)
    keys = [(u, s, f) for f in lasts for u in policies for s in Policy]
    settings = [_setting_5_8(u, s, f, ours) for u, s, f in keys]
    found = measure_all(settings, progress, "figure 5-8, our node" if ours else "figure 5-8")
    return {(_name(u, s), f): h for (u, s, f), h in zip(keys, found, strict=True)}


def _setting_5_8(up: Policy, stabilization: Policy, lasts_s: float, ours: bool) -> Setting:
    setting = Setting(
        RATE_5_8,
        int(DELAY_5_8_S * SECOND),
        up_failure=up,
        stabilization=stabilization,
        faults=(disconnect("s3", int(lasts_s * SECOND)),),
        ends_us=int((lasts_s + 5) * SECOND),
        replica_class=ThesisReplica,
    )
    return (
        setting if ours else setting.with_(replica_class=VersionedReplica, replica_host=TwoVersions)
    )


def _name(up: Policy, stabilization: Policy) -> str:
    return f"{up.value.title()} & {stabilization.value.title()}"


# --- claims -------------------------------------------------------------------------------


def _claims_5_7(found: Mapping[Key, Heard]) -> list[Claim]:
    counts = {k: h.n_tentative for k, h in found.items()}
    delays = sorted({d for _, d in found})
    small = [counts["Process", d] for d in delays if d <= 4]
    masked = [counts[p, d] for p in ("Process", "Delay") for d in delays if d > FAILURE_S]
    worse = [d for d in delays if counts["Delay", d] > counts["Process", d]]
    return [
        Claim(
            "Fig. 5-7: Delay gives no more tentative tuples than Process, for every D",
            "all D" if not worse else f"not for D = {worse}",
            not worse,
            "Delay is better",
        ),
        at_least(
            "Fig. 5-7: N_tentative with Process is a step function: nearly constant for"
            " D ≤ 4 s (lowest / highest)",
            min(small) / max(small),
            0.9,
            paper="almost proportional to the failure duration for D ≤ 4 s",
        ),
        Claim(
            "Fig. 5-7: and no tentative tuple once D is longer than the failure",
            max(masked),
            max(masked) == 0,
            0,
            tolerance="exact",
        ),
        *_linear_in_delay(counts, found, [d for d in delays if d < FAILURE_S]),
    ]


def _linear_in_delay(
    counts: Mapping[Key, int], found: Mapping[Key, Heard], delays: list[float]
) -> list[Claim]:
    fall = [float(counts["Delay", d]) for d in delays]
    claims = [
        at_least(
            "Fig. 5-7: N_tentative with Delay falls proportionally to D (-correlation, D < 5 s)",
            -correlation(delays, fall),
            0.99,
            paper="proportionally to D",
        )
    ]
    for policy in ("Process", "Delay"):
        late = [found[policy, d].proc_new_s for d in delays]
        slope = linear_regression(delays, late).slope
        claims.append(
            Claim(
                f"Fig. 5-7: Proc_new grows linearly with D ({policy}: seconds per second of D)",
                round(slope, 3),
                abs(slope - 1) <= 0.1 and correlation(delays, late) >= 0.99,
                "approximately linearly",
                tolerance="1 ± 0.1, correlation ≥ 0.99",
            )
        )
    return claims


def _claims_5_8(found: Mapping[Key, Heard]) -> list[Claim]:
    return [
        *_availability(found, "Fig. 5-8"),
        _suspend_viable(found),
        _always_late(found),
        _short_masked(found),
        _fewest(found, "Fig. 5-8: Delay & Delay gives the fewest tentative tuples of the four"),
        _most(found),
        _beats_suspend(found),
    ]


def _availability(found: Mapping[Key, Heard], where: str) -> list[Claim]:
    return [
        Claim(
            f"{where}: {name} keeps Proc_new under {BOUND_S:g} s for every failure (worst)",
            round(worst, 3),
            worst < BOUND_S,
            f"< {BOUND_S:g}",
            tolerance=f"< {BOUND_S:g} s",
        )
        for name in VIABLE
        for worst in [max(h.proc_new_s for (n, _), h in found.items() if n == name)]
    ]


def _late(found: Mapping[Key, Heard], name: str) -> list[float]:
    """The failures for which a combination breaks the bound."""
    return sorted(f for (n, f), h in found.items() if n == name and h.proc_new_s >= BOUND_S)


def _suspend_viable(found: Mapping[Key, Heard]) -> Claim:
    """Process & Suspend breaks the bound exactly where reconciliation takes longer than D."""
    late = set(_late(found, "Process & Suspend"))
    slack = BOUND_S - DELAY_5_8_S
    longer = {
        f
        for (n, f), h in found.items()
        if n == "Process & Suspend" and h.stable_again_s - f > DELAY_5_8_S + slack
    }
    return Claim(
        "Fig. 5-8: Process & Suspend breaks the bound just where reconciliation is longer"
        " than D (shortest such failure, s)",
        min(late, default=None),
        late == longer and bool(late) and 7 <= min(late) <= 10,
        "around 8",
        tolerance="7 to 10; the model's speed is calibrated on it",
    )


def _always_late(found: Mapping[Key, Heard]) -> Claim:
    failures = sorted({f for _, f in found if f > DELAY_5_8_S + 1})
    late = _late(found, "Delay & Suspend")
    return Claim(
        "Fig. 5-8: Delay & Suspend breaks the bound for every failure longer than D",
        f"{len(late)} of {len(failures)} failures",
        set(failures) <= set(late),
        "unviable",
    )


def _short_masked(found: Mapping[Key, Heard]) -> Claim:
    most = max(h.n_tentative for (_, f), h in found.items() if f < DELAY_5_8_S)
    text = "Fig. 5-8: no combination has a tentative tuple for a failure shorter than D"
    return Claim(text, most, most == 0, 0, tolerance="exact")


def _fewest(found: Mapping[Key, Heard], text: str) -> Claim:
    """Of the combinations that are in time, up to the grain of a bucket at each end."""
    excess = {
        f: found["Delay & Delay", f].n_tentative
        - min(found[name, f].n_tentative for name in VIABLE)
        for f in sorted({f for _, f in found})
    }
    worst = max(excess, key=lambda f: excess[f])
    ours = f"at most {excess[worst]:,} more than another (failure of {worst:g} s)"
    return Claim(text, ours, excess[worst] <= NOISE, "fewest", tolerance=f"{NOISE} tuples")


def _most(found: Mapping[Key, Heard]) -> Claim:
    """Process & Process against all others that are in time."""
    short = [
        f
        for f in sorted({f for _, f in found})
        if found["Process & Process", f].n_tentative
        < max(found[name, f].n_tentative for name in VIABLE) - NOISE
    ]
    return Claim(
        "Fig. 5-8: Process & Process gives the most",
        "all failures" if not short else f"not for {short} s",
        not short,
        "the most",
        tolerance=f"{NOISE} tuples",
    )


def _beats_suspend(found: Mapping[Key, Heard]) -> Claim:
    """Delay & Delay against Process & Suspend, where that one is in time."""
    late = set(_late(found, "Process & Suspend"))
    viable = [f for f in sorted({f for _, f in found}) if f not in late]
    over = max(
        found["Delay & Delay", f].n_tentative - found["Process & Suspend", f].n_tentative
        for f in viable
    )
    return Claim(
        "Fig. 5-8: Delay & Delay is equivalent to or better than Process & Suspend where that"
        " one is in time (tentative tuples more)",
        over,
        over <= NOISE,
        "equivalent or better",
        tolerance=f"{NOISE} tuples",
    )


def _claims_ours(found: Mapping[Key, Heard]) -> list[Claim]:
    return [
        *_availability(found, "Our node"),
        _fewest(found, "Our node: Delay & Delay gives the fewest tentative tuples of the four"),
    ]


# --- tables and plots ----------------------------------------------------------------------


def _tables(title: str, what: str, found: Mapping[Key, Heard]) -> list[Table]:
    return [
        _table(f"{title}: N_tentative", what, found, lambda h: h.n_tentative),
        _table(f"{title}: Proc_new (s)", what, found, lambda h: round(h.proc_new_s, 2)),
    ]


def _table(
    title: str, what: str, found: Mapping[Key, Heard], value: Callable[[Heard], Value]
) -> Table:
    names = list(dict.fromkeys(n for n, _ in found))
    rows = ((x, *(value(found[n, x]) for n in names)) for x in sorted({x for _, x in found}))
    return Table(title, (what, *names), tuple(rows))


def _pictures(figure: str, x_label: str, found: Mapping[Key, Heard]) -> list[Picture]:
    names = list(dict.fromkeys(n for n, _ in found))
    values = sorted({v for _, v in found})

    def curve(name: str, of: str) -> Series:
        points = ((v, float(getattr(found[name, v], of))) for v in values)
        return Series(name, tuple(points))

    return [
        Picture(
            f"{figure}-{short}",
            plot(f"Figure {figure}: {label}", x_label, label, [curve(n, of) for n in names]),
        )
        for short, of, label in (
            ("tentative", "n_tentative", "N_tentative (tuples)"),
            ("latency", "proc_new_s", "Proc_new (s)"),
        )
    ]


_DEVIATIONS = (
    "Time is simulated. The cost model (experiments/setting.py) is calibrated on the one speed the"
    " thesis' prose gives: after a failure of about 8 s at 4,500 tuples/s reconciliation takes"
    " D = 2.7 s. The thesis' plots are not in the stored text, so their values are not compared.",
    "Latency counts from the start of a bucket of 100 ms (its oldest tuple) to the client.",
    "Figures 5-7 and 5-8 run with the thesis' second version of the node (4.7.3: it stays in"
    " UP_FAILURE, has a CPU of its own, and is not given the replay), and D counts from a bucket's"
    " arrival at the SUnion. These stand-ins are in experiments/versions.py and thesis.py.",
    "Our node runs both lanes on one CPU over one set of inputs. There Process & Delay, not"
    " Delay & Delay, gives the fewest tentative tuples: after Delay the D seconds that were held"
    " back fall due one by one from the moment of healing, so the tentative lane takes its share of"
    " the CPU at once and corrections take longer, while after Process it has nothing to do for D;"
    " and what it then releases contains the replayed tuples of the healed input as well, three"
    " streams instead of two.",
    "Figure 5-7 uses the same policy in UP_FAILURE and STABILIZATION; the thesis does not say which"
    " one it used in STABILIZATION. With Process and D just below the failure's duration"
    " N_tentative rises before it falls to zero: everything held back is released tentatively at"
    " the very moment of healing.",
)
EXPERIMENT = DpcSingle()
