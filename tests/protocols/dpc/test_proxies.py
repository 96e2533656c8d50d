"""The two ends: a source proxy that logs first, a client proxy that tells one sequence."""

from __future__ import annotations

from typing import Any

from protocols.dpc.hand import (
    FAILURE,
    STABLE,
    UP_FAILURE,
    Driver,
    of,
    options,
    piece,
    sent,
    status,
    tentative,
    want,
)

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, SetTimer
from australis.protocols.dpc.effects import (
    AnnounceLease,
    BucketClosed,
    Consumed,
    Deliver,
    LimitSource,
    LogDamaged,
    RestoredLog,
    SendHead,
    SendLog,
    Started,
    Truncate,
)
from australis.protocols.dpc.messages import Heartbeat, HeartbeatReply
from australis.protocols.dpc.options import Lease, LogBounds
from australis.protocols.dpc.proxies import (
    ClientMachine,
    Insertions,
    RecDone,
    Skipped,
    SourceMachine,
    Tentatives,
    Undo,
)


class Source(Driver):
    """The proxy of source `s`, read by the consumers given."""

    def __init__(self, *consumers: str, **changes: Any) -> None:
        super().__init__(SourceMachine("s", consumers or ("c",), options(**changes)))
        self._number = 0

    def start(self, end: int = -1, at_s: float = 0.0) -> list[Effect]:
        self.now = int(at_s * SECOND)
        return self.event(Started(1, (RestoredLog("s", end, -1, end),)))

    def logged(self, upto: int) -> list[Effect]:
        """The disk has the buckets up to this one."""
        return self.event(BucketClosed("s", upto))

    def hear(self, name: str = "c", **said: Any) -> list[Effect]:
        self._number += 1
        return self.message(name, Heartbeat(1, self._number, (want("s", **said),)))


def log_of(effects: list[Effect]) -> list[object]:
    return of(Truncate, effects) + of(AnnounceLease, effects)


# --- the source -------------------------------------------------------------------------------


def test_a_source_shows_nothing_before_it_is_logged() -> None:
    s = Source()
    s.start()
    assert of(SendLog, s.hear()) == []
    assert of(SendLog, s.logged(0)) == [SendLog("c", "s", -1, 0, False, False)]


def test_a_source_whose_log_is_full_is_limited_until_consumers_acknowledge() -> None:
    s = Source(log=LogBounds(max_buckets=4))
    assert of(LimitSource, s.start(end=2)) == [LimitSource("s", 3)]
    assert of(LimitSource, s.hear(have=1, acknowledged=0)) == [LimitSource("s", 4)]
    assert of(LimitSource, s.hear(have=1, acknowledged=0)) == []


def test_a_source_looks_at_leases_though_nobody_is_heard_any_more() -> None:
    s = Source(leases={"c": Lease(20 * SECOND)})
    assert [e.name for e in of(SetTimer, s.start(end=2))] == ["leases"]
    assert log_of(s.timer("leases", 20 * SECOND)) == []
    effects = s.timer("leases", SECOND)
    assert log_of(effects) == [
        Truncate("s", 2),
        AnnounceLease("s", "c", 21 * SECOND, lapsed=True, acknowledged=-1),
    ]
    assert [e.name for e in of(SetTimer, effects)] == ["leases"]
    assert of(AnnounceLease, s.hear(have=2, acknowledged=2)) == [
        AnnounceLease("s", "c", 21 * SECOND, lapsed=False, acknowledged=-1)
    ]


def test_a_lease_begins_anew_when_the_producer_restarts() -> None:
    s = Source(leases={"c": Lease(20 * SECOND)})
    s.start(end=2, at_s=1000)
    assert log_of(s.timer("leases", 19 * SECOND)) == []


def test_a_source_without_a_bound_is_never_limited() -> None:
    s = Source()
    effects = s.start(end=2) + s.hear(have=1, acknowledged=0)
    assert of(LimitSource, effects) == []


def test_a_source_serves_all_replicas_and_keeps_what_one_of_them_lacks() -> None:
    s = Source("c", "d")
    s.start()
    s.logged(2)
    assert of(SendLog, s.hear("c", have=2, acknowledged=2)) == []
    effects = s.hear("d")
    assert of(SendLog, effects) == [SendLog("d", "s", -1, 2, False, False)]
    assert of(Truncate, effects) == []
    assert of(Truncate, s.hear("d", have=2, acknowledged=1)) == [Truncate("s", 1)]


def test_a_source_is_always_stable() -> None:
    s = Source()
    s.start(end=4, at_s=5.0)
    ((_, reply),) = sent(HeartbeatReply, s.hear())
    assert [(one.state, one.end) for one in reply.streams] == [(STABLE, 4)]


def test_the_head_is_sent_to_a_replica_that_is_far_behind() -> None:
    s = Source(send_window=4)
    s.start()
    s.logged(19)
    effects = s.hear(head=True, overlay=True)
    assert of(SendLog, effects) == [SendLog("c", "s", -1, 3, False, False)]
    assert of(SendHead, effects)[-1] == SendHead("c", "s", 19)


# --- the client -------------------------------------------------------------------------------


class Client(Driver):
    """The proxy of a client that reads `x` from two replicas."""

    def __init__(
        self, *producers: str, name: str = "c", hold: bool = False, **changes: Any
    ) -> None:
        names = producers or ("x1", "x2")
        super().__init__(ClientMachine(name, "x", names, options(**changes), hold=hold))
        self.event(Started(1))
        for name in names:
            self.answer(name, status("x", STABLE))

    def failing(self, *producers: str) -> Client:
        for name in producers or ("x1", "x2"):
            self.answer(name, status("x", UP_FAILURE))
        return self

    def stable(self, after: int, upto: int, sender: str = "x1", **flags: bool) -> list[str]:
        return told(self.message(sender, piece("x", after, upto, **flags)))

    def maybe(self, number: int, sender: str = "x1", epoch: int = 1) -> list[str]:
        return told(self.message(sender, tentative("x", number, epoch)))


def told(effects: list[Effect]) -> list[str]:
    """What the application is told, in short: S3 is stable, T3 tentative, U3 undo to 3."""
    words = []
    for e in of(Deliver, effects):
        match e.what:
            case Insertions(bucket=b):
                words.append(f"S{b.number}")
            case Tentatives(bucket=b):
                words.append(f"T{b.number}")
            case Undo(upto=upto):
                words.append(f"U{upto}")
            case RecDone():
                words.append("REC_DONE")
            case Skipped(after=after, upto=upto):
                words.append(f"SKIPPED {after + 1}-{upto}")
    return words


def test_a_client_is_told_stable_buckets_in_order_once() -> None:
    c = Client()
    assert c.stable(-1, 1) == ["S0", "S1"]
    assert c.stable(-1, 1) == []
    assert c.stable(2, 3) == [], "something is missing"
    assert c.stable(0, 2, sender="x2") == ["S2"]


def acknowledged(effects: list[Effect]) -> set[int]:
    return {h.wants[0].acknowledged for _, h in sent(Heartbeat, effects)}


def test_a_client_acknowledges_what_it_has_received() -> None:
    c = Client()
    c.stable(-1, 3)
    assert acknowledged(c.timer()) == {3}


def test_a_client_that_holds_the_log_acknowledges_what_its_application_has_consumed() -> None:
    c = Client(hold=True)
    assert c.stable(-1, 3) == ["S0", "S1", "S2", "S3"]
    assert acknowledged(c.timer()) == {-1}
    c.event(Consumed(1))
    assert acknowledged(c.timer()) == {1}
    c.event(Consumed(0))
    assert acknowledged(c.timer()) == {1}, "never less than before"
    c.event(Consumed(9))
    assert acknowledged(c.timer()) == {3}, "never more than it has received"


def test_a_client_goes_back_to_a_bucket_that_its_application_could_not_read() -> None:
    c = Client(hold=True)
    c.stable(-1, 5)
    effects = c.event(LogDamaged("x", 3))
    assert {h.wants[0].have for _, h in sent(Heartbeat, effects)} == {2}
    assert c.stable(2, 4, sender="x2") == ["S3", "S4"]
    assert not c.event(LogDamaged("x", 9)), "it has not read that far"


def test_a_client_that_holds_the_log_begins_where_it_was() -> None:
    c = Client(hold=True)
    c.event(Started(2, (RestoredLog("x", 7, 7, 7),)))
    assert acknowledged(c.timer()) == {7}


def test_a_client_is_told_undo_then_corrections_then_rec_done() -> None:
    c = Client()
    c.stable(-1, 0)
    c.failing()
    assert c.maybe(1) == ["T1"]
    assert c.maybe(2) == ["T2"]
    assert c.stable(0, 2, undo=True, rec_done=True) == ["U0", "S1", "S2", "REC_DONE"]
    assert c.stable(2, 3) == ["S3"]


def test_rec_done_comes_when_the_last_tentative_bucket_is_corrected() -> None:
    c = Client().failing()
    for number in range(4):
        c.maybe(number)
    assert c.stable(-1, 1) == ["U-1", "S0", "S1"]
    assert c.stable(1, 2) == ["S2"]
    assert c.stable(2, 3) == ["S3", "REC_DONE"]


def test_new_tentative_tuples_may_come_between_corrections() -> None:
    c = Client().failing()
    c.maybe(0)
    c.maybe(1)
    assert c.stable(-1, 0, "x1") == ["U-1", "S0"]
    assert c.maybe(2) == ["T2"]
    assert c.stable(0, 2) == ["S1", "S2", "REC_DONE"]


def test_without_tentative_tuples_there_is_nothing_to_undo() -> None:
    c = Client().failing()
    assert c.stable(-1, 2, undo=True, rec_done=True) == ["S0", "S1", "S2"]


def test_a_tentative_bucket_is_told_once() -> None:
    c = Client().failing()
    assert c.maybe(0, "x1") == ["T0"]
    assert c.maybe(0, "x1") == []
    assert c.maybe(0, "x2") == [], "the other replica's view of the same bucket"
    assert c.maybe(1, "x2") == ["T1"]
    assert c.maybe(1, "x1") == []


def test_a_bucket_that_is_stable_is_not_told_tentatively() -> None:
    c = Client().failing()
    c.stable(-1, 3)
    assert c.maybe(3) == []


def test_tentative_tuples_may_have_gaps() -> None:
    c = Client().failing()
    assert c.maybe(0) == ["T0"]
    assert c.maybe(5) == ["T5"]


def test_an_overlay_begun_anew_is_told_anew_after_undo_and_rec_done() -> None:
    c = Client("x1").failing("x1")
    c.maybe(0)
    c.maybe(1)
    assert c.maybe(0, epoch=2) == ["U-1", "REC_DONE", "T0"]
    assert c.maybe(1, epoch=2) == ["T1"]


def test_a_failure_during_corrections_is_closed_by_rec_done() -> None:
    """4.11.2: REC_DONE stands between the last stable and the first new tentative tuple."""
    c = Client("x1").failing("x1")
    for number in range(4):
        c.maybe(number)
    assert c.stable(-1, 1) == ["U-1", "S0", "S1"]
    assert c.maybe(2, epoch=2) == ["U1", "REC_DONE", "T2"]


def test_a_client_switches_when_its_replica_fails_and_says_where_it_stands() -> None:
    c = Client()
    c.stable(-1, 4)
    effects = c.answer("x1", status("x", FAILURE))
    wants = {to: h.wants[0] for to, h in sent(Heartbeat, effects)}
    assert (wants["x2"].log, wants["x2"].have, wants["x2"].tentative) == (True, 4, 4)
    assert not wants["x1"].log


def test_a_client_acknowledges_what_it_has_told_the_application() -> None:
    c = Client()
    c.stable(-1, 4)
    assert {h.wants[0].acknowledged for _, h in sent(Heartbeat, c.timer())} == {4}


def test_a_client_is_told_what_is_gone_for_good() -> None:
    c = Client("x1", keep_log=20).failing("x1")
    c.stable(-1, 3)
    c.maybe(4)
    c.answer("x1", status("x", STABLE, 60, trimmed_upto=40))
    assert told(c.timer()) == ["U3", "SKIPPED 4-40", "REC_DONE"]
    assert c.stable(40, 41) == ["S41"]


def test_a_client_whose_lease_has_lapsed_is_told_what_is_gone() -> None:
    c = Client("x1", leases={"c": Lease(20 * SECOND)})
    c.answer("x1", status("x", STABLE, 5))
    c.message("x1", piece("x", -1, 4))
    c.answer("x1", status("x", STABLE, 60, trimmed_upto=40))
    assert told(c.timer()) == ["SKIPPED 5-40"]


def test_a_client_waits_a_while_for_replicas_that_may_have_what_others_have_let_go() -> None:
    begun = {"x1": status("x", STABLE, 60, trimmed_upto=40)}
    c = Client("x1", "x2", leases={"c": Lease(20 * SECOND)})
    assert told(c.silence(9, **begun)) == [], "x2 has not answered yet"
    answered = c.silence(1, **begun, x2=status("x", STABLE, 60, trimmed_upto=20))
    assert told(answered) == ["SKIPPED 0-20"]


def test_a_client_does_not_wait_for_ever_for_a_replica_that_may_have_what_is_gone() -> None:
    c = Client("x1", "x2", leases={"c": Lease(20 * SECOND)})
    assert told(c.silence(12, x1=status("x", STABLE, 60, trimmed_upto=40))) == ["SKIPPED 0-40"]


def test_without_bounded_logs_a_client_waits_for_a_replica_that_has_it() -> None:
    c = Client("x1", "x2")
    c.stable(-1, 3)
    begun_anew = status("x", STABLE, 60, trimmed_upto=40)
    c.silence(5, x1=begun_anew)
    assert told(c.timer()) == [], "x2 may have it"
    assert c.stable(40, 41) == []
    c.answer("x2", begun_anew)
    c.answer("x1", begun_anew)
    assert told(c.timer()) == ["SKIPPED 4-40"], "no replica has it"
    assert c.stable(40, 41) == ["S41"]


def test_a_guest_goes_on_at_the_end_of_what_the_replicas_that_answer_have_forgotten() -> None:
    c = Client("x1", "x2", name="guest 1")
    c.stable(-1, 3)
    c.maybe(4)
    c.silence(5, x2=status("x", STABLE, 3))
    effects = c.answer("x2", status("x", STABLE, 60, trimmed_upto=40))
    assert told(effects) == ["U3", "SKIPPED 4-60", "REC_DONE"]
    wants = [heartbeat.wants[0] for _, heartbeat in sent(Heartbeat, effects)]
    assert {(want.have, want.head) for want in wants[-2:]} == {(60, False)}, "at once"
    assert c.stable(60, 61, sender="x2") == ["S61"]


def test_what_was_told_tentatively_is_undone_before_it_is_skipped_4_9_4() -> None:
    c = Client("x1", keep_log=20).failing("x1")
    c.stable(-1, 0)
    c.maybe(1)
    c.maybe(2)
    assert c.stable(0, 1) == ["U0", "S1"]
    assert c.maybe(3) == ["T3"]
    c.answer("x1", status("x", STABLE, 60, trimmed_upto=40))
    assert told(c.timer()) == ["U1", "SKIPPED 2-40", "REC_DONE"]
