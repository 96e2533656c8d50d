"""The thread that drives machines: what waits for it is bounded, whatever it is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from australis.kernel.machine import (
    Effect,
    Event,
    MessageReceived,
    SetTimer,
    TimerFired,
)
from australis.node.admission import SENDER_BUDGETS, Rank
from australis.node.hosts import MachineHost
from australis.node.machine import NodeMachine
from australis.protocols.dpc.messages import ReconcileDone
from australis.runtime.node.driver import Driver

pytestmark = pytest.mark.unit

MAX_QUEUED_MESSAGES = SENDER_BUDGETS[Rank.PEER].messages
MAX_QUEUED_BYTES = SENDER_BUDGETS[Rank.PEER].bytes
MESSAGE = MessageReceived("a", ReconcileDone(1))


class Machine:
    """Sets the timers it is given, at each event anew."""

    def __init__(self, *timers: SetTimer) -> None:
        self.timers = timers
        self.heard: list[Event] = []

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        self.heard.append(event)
        return self.timers


class Ports:
    """What the host of the machine needs; nothing but timers is asked for."""

    driver: Driver

    def set_timer(self, machine: str, effect: SetTimer) -> None:
        self.driver.set_timer(machine, effect)


def driven(errors: list[BaseException], machine: Machine) -> Driver:
    """A driver of a node on which one machine runs."""
    node, ports = NodeMachine("n"), Ports()
    ports.driver = Driver(node, errors.append)
    node.open(MachineHost("b", machine, ports))  # type: ignore[arg-type]
    return ports.driver


def test_only_so_many_messages_wait() -> None:
    driver = driven([], Machine())
    for _ in range(MAX_QUEUED_MESSAGES + 10):
        driver.offer("b", MESSAGE)
    assert len(driver._events) == MAX_QUEUED_MESSAGES
    assert driver.overflowed == 10
    driver.post("b", TimerFired("what is of this node always fits"))
    driver.post("b", MESSAGE)
    assert len(driver._events) == MAX_QUEUED_MESSAGES + 2


def test_only_so_many_bytes_wait() -> None:
    driver = driven([], Machine())
    for _ in range(10):
        driver.offer("b", MESSAGE, size=MAX_QUEUED_BYTES // 4)
    assert len(driver._events) == 4
    assert driver.overflowed == 6


def test_a_single_message_always_fits_and_room_comes_back() -> None:
    errors: list[BaseException] = []
    machine = Machine()
    driver = driven(errors, machine)
    driver.offer("b", MESSAGE, size=10 * MAX_QUEUED_BYTES)
    driver.offer("b", MESSAGE, size=1)
    assert driver.overflowed == 1
    driver.start({})
    _until(lambda: len(machine.heard) == 1)
    driver.offer("b", MESSAGE, size=MAX_QUEUED_BYTES)
    _until(lambda: len(machine.heard) == 2)
    driver.stop()
    assert not errors


def test_a_timer_beyond_all_time_stops_nothing() -> None:
    errors: list[BaseException] = []
    machine = Machine(SetTimer("never", 1 << 62), SetTimer("late", 253_370_764_800_000_000))
    driver = driven(errors, machine)
    driver.start({"b": MESSAGE})
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


def test_what_happens_to_a_machine_that_is_gone_has_no_effects() -> None:
    errors: list[BaseException] = []
    machine = Machine(SetTimer("soon", 1))
    driver = driven(errors, machine)
    driver.start({"b": MESSAGE})
    _until(lambda: len(machine.heard) > 1)
    driver.node.close("b")
    driver.post("b", MESSAGE)
    driver.post("nobody", MESSAGE)
    _until(lambda: not driver._events)
    driver.stop()
    assert not errors
