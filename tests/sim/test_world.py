"""The simulated world: order, timers, crashes, pauses and clocks."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from australis.kernel.machine import (
    Effect,
    Event,
    Message,
    MessageReceived,
    Send,
    SetTimer,
    TimerFired,
)
from australis.kernel.trace import Trace
from australis.sim.network import Link, Network
from australis.sim.world import Clock, Host, World

LATENCY = 10


class Ping(Message, frozen=True, tag=True):
    text: str = ""


class Started(Event, frozen=True):
    pass


class Recorder:
    """Writes down what it hears, and does what it was told to do when it starts."""

    def __init__(self, *effects: Effect) -> None:
        self._effects = effects
        self.heard: list[tuple[int, str]] = []

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        match event:
            case TimerFired(name=name):
                self.heard.append((now, name))
            case MessageReceived(message=Ping(text=text)):
                self.heard.append((now, text))
            case Started():
                return self._effects
        return []


def world(trace: Trace | None = None) -> World:
    return World(Network(Random(1), Link(latency_us=LATENCY, jitter_us=0)), trace)


def host(
    where: World, *effects: Effect, name: str = "a", clock: Clock | None = None
) -> tuple[Host, Recorder]:
    made, machine = Host(where, name, clock), Recorder(*effects)
    made.start(machine, Started())
    return made, machine


# --- time ------------------------------------------------------------------------------------


def test_what_happens_at_the_same_moment_happens_as_it_was_planned() -> None:
    w, seen = world(), []
    for name, when in (("late", 9), ("b", 5), ("a", 5), ("first", 1), ("c", 5)):
        w.at(when, seen.append, name)
    w.run(10)
    assert seen == ["first", "b", "a", "c", "late"]


def test_what_is_planned_meanwhile_for_now_still_happens() -> None:
    w, seen = world(), []
    w.at(5, lambda: w.at(5, seen.append, "nested"))
    w.at(5, seen.append, "planned before")
    w.run(5)
    assert seen == ["planned before", "nested"]


def test_the_world_stops_at_the_moment_it_was_told() -> None:
    w, seen = world(), []
    w.at(5, seen.append, 5)
    w.at(6, seen.append, 6)
    w.run(5)
    assert (w.now, seen) == (5, [5])
    w.run(20)
    assert (w.now, seen) == (20, [5, 6])


# --- timers ----------------------------------------------------------------------------------


def test_a_timer_fires_once_at_its_time() -> None:
    w = world()
    _, machine = host(w, SetTimer("tick", 5))
    w.run(100)
    assert machine.heard == [(5, "tick")]


def test_a_later_timer_of_the_same_name_replaces_the_earlier_one() -> None:
    w = world()
    _, machine = host(w, SetTimer("t", 5), SetTimer("t", 9), SetTimer("other", 7))
    w.run(100)
    assert machine.heard == [(7, "other"), (9, "t")]


def test_a_timer_can_be_brought_forward() -> None:
    w = world()
    _, machine = host(w, SetTimer("t", 9), SetTimer("t", 5))
    w.run(100)
    assert machine.heard == [(5, "t")]


def test_the_same_timer_set_twice_fires_once() -> None:
    w = world()
    _, machine = host(w, SetTimer("t", 5), SetTimer("t", 5))
    w.run(100)
    assert machine.heard == [(5, "t")]


def test_a_timer_in_the_past_fires_at_once() -> None:
    w = world()
    w.run(50)
    _, machine = host(w, SetTimer("t", 5))
    w.run(50)
    assert machine.heard == [(50, "t")]


# --- messages ---------------------------------------------------------------------------------


def test_a_message_arrives_after_the_latency() -> None:
    w = world()
    _, b = host(w, name="b")
    host(w, Send("b", Ping("hi")))
    w.run(100)
    assert b.heard == [(LATENCY, "hi")]
    assert w.delivered == 1


def test_a_message_to_nobody_is_dropped() -> None:
    w = world()
    host(w, Send("nobody", Ping()))
    w.run(100)
    assert w.delivered == 0


def test_whoever_taps_sees_every_message_that_arrives() -> None:
    w, seen = world(), []
    w.tap = lambda to, sender, message: seen.append((to, sender, message))
    host(w, name="b")
    host(w, Send("b", Ping("hi")))
    w.run(100)
    assert seen == [("b", "a", Ping("hi"))]


# --- crashes and pauses ------------------------------------------------------------------------


def test_a_crash_drops_timers_and_planned_work() -> None:
    w, done = world(), []
    a, machine = host(w, SetTimer("t", 20))
    a.later(20, done.append, "work")
    w.at(10, a.crash)
    w.run(100)
    assert machine.heard == []
    assert done == []


def test_messages_to_a_node_that_is_down_are_lost() -> None:
    w = world()
    a, machine = host(w)
    a.crash()
    w.deliver("b", "a", Ping())
    assert machine.heard == []


def test_a_new_life_hears_nothing_of_the_old_ones_timers() -> None:
    w = world()
    a, _ = host(w, SetTimer("old", 20))
    second = Recorder(SetTimer("new", 30))
    w.at(10, a.crash)
    w.at(15, a.start, second, Started())
    w.run(100)
    assert second.heard == [(30, "new")]


def test_a_message_sent_before_the_crash_still_arrives_elsewhere() -> None:
    w = world()
    _, b = host(w, name="b")
    a, _ = host(w, Send("b", Ping("last words")))
    w.at(1, a.crash)
    w.run(100)
    assert b.heard == [(LATENCY, "last words")]


def test_a_paused_node_takes_everything_in_order_when_it_goes_on() -> None:
    w = world()
    a, machine = host(w, SetTimer("t", 20))
    w.at(10, a.pause)
    w.at(15, w.deliver, "b", "a", Ping("early"))
    w.at(25, w.deliver, "b", "a", Ping("late"))
    w.at(40, a.resume)
    w.run(100)
    assert machine.heard == [(40, "early"), (40, "t"), (40, "late")]


def test_a_crash_ends_a_pause_and_what_was_waiting() -> None:
    w = world()
    a, machine = host(w)
    a.pause()
    w.deliver("b", "a", Ping("waiting"))
    a.crash()
    a.resume()
    assert machine.heard == []
    a.start(machine, Started())
    w.deliver("b", "a", Ping("anew"))
    assert machine.heard == [(0, "anew")]


# --- traces --------------------------------------------------------------------------------------


def test_a_trace_tells_how_a_timer_came_about() -> None:
    trace = Trace()
    w = world(trace)
    machine = Recorder(SetTimer("t", 5), Send("b", Ping("hi")))
    w.at(0, Host(w, "a").start, machine, Started())
    w.at(0, Host(w, "b").start, Recorder(), Started())
    w.run(100)
    arrived = trace.last("MessageReceived")
    assert arrived is not None
    assert [e.text.split("(")[0] for e in trace.story(arrived.id)] == [
        "Started",
        "Send",
        "MessageReceived",
    ]
    fired = trace.last("TimerFired")
    assert fired is not None
    assert [e.text.split("(")[0] for e in trace.story(fired.id)] == [
        "Started",
        "SetTimer",
        "TimerFired",
    ]


def test_a_run_is_the_same_with_and_without_a_trace() -> None:
    seen = []
    for trace in (None, Trace()):
        w = world(trace)
        _, b = host(w, name="b")
        host(w, Send("b", Ping("1")), SetTimer("t", 3), Send("b", Ping("2")))
        w.run(100)
        seen.append(b.heard)
    assert seen[0] == seen[1]


# --- clocks -----------------------------------------------------------------------------------------


def test_a_plain_clock_shows_the_time() -> None:
    assert Clock().local(7) == Clock().world(7) == 7


def test_an_offset_is_added() -> None:
    assert Clock(offset_us=-3).local(10) == 7
    assert Clock(offset_us=-3).world(7) == 10


def test_a_fast_clock_runs_ahead() -> None:
    assert Clock(drift=0.01).local(1_000) == 1_010


MOMENTS = st.integers(0, 10**12)
CLOCKS = st.builds(Clock, st.integers(-(10**7), 10**7), st.floats(-0.01, 0.01))


@given(CLOCKS, MOMENTS)
def test_the_moment_of_a_reading_is_the_first_that_shows_it(clock: Clock, moment: int) -> None:
    reading = clock.local(moment)
    first = clock.world(reading)
    assert first <= moment
    assert clock.local(first) >= reading
    assert first <= 0 or clock.local(first - 1) < reading


@given(CLOCKS, MOMENTS, MOMENTS)
def test_a_clock_never_runs_backwards(clock: Clock, one: int, other: int) -> None:
    early, late = sorted((one, other))
    assert clock.local(early) <= clock.local(late)


@given(st.integers(-1_000, 1_000), st.floats(-0.01, 0.01), st.integers(1, 10**7))
def test_a_timer_fires_when_the_nodes_own_clock_shows_it(
    offset: int, drift: float, at: int
) -> None:
    w, clock = world(), Clock(offset, drift)
    _, machine = host(w, SetTimer("t", at), clock=clock)
    w.run(2 * 10**7)
    ((shown, _),) = machine.heard
    due = max(at, clock.local(0))
    assert due <= shown <= due + 1
