"""The thread that drives machines: what waits for it is bounded, whatever it is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from australis.kernel.machine import (
    Effect,
    Event,
    MessageReceived,
    SetTimer,
    TimerFired,
)
from australis.live.node.driver import WAITING_BYTES, WAITING_MESSAGES, Driver
from australis.protocols.dpc.messages import ReconcileDone

MESSAGE = MessageReceived("a", ReconcileDone(1))


class Machine:
    """Sets the timers it is given, at each event anew."""

    def __init__(self, *timers: SetTimer) -> None:
        self.timers = timers
        self.heard: list[Event] = []

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        self.heard.append(event)
        return self.timers


class Host:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def perform(self, effect: Effect) -> None:
        raise AssertionError(effect)


def test_only_so_many_messages_wait() -> None:
    driver = Driver(lambda error: None)
    for _ in range(WAITING_MESSAGES + 10):
        driver.post("b", MESSAGE)
    assert len(driver._events) == WAITING_MESSAGES
    assert driver.overflowed == 10
    driver.post("b", TimerFired("what is no message always fits"))
    assert len(driver._events) == WAITING_MESSAGES + 1


def test_only_so_many_bytes_wait() -> None:
    driver = Driver(lambda error: None)
    for _ in range(10):
        driver.post("b", MESSAGE, size=WAITING_BYTES // 4)
    assert len(driver._events) == 4
    assert driver.overflowed == 6


def test_a_single_message_always_fits_and_room_comes_back() -> None:
    errors: list[BaseException] = []
    driver = Driver(errors.append)
    driver.post("b", MESSAGE, size=10 * WAITING_BYTES)
    driver.post("b", MESSAGE, size=1)
    assert driver.overflowed == 1
    machine = Machine()
    driver.start({"b": Host(machine)}, {})
    _until(lambda: len(machine.heard) == 1)
    driver.post("b", MESSAGE, size=WAITING_BYTES)
    _until(lambda: len(machine.heard) == 2)
    driver.stop()
    assert not errors


def test_a_timer_beyond_all_time_stops_nothing() -> None:
    errors: list[BaseException] = []
    driver = Driver(errors.append)
    machine = Machine(SetTimer("never", 1 << 62), SetTimer("late", 253_370_764_800_000_000))
    driver.start({"b": Host(machine)}, {"b": MESSAGE})
    for n in range(2, 200):
        driver.post("b", MESSAGE)
        _until(lambda n=n: len(machine.heard) == n)  # type: ignore[misc]
    assert len(driver._due) == 2, "a timer that is set again as it was waits once"
    driver.stop()
    assert not errors


def _until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.001)
