"""What is measured of a run, on deliveries written by hand."""

from __future__ import annotations

from australis.kernel.durations import SECOND
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.proxies import Insertions, RecDone, Tentatives, Undo
from australis.sim.dpc.engine import Digest
from research.thesis_dpc.measure import Heard, What
from research.thesis_dpc.setting import FAILS_AT_US

BUCKET_US = SECOND // 10
FIRST = FAILS_AT_US // BUCKET_US


def bucket(number: int, rows: int) -> Bucket:
    return Bucket(number, 0, Digest(b"", rows))


def told() -> Heard:
    """One bucket in time, one tentative after 2 s, corrected after 5 s."""
    heard = Heard(BUCKET_US)
    at = FAILS_AT_US
    heard.delivered("c", Insertions(bucket(FIRST - 1, 30)), at + BUCKET_US // 2)
    heard.delivered("c", Tentatives(bucket(FIRST, 20)), at + 2 * SECOND)
    heard.delivered("c", Undo(FIRST - 1), at + 5 * SECOND)
    heard.delivered("c", Insertions(bucket(FIRST, 30)), at + 5 * SECOND)
    heard.delivered("c", RecDone(), at + 5 * SECOND)
    return heard


def test_tentative_tuples_are_counted_not_their_corrections() -> None:
    assert told().n_tentative == 20


def test_a_correction_is_not_new() -> None:
    heard = told()
    assert [d.what for d in heard.new()] == [What.STABLE, What.TENTATIVE]
    assert heard.proc_new_s == 2.0
    assert heard.stable_again_s == 5.0


def test_latency_counts_from_the_start_of_a_bucket_and_the_mean_from_its_middle() -> None:
    heard = Heard(BUCKET_US)
    heard.delivered("c", Insertions(bucket(20, 10)), 21 * BUCKET_US)
    (one,) = heard.deliveries
    assert heard.latency_us(one) == BUCKET_US
    assert heard.mean_ms == 50.0
