"""Figure 5-8: six combinations of policies, the failure's duration varies."""

from __future__ import annotations

from collections.abc import Iterable

from australis.kernel.durations import SECOND
from australis.protocols.dpc.options import Policy
from research.claims import Claim, Progress
from research.predicates import at_most, below, between, exactly, fields, none
from research.thesis_dpc.measure import measure_all
from research.thesis_dpc.replicas import ThesisReplica
from research.thesis_dpc.setting import BUCKET_US, Setting, disconnect
from research.thesis_dpc.single import Found
from research.thesis_dpc.versions import TwoVersions, VersionedReplica

RATE = 4500
DELAY_S = 2.7
BOUND_S = 3.0
"""Proc_new below this means Delay_new below X (5.4.1)."""
VIABLE = ("Process & Process", "Process & Delay", "Delay & Process", "Delay & Delay")
NOISE = 2 * RATE * BUCKET_US // SECOND
"""Two buckets of tuples: no count is finer than a bucket at either end of a failure."""
FEWEST = "Delay & Delay gives the fewest tentative tuples of the four"
TWO_LANES = "two lanes share one CPU and one set of inputs: there Process & Delay gives the fewest"


def run(lasts: Iterable[float], progress: Progress, *, ours: bool) -> Found:
    """All combinations with failures of these durations, on the thesis' node or on ours."""
    policies = (Policy.PROCESS, Policy.DELAY)
    keys = [(u, s, f) for f in lasts for u in policies for s in Policy]
    settings = [_setting(u, s, f, ours) for u, s, f in keys]
    found = measure_all(settings, progress, "figure 5-8, our node" if ours else "figure 5-8")
    return {
        (f"{u.value.title()} & {s.value.title()}", f): h
        for (u, s, f), h in zip(keys, found, strict=True)
    }


def _setting(up: Policy, stabilization: Policy, lasts_s: float, ours: bool) -> Setting:
    setting = Setting(
        RATE,
        int(DELAY_S * SECOND),
        up_failure=up,
        stabilization=stabilization,
        faults=(disconnect("s3", int(lasts_s * SECOND)),),
        ends_us=int((lasts_s + 5) * SECOND),
        replica_class=ThesisReplica,
    )
    return (
        setting if ours else setting.with_(replica_class=VersionedReplica, replica_host=TwoVersions)
    )


def claims(found: Found) -> list[Claim]:
    """The claims of section 5.4.1."""
    return [
        *_availability(found, "Fig. 5-8"),
        _suspend_viable(found),
        _always_late(found),
        _short_masked(found),
        _fewest(found, f"Fig. 5-8: {FEWEST}"),
        _most(found),
        _beats_suspend(found),
    ]


def claims_ours(found: Found) -> list[Claim]:
    """The same claims on one of our nodes."""
    return [
        *_availability(found, "Our node"),
        _fewest(found, f"Our node: {FEWEST}", known_miss=TWO_LANES),
    ]


def _availability(found: Found, where: str) -> list[Claim]:
    return [
        Claim(
            f"{where}: {name} keeps Proc_new under {BOUND_S:g} s for every failure (worst)",
            max(h.proc_new_s for (n, _), h in found.items() if n == name),
            below(BOUND_S, " s"),
            f"< {BOUND_S:g}",
        )
        for name in VIABLE
    ]


def _late(found: Found, name: str) -> list[float]:
    """The failures for which a combination breaks the bound."""
    return sorted(f for (n, f), h in found.items() if n == name and h.proc_new_s >= BOUND_S)


def _suspend_viable(found: Found) -> Claim:
    """Process & Suspend breaks the bound exactly where reconciliation takes longer than D."""
    late = set(_late(found, "Process & Suspend"))
    slack = BOUND_S - DELAY_S
    longer = {
        f
        for (n, f), h in found.items()
        if n == "Process & Suspend" and h.stable_again_s - f > DELAY_S + slack
    }
    first = min(late, default=0.0)
    return Claim(
        "Fig. 5-8: Process & Suspend breaks the bound just where reconciliation is longer"
        " than D and the normal 0.3 s (shortest such failure, s; the model's speed is calibrated"
        " on it)",
        {"shortest": first, "elsewhere": late ^ longer},
        fields(shortest=between(7, 10), elsewhere=none()),
        "around 8",
        shown=first,
    )


def _always_late(found: Found) -> Claim:
    failures = {f for _, f in found if f > DELAY_S + 1}
    in_time = failures - set(_late(found, "Delay & Suspend"))
    return Claim(
        "Fig. 5-8: Delay & Suspend breaks the bound for every failure longer than D",
        in_time,
        none(),
        "unviable",
        shown=f"{len(failures) - len(in_time)} of {len(failures)} failures",
    )


def _short_masked(found: Found) -> Claim:
    most = max(h.n_tentative for (_, f), h in found.items() if f < DELAY_S)
    text = "Fig. 5-8: no combination has a tentative tuple for a failure shorter than D"
    return Claim(text, most, exactly(0), 0)


def _fewest(found: Found, text: str, known_miss: str | None = None) -> Claim:
    """The fewest tentative tuples among combinations within the bound, up to a bucket at each
    end.
    """
    excess = {
        f: found["Delay & Delay", f].n_tentative
        - min(found[name, f].n_tentative for name in VIABLE)
        for f in sorted({f for _, f in found})
    }
    worst = max(excess, key=lambda f: excess[f])
    shown = f"at most {excess[worst]:,} more than another (failure of {worst:g} s)"
    tuples = at_most(NOISE, " tuples")
    return Claim(text, excess[worst], tuples, "fewest", shown=shown, known_miss=known_miss)


def _most(found: Found) -> Claim:
    """The tentative tuples of Process & Process against all others within the bound."""
    fewer = {
        f: max(found[name, f].n_tentative for name in VIABLE)
        - found["Process & Process", f].n_tentative
        for _, f in found
    }
    text = "Fig. 5-8: Process & Process gives the most (fewer than another, at most)"
    return Claim(text, max(fewer.values()), at_most(NOISE, " tuples"), "the most")


def _beats_suspend(found: Found) -> Claim:
    """Delay & Delay against Process & Suspend, where the latter is within the bound."""
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
        at_most(NOISE, " tuples"),
        "equivalent or better",
    )
