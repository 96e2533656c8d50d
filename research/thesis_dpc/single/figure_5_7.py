"""Figure 5-7: one failure of 5 s, the delay D varies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import correlation, linear_regression

from australis.kernel.durations import SECOND
from australis.protocols.dpc.options import Policy
from research.claims import Claim, Progress
from research.predicates import at_least, exactly, fields, none, within
from research.thesis_dpc.measure import measure_all
from research.thesis_dpc.setting import Setting, disconnect
from research.thesis_dpc.single import Found, Key
from research.thesis_dpc.versions import TwoVersions, VersionedReplica

FAILURE_S = 5.0
RATE = 3000


def run(delays: Iterable[float], progress: Progress) -> Found:
    """Both policies with every D."""
    keys = [(p, d) for p in (Policy.PROCESS, Policy.DELAY) for d in delays]
    settings = [
        Setting(
            RATE,
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


def claims(found: Found) -> list[Claim]:
    """The claims of section 5.4.1."""
    counts = {k: h.n_tentative for k, h in found.items()}
    delays = sorted({d for _, d in found})
    small = [counts["Process", d] for d in delays if d <= 4]
    masked = [counts[p, d] for p in ("Process", "Delay") for d in delays if d > FAILURE_S]
    worse = [d for d in delays if counts["Delay", d] > counts["Process", d]]
    return [
        Claim(
            "Fig. 5-7: Delay gives no more tentative tuples than Process, for every D",
            worse,
            none(),
            "Delay is better",
            shown="all D" if not worse else f"not for D = {worse}",
        ),
        Claim(
            "Fig. 5-7: N_tentative with Process is a step function: nearly constant for"
            " D ≤ 4 s (lowest / highest)",
            min(small) / max(small),
            at_least(0.9),
            "almost proportional to the failure duration for D ≤ 4 s",
        ),
        Claim(
            "Fig. 5-7: and no tentative tuple once D is longer than the failure",
            max(masked),
            exactly(0),
            0,
        ),
        *_linear_in_delay(counts, found, [d for d in delays if d < FAILURE_S]),
    ]


def _linear_in_delay(counts: Mapping[Key, int], found: Found, delays: list[float]) -> list[Claim]:
    fall = [float(counts["Delay", d]) for d in delays]
    late = {p: [found[p, d].proc_new_s for d in delays] for p in ("Process", "Delay")}
    return [
        Claim(
            "Fig. 5-7: N_tentative with Delay falls proportionally to D (-correlation, D < 5 s)",
            -correlation(delays, fall),
            at_least(0.99),
            "proportionally to D",
        ),
        *(
            Claim(
                f"Fig. 5-7: Proc_new grows linearly with D ({policy}: seconds per second of D)",
                {
                    "slope": linear_regression(delays, seconds).slope,
                    "correlation": correlation(delays, seconds),
                },
                fields(slope=within(1, absolute=0.1), correlation=at_least(0.99)),
                "approximately linearly",
            )
            for policy, seconds in late.items()
        ),
    ]
