"""One input of a node: what it takes, what it drops, and which replicas it reads from."""

from __future__ import annotations

from typing import Any

from protocols.dpc.hand import (
    FAILURE,
    STABILIZATION,
    STABLE,
    UP_FAILURE,
    options,
    piece,
    status,
    tentative,
)

from australis.kernel.durations import SECOND
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import HeartbeatReply
from australis.protocols.dpc.monitor import Monitor
from australis.protocols.dpc.options import Lease, LogBounds
from australis.protocols.dpc.states import State


class Reader:
    """An input `x` with replicas that answer every heartbeat."""

    def __init__(self, *replicas: str, **changes: Any) -> None:
        self.monitors = {r: Monitor(r, ["x"], misses=3) for r in replicas or ("x1", "x2")}
        self.input = Input("x", self.monitors, next(iter(self.monitors)), options(**changes))
        self.now = 0

    def say(self, **states: tuple[State, int] | State) -> None:
        """The replicas' states, or states and ends of their logs; then choose."""
        for name, said in states.items():
            state, end = said if isinstance(said, tuple) else (said, self.input.have)
            monitor = self.monitors[name]
            reply = HeartbeatReply(1, monitor.next_number(0), (status("x", state, end),), 0)
            monitor.replied(reply, 0)
        self.input.choose(self.now)

    def take(self, after: int, upto: int, sender: str = "x1", **flags: bool) -> bool:
        return self.input.take_stable(sender, piece("x", after, upto, **flags), self.now)

    def hint(self, number: int, sender: str = "x1", epoch: int = 1, batch: str = "") -> bool:
        return self.input.take_tentative(sender, tentative("x", number, epoch, batch))

    @property
    def choice(self) -> tuple[str, str | None]:
        return self.input.choice.curr, self.input.choice.bck


def test_where_replicas_take_turns_one_gives_new_tuples_and_one_corrections() -> None:
    r = Reader(staggered=True)
    r.say(x1=UP_FAILURE, x2=UP_FAILURE)
    r.say(x2=STABILIZATION)
    assert r.choice == ("x1", "x2")
    quiet = status("x", STABILIZATION, 0, overlay=False)
    x2 = r.monitors["x2"]
    x2.replied(HeartbeatReply(1, x2.next_number(0), (quiet,), 0), 0)
    r.say(x1=STABILIZATION)
    assert r.choice == ("x1", "x2"), "x1 has its turn too, but is still the one for new tuples"
    r.say(x2=STABLE)
    assert r.choice == ("x2", None)


def test_a_replica_that_does_not_know_yet_that_it_was_paused_is_not_stable() -> None:
    r = Reader()
    r.say(x1=(STABLE, 3), x2=(STABLE, 3))
    r.take(-1, 20)
    r.say(x1=(UP_FAILURE, 20), x2=(STABLE, 3))
    assert r.choice == ("x1", "x2"), "its log ends long before what is here"
    assert not r.input.healthy
    assert not r.input.failed, "but it will have more"
    r.say(x2=(STABLE, 19))
    assert r.choice == ("x2", None)
    assert r.input.healthy


def test_of_replicas_with_a_failed_input_a_slow_one_is_left() -> None:
    r = Reader()
    r.take(-1, 3)
    r.say(x1=(UP_FAILURE, 3), x2=(UP_FAILURE, 3 + r.input.options.lag_buckets))
    assert r.choice == ("x1", None), "a little behind is no reason to leave"
    r.say(x1=(UP_FAILURE, 4), x2=(UP_FAILURE, 5 + r.input.options.lag_buckets))
    assert r.choice == ("x2", None)
    assert not r.input.missing


def test_a_replica_that_sends_quickly_is_not_behind_what_it_sent() -> None:
    r = Reader()
    r.say(x1=(STABLE, 3), x2=(FAILURE, 3))
    r.take(-1, 20)
    r.input.choose(r.now)
    assert r.choice == ("x1", None)
    assert r.input.healthy


def test_logs_that_keep_only_so_much_are_not_waited_for() -> None:
    """x1 could get the next bucket yet, but x2 goes on far beyond it."""

    def gone(x1: State, end: int, **changes: Any) -> int | None:
        r = Reader(**changes)
        r.take(-1, 10)
        r.say(x1=(x1, end))
        ahead = status("x", STABLE, 80, trimmed_upto=60)
        x2 = r.monitors["x2"]
        x2.replied(HeartbeatReply(1, x2.next_number(0), (ahead,), 0), 0)
        return r.input.gone_upto

    assert gone(UP_FAILURE, 10, keep_log=20) == 60
    assert gone(UP_FAILURE, 11, keep_log=20) is None, "it has it"
    assert gone(STABILIZATION, 10, keep_log=20) is None, "it will have it soon"
    assert gone(UP_FAILURE, 10) is None, "logs that keep everything are waited for"


def test_what_is_gone_is_gone_though_full_logs_keep_all_replicas_from_being_stable() -> None:
    def gone(trimmed_upto: int, **changes: Any) -> tuple[int | None, bool]:
        r = Reader(**changes)
        r.take(-1, 10)
        behind = status("x", UP_FAILURE, 80, trimmed_upto=trimmed_upto)
        for monitor in r.monitors.values():
            monitor.replied(HeartbeatReply(1, monitor.next_number(0), (behind,), 0), 0)
        return r.input.gone_upto, r.input.forgotten

    bounds = LogBounds(max_buckets=70)
    assert gone(20) == (None, False), "they will be stable soon"
    assert gone(20, log=bounds) == (20, True)
    assert gone(10, log=bounds) == (None, False)


def test_where_logs_let_go_of_replicas_those_count_that_answer() -> None:
    def forgotten(**changes: Any) -> bool:
        r = Reader(**changes)
        r.take(-1, 10)
        r.say(x1=(STABLE, 10))
        ahead = status("x", STABLE, 80, trimmed_upto=60)
        x1, x2 = r.monitors.values()
        for _ in range(10):
            x1.next_number(0, regular=True)
        x2.replied(HeartbeatReply(1, x2.next_number(0), (ahead,), 0), 0)
        return r.input.forgotten

    assert not forgotten()
    assert forgotten(leases={"n1": Lease(20 * SECOND, ("n2",))})


# --- stable data ------------------------------------------------------------------------


def test_more_than_there_is_room_for_is_not_taken() -> None:
    r = Reader(input_window=16)
    assert not r.take(-1, 16)
    assert r.take(-1, 15)


def test_pieces_that_follow_each_other_are_taken() -> None:
    r = Reader()
    assert r.take(-1, 1)
    assert r.take(1, 3)
    assert r.input.have == 3
    assert sorted(r.input.stable) == [0, 1, 2, 3]


def test_a_piece_behind_a_gap_is_not_taken() -> None:
    r = Reader()
    r.take(-1, 1)
    assert not r.take(2, 3)
    assert r.input.have == 1


def test_a_piece_received_twice_brings_nothing_new() -> None:
    r = Reader()
    r.take(-1, 1)
    assert not r.take(-1, 1)


def test_of_a_piece_that_overlaps_only_the_new_part_counts() -> None:
    r = Reader()
    r.take(-1, 1)
    first = r.input.stable.get(1)
    assert r.take(0, 2)
    assert r.input.stable.get(1) is first
    assert r.input.have == 2


def test_what_every_lane_has_processed_is_forgotten() -> None:
    r = Reader()
    r.take(-1, 3)
    r.input.forget(1)
    assert sorted(r.input.stable) == [2, 3]
    assert r.input.bucket(1) is None


def test_a_restarted_input_begins_behind_the_checkpoint() -> None:
    r = Reader()
    r.input.restart_after(5)
    assert r.input.have == 5
    assert not r.take(-1, 5)
    assert r.take(3, 6)
    assert sorted(r.input.stable) == [6]


# --- the overlay -----------------------------------------------------------------------------


def test_a_stable_bucket_supersedes_what_was_said_tentatively() -> None:
    r = Reader()
    r.say(x1=UP_FAILURE)
    for number in (0, 1, 2):
        r.hint(number, batch="maybe")
    r.take(-1, 1)
    assert sorted(r.input.overlay) == [2]
    found = r.input.bucket(1)
    assert found is not None
    assert found.batch is None, "the stable one"


def test_a_bucket_that_is_stable_is_not_taken_tentatively() -> None:
    r = Reader()
    r.take(-1, 1)
    assert not r.hint(1)
    assert r.hint(2)


def test_only_the_current_and_the_standby_replica_are_believed() -> None:
    r = Reader("x1", "x2", "x3")
    r.say(x1=UP_FAILURE, x2=UP_FAILURE, x3=UP_FAILURE)
    assert r.input.standby in ("x2", "x3")
    other = "x3" if r.input.standby == "x2" else "x2"
    assert r.hint(0, "x1")
    assert r.hint(1, str(r.input.standby))
    assert not r.hint(2, other)


def test_what_one_replica_has_said_another_need_not_repeat() -> None:
    r = Reader()
    r.say(x1=UP_FAILURE, x2=UP_FAILURE)
    r.hint(0, "x1", batch="first")
    assert not r.hint(0, "x2", batch="second")
    assert not r.hint(0, "x1", batch="again")


def test_the_same_replica_may_say_it_anew_in_a_new_overlay() -> None:
    r = Reader()
    r.say(x1=UP_FAILURE)
    r.hint(0, epoch=1, batch="old")
    assert r.hint(0, epoch=2, batch="new")
    found = r.input.bucket(0)
    assert found is not None
    assert found.batch == "new"


def test_of_a_long_overlay_the_most_recent_buckets_are_kept() -> None:
    r = Reader(input_window=16)
    r.say(x1=UP_FAILURE)
    for number in range(100):
        r.hint(number)
    assert len(r.input.overlay) <= 2 * 16 + 1
    assert max(r.input.overlay) == 99


def test_what_is_known_from_a_bucket_on() -> None:
    r = Reader()
    r.take(-1, 1)
    r.hint(4)
    assert r.input.known_from(1) == [1, 4]
    assert r.input.known_from(2) == [4]


# --- windows ---------------------------------------------------------------------------------


def test_there_is_room_for_one_window_beyond_what_was_processed() -> None:
    r = Reader(input_window=16)
    assert r.input.room == 15
    r.take(-1, 9)
    r.input.forget(9)
    assert r.input.room == 25


def test_a_reader_asks_early_when_half_a_window_has_come() -> None:
    r = Reader(send_window=8)
    r.say(x1=(STABLE, 20))
    r.input.want("x1", -1, r.now)
    r.take(-1, 2)
    assert not r.input.waits_for_more
    r.take(2, 3)
    assert r.input.waits_for_more
    r.input.want("x1", -1, r.now)
    assert not r.input.waits_for_more


def test_a_reader_that_has_everything_waits_for_nothing() -> None:
    r = Reader(send_window=8)
    r.say(x1=(STABLE, 7))
    r.take(-1, 7)
    assert not r.input.waits_for_more


# --- what a subscription says --------------------------------------------------------------------


def test_a_subscription_names_the_last_stable_bucket_and_what_followed_tentatively() -> None:
    r = Reader()
    r.say(x1=UP_FAILURE)
    r.take(-1, 2)
    r.hint(3)
    want = r.input.want("x1", 1, r.now)
    assert (want.have, want.tentative, want.acknowledged) == (2, 3, 1)


def test_after_the_corrections_nothing_tentative_is_said_to_follow() -> None:
    r = Reader()
    r.say(x1=UP_FAILURE)
    r.hint(3)
    r.take(-1, 3)
    want = r.input.want("x1", -1, r.now)
    assert (want.have, want.tentative) == (3, 3)


def test_the_log_is_read_from_one_replica_only() -> None:
    r = Reader()
    r.say(x1=UP_FAILURE, x2=STABILIZATION)
    assert r.choice == ("x1", "x2")
    assert not r.input.want("x1", -1, r.now).log, "Curr gives the overlay"
    assert r.input.want("x2", -1, r.now).log, "Bck gives the corrections"
    assert r.input.want("x1", -1, r.now).overlay


def test_beside_the_current_replica_another_is_asked_for_its_overlay() -> None:
    r = Reader()
    r.say(x1=STABLE, x2=STABLE)
    want = r.input.want("x1", -1, r.now)
    assert (want.log, want.overlay, want.head) == (True, True, False)
    other = r.input.want("x2", -1, r.now)
    assert (other.log, other.overlay, other.head) == (False, True, False)


def test_every_replica_hears_what_was_acknowledged() -> None:
    r = Reader()
    assert r.input.want("x2", 7, r.now).acknowledged == 7


# --- which replica -------------------------------------------------------------------------------


def test_a_failed_replica_is_left_for_a_stable_one() -> None:
    r = Reader()
    r.say(x1=STABLE, x2=STABLE)
    assert r.choice == ("x1", None)
    r.say(x1=FAILURE)
    assert r.choice == ("x2", None)


def test_a_stable_replica_that_lags_far_behind_another_does_not_count_as_stable() -> None:
    r = Reader()
    r.say(x1=(STABLE, 1), x2=(STABLE, 50))
    assert r.choice == ("x2", None)


def test_a_replica_whose_log_begins_too_late_cannot_be_read() -> None:
    r = Reader()
    monitor = r.monitors["x1"]
    reply = HeartbeatReply(1, monitor.next_number(0), (status("x", STABLE, 9, trimmed_upto=4),), 0)
    monitor.replied(reply, 0)
    r.say(x2=(STABLE, 9))
    assert r.input.states()["x1"] is FAILURE
    assert r.choice == ("x2", None)


def test_a_replica_that_has_more_but_sends_nothing_is_left() -> None:
    r = Reader()
    r.say(x1=(STABLE, 0), x2=(STABLE, 0))
    for _ in range(8):
        r.now += SECOND // 4
        r.say(x1=(STABLE, 1), x2=(STABLE, 1))
    assert r.choice == ("x2", None)


def test_a_second_tentative_replica_stands_by() -> None:
    r = Reader()
    r.say(x1=UP_FAILURE, x2=UP_FAILURE)
    assert r.input.standby == "x2"
    assert r.input.want("x2", -1, r.now).overlay
    assert not r.input.want("x2", -1, r.now).log


def test_nobody_stands_by_a_stable_replica() -> None:
    r = Reader()
    r.say(x1=UP_FAILURE, x2=UP_FAILURE)
    r.say(x1=STABLE)
    assert r.input.standby is None


def test_healthy_failed_and_missing() -> None:
    r = Reader()
    kinds = {
        STABLE: (True, False, False),
        UP_FAILURE: (False, True, False),
        STABILIZATION: (False, False, False),
        FAILURE: (False, True, True),
    }
    for state, expected in kinds.items():
        r.say(x1=state, x2=FAILURE)
        assert (r.input.healthy, r.input.failed, r.input.missing) == expected, state


def test_after_a_long_failure_a_stable_replica_first_counts_as_stabilizing() -> None:
    """P3 of 4.7.4: the head is read tentatively until the replay has caught up."""
    r = Reader("x1")
    r.say(x1=STABLE)
    r.say(x1=UP_FAILURE)
    r.now += 9 * SECOND
    r.say(x1=UP_FAILURE)
    r.say(x1=(STABLE, 20))
    assert r.input.states()["x1"] is STABILIZATION
    assert r.input.want("x1", -1, r.now).head
    r.take(-1, 20, rec_done=True)
    assert r.input.states()["x1"] is STABLE
    assert not r.input.want("x1", -1, r.now).head


def test_after_a_short_failure_a_stable_replica_is_stable() -> None:
    r = Reader("x1")
    r.say(x1=STABLE)
    r.say(x1=UP_FAILURE)
    r.now += 7 * SECOND
    r.say(x1=UP_FAILURE)
    r.say(x1=(STABLE, 20))
    assert r.input.states()["x1"] is STABLE


def test_corrections_come_from_the_replica_that_still_has_them() -> None:
    """x2 is stable and has forgotten the next bucket, which x1 has and still corrects."""
    r = Reader(keep_log=20)
    r.take(-1, 10)
    for name, state, trimmed_upto in (("x1", STABILIZATION, 10), ("x2", STABLE, 20)):
        monitor = r.monitors[name]
        told = status("x", state, 40 if name == "x2" else 15, trimmed_upto=trimmed_upto)
        monitor.replied(HeartbeatReply(1, monitor.next_number(0), (told,), 0), 0)
    r.input.choose(r.now)
    assert r.choice == ("x2", "x1")
    want = r.input.want("x2", 0, r.now)
    assert want.head, "what is new comes from its log"
    assert not want.log
    assert r.input.want("x1", 0, r.now).log
