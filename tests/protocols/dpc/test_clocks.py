"""Clocks that are off: offsets from round trips, and entry times converted at each hop."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from protocols.dpc.hand import STABLE, Node, bucket, of, options, piece, sent, status, want

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.machine import Effect, MessageReceived
from australis.protocols.dpc.clocks import DRIFT_PPM, OLDEST_US, PeerClock
from australis.protocols.dpc.effects import (
    AnnounceClock,
    Deliver,
    RestoredLog,
    RunTentative,
    Started,
)
from australis.protocols.dpc.messages import Heartbeat, HeartbeatReply
from australis.protocols.dpc.monitor import Monitor
from australis.protocols.dpc.proxies import ClientMachine, Insertions, SourceMachine

ways = st.integers(0, 50 * MILLISECOND)


def asked(clock: PeerClock, offset_us: int, there_us: int, back_us: int, at_us: int = 0) -> int:
    """A round trip with a clock that is ahead; returns when it is over."""
    now = at_us + there_us + back_us
    clock.sampled(1, asked_us=at_us, at_us=at_us + there_us + offset_us, now=now)
    return now


@given(st.integers(-SECOND, SECOND), st.lists(st.tuples(ways, ways), min_size=1, max_size=8))
def test_the_offset_is_within_the_error(offset_us: int, trips: list[tuple[int, int]]) -> None:
    clock, now = PeerClock(), 0
    for there_us, back_us in trips:
        now = asked(clock, offset_us, there_us, back_us, now + SECOND // 10)
        assert clock.estimate is not None
        assert abs(clock.estimate.offset_us - offset_us) <= clock.estimate.error_us(now) + 1


def test_the_shortest_round_trip_counts_until_it_is_too_old() -> None:
    clock = PeerClock()
    asked(clock, 700, 100, 100)
    asked(clock, 700, 5_000, 0, SECOND)
    assert clock.estimate is not None
    assert clock.estimate.offset_us == 700, "the longer one says less"
    late = 10 * SECOND
    assert clock.estimate.error_us(late) == 100 + (late - 200) * DRIFT_PPM // 1_000_000
    asked(clock, 700, 5_000, 0, late)
    assert clock.estimate.offset_us == 3_200


def test_an_estimate_that_is_contradicted_is_dropped() -> None:
    clock = PeerClock()
    asked(clock, 0, 100, 100)
    asked(clock, 30 * SECOND, 9_000, 9_000, SECOND)
    assert clock.estimate is not None
    assert clock.estimate.offset_us == 30 * SECOND, "the machine was suspended"


def test_no_entry_time_is_in_the_future_or_out_of_range() -> None:
    clock = PeerClock()
    now = asked(clock, -5 * SECOND, 0, 0)
    assert clock.entered(now, now=now) == now
    assert clock.entered(-(1 << 57), now=now) == now - OLDEST_US


def test_a_producer_that_restarts_is_asked_anew() -> None:
    monitor = Monitor("x1", ["x"], misses=3)
    data = piece("x", 3, 5)

    def reply(incarnation: int, at_us: int, now: int) -> None:
        number = monitor.next_number(now)
        told = replace(status("x", STABLE, 5), restored_upto=4)
        monitor.replied(HeartbeatReply(incarnation, number, (told,), at_us), now)

    assert monitor.in_own_clock(data, 0) is None, "nothing is known of its clock"
    reply(1, 20 * SECOND, 20 * SECOND)
    reply(2, 27 * SECOND, 21 * SECOND)
    assert monitor.in_own_clock(data, 21 * SECOND) is None, "its clock may be another now"
    ours = monitor.in_own_clock(replace(data, incarnation=2), 21 * SECOND)
    assert ours is not None
    entered = [b.entered_us for b in ours.buckets]
    assert entered == [5 * SECOND, 0], "bucket 4 is by the clock before, bucket 5 by the new one"


def test_a_deadline_counts_from_the_entry_by_the_sources_clock() -> None:
    """The node is 2 s slow: without correction it would release 2 s late."""
    node = Node("x1", "y1").stable(0)
    for name in ("x1", "y1"):
        number = node.machine.monitors[name].next_number(node.now)
        told = (status(name[0], STABLE, 1),)
        node.message(name, HeartbeatReply(2, number, told, node.now + 2 * SECOND))
    node.now += SECOND
    entered = bucket(1).entered_us + 2 * SECOND
    late = replace(
        piece("x", 0, 1, incarnation=2), buckets=(replace(bucket(1), entered_us=entered),)
    )
    node.message("x1", late)
    node.silence(6, x1=status("x", STABLE, 1))
    (first, *_) = of(RunTentative, node.effects)
    assert first.bucket == 1
    assert abs(first.entered_us - bucket(1).entered_us) < MILLISECOND


def test_a_source_says_the_time_and_what_it_had() -> None:
    source = SourceMachine("x", ("c",), options())
    source.handle(Started(3, (RestoredLog("x", 7, -1, 7),)), 0)
    effects = source.handle(MessageReceived("c", Heartbeat(1, 1, (want("x"),))), 55)
    ((_, reply),) = sent(HeartbeatReply, effects)
    assert (reply.at_us, reply.streams[0].restored_upto) == (55, 7)


def test_a_client_gets_entry_times_by_its_own_clock() -> None:
    client = ClientMachine("c", "x", ("x1",), options())
    started = client.handle(Started(1, ()), 10 * SECOND)
    ((_, heartbeat),) = sent(Heartbeat, started)
    told = HeartbeatReply(1, heartbeat.number, (status("x", STABLE, 0),), 3 * SECOND)
    client.handle(MessageReceived("x1", told), 10 * SECOND)
    effects = client.handle(MessageReceived("x1", piece("x", -1, 0)), 10 * SECOND)
    (delivered,) = of(Deliver, effects)
    assert delivered.what == Insertions(replace(bucket(0), entered_us=8 * SECOND))


def test_a_clock_beyond_the_bound_is_announced_once_and_when_it_is_back() -> None:
    monitor = Monitor("x1", ["x"], misses=3)

    def news(off_us: int, now: int, incarnation: int) -> list[Effect]:
        number = monitor.next_number(now)
        monitor.replied(HeartbeatReply(incarnation, number, (), now + off_us), now)
        return monitor.clock_news(SECOND, now)

    assert news(SECOND - 1, 0, 1) == []
    assert news(-2 * SECOND, SECOND, 2) == [AnnounceClock("x1", -2 * SECOND, 0, True)]
    assert news(-2 * SECOND, 2 * SECOND, 2) == []
    assert news(0, 3 * SECOND, 3) == [AnnounceClock("x1", 0, 0, False)]
