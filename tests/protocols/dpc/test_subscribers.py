"""The producing half of a subscription: replay, corrections, overlays and truncation."""

from __future__ import annotations

from typing import Any

from protocols.dpc.hand import bucket, sent, want

from australis.kernel.durations import SECOND
from australis.protocols.dpc.effects import AnnounceLease, SendHead, SendLog, Truncate
from australis.protocols.dpc.messages import TentativeData
from australis.protocols.dpc.options import Lease, LogBounds, WhenFull
from australis.protocols.dpc.subscribers import GUEST_US, GUESTS, Overlay, Subscribers


class Stream:
    """A stream `out` with its log and its consumers."""

    def __init__(
        self, *consumers: str, end: int = -1, trimmed_upto: int = -1, window: int = 64
    ) -> None:
        self.them = Subscribers("out", consumers or ("c",), window)
        self.trimmed_upto, self.end = trimmed_upto, end
        self._numbers: dict[str, int] = {}

    def hear(
        self, name: str = "c", incarnation: int = 1, number: int | None = None, **said: Any
    ) -> None:
        self._numbers[name] = self._numbers.get(name, 0) + 1
        self.them.heard(name, want(**said), incarnation, number or self._numbers[name])

    def due(self, settled: bool = True) -> list[Any]:
        return list(self.them.due(self.trimmed_upto, self.end, settled=settled))

    def over(self, *numbers: int, epoch: int = 1) -> list[int]:
        """The buckets of an overlay that are sent to c."""
        overlay = Overlay(epoch, {n: bucket(n) for n in numbers})
        effects = self.them.overlay_due(overlay)
        return [m.bucket.number for to, m in sent(TentativeData, effects) if to == "c"]


def log(after: int, upto: int, undo: bool = False, rec_done: bool = False) -> SendLog:
    return SendLog("c", "out", after, upto, undo, rec_done)


# --- the log -----------------------------------------------------------------------------


def test_who_never_asked_is_sent_nothing() -> None:
    assert Stream(end=5).due() == []


def test_a_consumer_gets_everything_after_its_last_bucket() -> None:
    s = Stream(end=5)
    s.hear(have=2)
    assert s.due() == [log(2, 5)]
    assert s.due() == [], "once is enough"
    s.end = 7
    assert s.due() == [log(5, 7)]


def test_a_consumer_that_wants_no_log_gets_none() -> None:
    s = Stream(end=5)
    s.hear(log=False)
    assert s.due() == []


def test_no_more_is_sent_than_there_is_room_for() -> None:
    s = Stream(end=9)
    s.hear(room=3)
    assert s.due() == [log(-1, 3)]


def test_no_more_is_under_way_than_the_window_allows() -> None:
    s = Stream(end=9, window=4)
    s.hear()
    assert s.due() == [log(-1, 3)]
    s.hear(have=1)
    assert s.due() == [log(3, 5)]


def test_what_was_lost_is_sent_again_from_where_the_consumer_stands() -> None:
    s = Stream(end=5)
    s.hear(have=-1)
    assert s.due() == [log(-1, 5)]
    s.hear(have=-1)
    assert s.due() == [], "it may still be under way"
    s.hear(have=2)
    assert s.due() == [log(2, 5)], "a heartbeat later it is lost"


def test_a_consumer_that_was_restarted_is_served_from_its_checkpoint() -> None:
    s = Stream(end=5)
    s.hear(have=5)
    s.hear(have=1, incarnation=2)
    assert s.due() == [log(1, 5)]


def test_a_heartbeat_overtaken_by_a_later_one_does_not_count() -> None:
    s = Stream(end=5)
    s.hear(have=4, number=7)
    s.hear(have=0, number=6)
    assert s.due() == [log(4, 5)]
    s.hear(have=0, incarnation=0, number=9)
    s.end = 6
    assert s.due() == [log(5, 6)]


def test_a_consumer_that_comes_from_another_replica_goes_on_after_what_it_has() -> None:
    s = Stream(end=5)
    s.hear(log=False, have=2)
    s.hear(log=True, have=4)
    assert s.due() == [log(4, 5)]


def test_a_consumer_ahead_of_this_replica_waits() -> None:
    s = Stream(end=5)
    s.hear(have=8)
    assert s.due() == []
    s.end = 9
    assert s.due() == [log(8, 9)]


def test_what_was_truncated_cannot_be_sent() -> None:
    s = Stream(end=9, trimmed_upto=4)
    s.hear(have=2)
    assert s.due() == []
    s.hear(have=4)
    assert s.due() == [log(4, 9)]


# --- corrections -----------------------------------------------------------------------------


def test_a_consumer_with_tentative_tuples_gets_undo_corrections_and_rec_done() -> None:
    s = Stream(end=5)
    s.hear(have=2, tentative=4)
    assert s.due() == [log(2, 5, undo=True, rec_done=True)]
    s.end = 6
    assert s.due() == [log(5, 6)], "stable from here on"


def test_rec_done_comes_with_the_last_piece_of_corrections() -> None:
    s = Stream(end=9, window=4)
    s.hear(have=-1, tentative=8)
    assert s.due() == [log(-1, 3, undo=True)]
    s.hear(have=3, tentative=8)
    assert s.due() == [log(3, 7)]
    s.hear(have=7, tentative=8)
    assert s.due() == [log(7, 9, rec_done=True)]


def test_rec_done_waits_while_something_tentative_lies_beyond_the_log() -> None:
    s = Stream(end=3)
    s.hear(have=2, tentative=4)
    assert s.due(settled=False) == [log(2, 3, undo=True)]
    assert s.due(settled=True) == [log(3, 3, rec_done=True)]


def test_each_consumer_is_undone_to_its_own_last_stable_bucket() -> None:
    s = Stream("c", "d", end=5)
    s.hear("c", have=1, tentative=4)
    s.hear("d", have=3)
    assert s.due() == [log(1, 5, undo=True, rec_done=True), SendLog("d", "out", 3, 5, False, False)]


# --- the overlay ---------------------------------------------------------------------------------


def test_an_overlay_goes_to_those_who_want_it_once() -> None:
    s = Stream("c", "d")
    s.hear("c", overlay=True)
    s.hear("d")
    assert s.over(0, 1) == [0, 1]
    assert s.over(0, 1, 2) == [2]


def test_whoever_got_an_overlay_is_sent_an_undo_before_its_corrections() -> None:
    s = Stream()
    s.hear(overlay=True)
    s.over(0, 1)
    s.end = 1
    assert s.due() == [log(-1, 1, undo=True, rec_done=True)]


def test_a_new_consumer_gets_the_most_recent_tentative_tuples_only() -> None:
    """Figure 5-3 (a): no corrections from a replica in UP_FAILURE."""
    s = Stream()
    s.hear(overlay=True, log=False, have=-1, tentative=5)
    assert s.over(4, 5, 6) == [6]
    assert s.due() == []


def test_an_overlay_begun_anew_is_sent_anew() -> None:
    s = Stream()
    s.hear(overlay=True)
    s.over(0, 1, 2)
    s.them.overlay_anew(0)
    assert s.over(1, 2, epoch=2) == [1, 2]


def test_lost_tentative_tuples_are_sent_again_once_they_must_have_arrived() -> None:
    s = Stream()
    s.hear(overlay=True)
    s.over(0, 1)
    s.hear(overlay=True, tentative=-1)
    assert s.over(0, 1) == [], "they may still be under way"
    s.hear(overlay=True, have=-1, tentative=0)
    assert s.over(0, 1) == [1]


def test_the_head_of_a_log_is_read_as_tentative_by_those_who_are_behind() -> None:
    s = Stream(end=20, window=4)
    s.hear(head=True, overlay=True)
    s.due()
    heads = s.them.head_due(-1, 20, recent=5)
    assert heads == [SendHead("c", "out", n) for n in range(16, 21)]
    assert s.them.head_due(-1, 20, recent=5) == []
    assert s.them.head_due(-1, 21, recent=5) == [SendHead("c", "out", 21)]


# --- truncation -------------------------------------------------------------------------------------


def test_what_all_consumers_have_acknowledged_is_truncated() -> None:
    s = Stream("c", "d", end=9)
    s.hear("c", acknowledged=5)
    s.hear("d", acknowledged=3)
    assert s.them.truncation(-1, 9) == [Truncate("out", 3)]
    assert s.them.truncation(3, 9) == []


def test_a_consumer_never_heard_of_holds_truncation_back() -> None:
    s = Stream("c", "d", end=9)
    s.hear("c", acknowledged=5)
    assert s.them.truncation(-1, 9) == []


def test_no_more_is_truncated_than_there_is() -> None:
    s = Stream(end=3)
    s.hear(acknowledged=8)
    assert s.them.truncation(-1, 3) == [Truncate("out", 3)]


def test_a_bounded_log_keeps_so_many_buckets_acknowledged_or_not() -> None:
    s = Stream("c", "d", end=30)
    s.hear("c", acknowledged=9)
    assert s.them.truncation(-1, 30, keep=20) == [Truncate("out", 10)]
    for consumer in ("c", "d"):
        s.hear(consumer, acknowledged=25)
    assert s.them.truncation(10, 30, keep=20) == [], "enough for one that has lost everything"


# --- bounds and leases -------------------------------------------------------------------


class Bounded(Stream):
    """A stream whose log has bounds, and whose consumers have leases."""

    def __init__(self, *consumers: str, leases: dict[str, Lease] | None = None, **bounds: Any):
        super().__init__(*consumers)
        self.them = Subscribers("out", consumers, 64, LogBounds(**bounds), leases, SECOND)
        self.them.begin(0)

    def at(
        self, now_s: float, end: int, trimmed_upto: int = -1, fits_after: int = -1
    ) -> list[int | str]:
        """What the log forgets then, and whom it no longer waits for."""
        effects = self.them.truncation(
            trimmed_upto, end, fits_after=fits_after, now=int(now_s * SECOND)
        )
        leases = [e.consumer for e in effects if isinstance(e, AnnounceLease) and e.lapsed]
        return leases + [e.upto for e in effects if isinstance(e, Truncate)]


def test_the_end_of_the_stream_is_kept_for_late_joiners() -> None:
    s = Bounded("c", keep_us=5 * SECOND)
    s.hear(have=20, acknowledged=20)
    assert s.at(1, end=20) == [15]


def test_a_full_log_keeps_nothing_that_is_acknowledged() -> None:
    s = Bounded("c", keep_us=50 * SECOND, max_buckets=10)
    s.hear(have=20, acknowledged=18)
    assert s.at(1, end=20) == [11], "so that the next bucket has room"
    assert s.at(1, end=20, trimmed_upto=11, fits_after=14) == [14]


def test_a_full_log_waits_for_everybody_who_has_no_lease() -> None:
    s = Bounded("c", "d", max_bytes=100)
    s.hear("c", have=20, acknowledged=20)
    assert s.at(1000, end=20, fits_after=12) == []
    assert s.them.waits_for(12) == ["d"]


def test_a_full_log_skips_a_client_that_is_absent() -> None:
    s = Bounded("c", "d", leases={"d": Lease()}, max_bytes=100, full=WhenFull.SKIP)
    s.hear("c", have=20, acknowledged=20)
    assert s.at(10, end=20, fits_after=12) == [], "it has been silent for a moment only"
    assert s.at(11, end=20) == [], "nor while the log has room"
    assert s.at(11, end=20, fits_after=12) == ["d", 20], "and then nobody needs anything"


def test_a_full_log_waits_for_a_client_that_is_there() -> None:
    s = Bounded("c", leases={"c": Lease()}, max_bytes=100, full=WhenFull.SKIP)
    s.them.heard("c", want(have=20, acknowledged=3), 1, 1, 9 * SECOND)
    assert s.at(19, end=20, fits_after=12) == [3]


def test_a_replica_is_let_go_only_while_another_one_is_there() -> None:
    leases = {"a": Lease(60 * SECOND, ("b",)), "b": Lease(60 * SECOND, ("a",))}
    s = Bounded("a for x", "b for x", leases=leases)
    assert s.at(100, end=9) == [], "nobody else has its state"
    s.them.heard("b", want(have=9, acknowledged=7, reader="x"), 1, 1, 100 * SECOND)
    assert s.at(111, end=9) == [], "nor now"
    assert s.at(110, end=9) == ["a for x", 7]


def test_a_lease_that_has_lapsed_begins_again_when_the_consumer_is_heard() -> None:
    s = Bounded("c", "d", leases={"d": Lease(20 * SECOND)})
    s.hear("c", have=9, acknowledged=9)
    assert s.at(21, end=9) == ["d", 9]
    s.them.heard("d", want(have=2, acknowledged=2), 1, 1, 30 * SECOND)
    s.hear("c", have=15, acknowledged=15)
    assert s.at(31, end=15, trimmed_upto=9) == []
    s.them.heard("d", want(have=12, acknowledged=12), 1, 2, 32 * SECOND)
    assert s.at(33, end=15, trimmed_upto=9) == [12]


def test_a_log_that_no_configuration_reads_is_kept_up_to_its_bounds() -> None:
    s = Bounded(max_bytes=100)
    s.them.all.clear()
    assert s.at(1, end=20) == []
    assert s.at(1, end=20, fits_after=12) == [12]


def test_an_acknowledgement_is_taken_back_only_by_a_consumer_that_lost_its_disk() -> None:
    s = Stream(end=9)
    s.hear(acknowledged=5)
    s.hear(acknowledged=2)
    assert s.them.acknowledged == 5
    s.hear(acknowledged=2, incarnation=2)
    assert s.them.acknowledged == 2


def test_a_guest_reads_along_and_holds_nothing_back() -> None:
    s = Stream("c", end=9)
    s.hear("c", acknowledged=4)
    s.them.heard("guest 1", want(have=7), 1, 1, now=0)
    assert [e.to for e in s.them.due(-1, 9, settled=True)] == ["c", "guest 1"]
    assert s.them.acknowledged == 4
    s.them.heard("guest 2", want(), 1, 1, now=GUEST_US + 1)
    assert list(s.them.guests) == ["guest 2"], "the other one has been silent"


def test_there_is_room_for_so_many_guests() -> None:
    s = Stream("c", end=9)
    for i in range(GUESTS + 5):
        s.them.heard(f"guest {i}", want(), 1, 1)
    assert len(s.them.guests) == GUESTS


def test_a_stranger_counts_for_nothing() -> None:
    s = Stream("c", end=9)
    s.hear("stranger", acknowledged=0)
    assert "stranger" not in s.them.all
    assert s.due() == []
