"""The thread that drives a node's machines.

It takes one event at a time (a message, a timer, something that was done), hands it to
the machine it is for, and has the effects carried out, in order, before the next one.
Whatever takes long happens on other threads, which post an event when it is done.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from australis.kernel.machine import Effect, Event, Machine, MessageReceived, SetTimer, TimerFired
from australis.kernel.trace import NO_CAUSE

WAITING_MESSAGES = 4096
"""More messages than this do not wait for one node's thread: it is overloaded."""
WAITING_BYTES = 256 << 20
"""Nor do more bytes, unless it is a single message."""
LONGEST_WAIT_S = 3600.0
"""A timer may be due so late that no thread can wait for it at once."""


class Clock:
    """The wall clock, in microseconds; while a process runs it never goes back."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        """The time now."""
        return (time.monotonic_ns() + self._offset_ns) // 1000


class Host(Protocol):
    """A machine with all it needs but messages and timers."""

    @property
    def machine(self) -> Machine:
        """What decides."""
        ...

    def perform(self, effect: Effect) -> None:
        """Carry out an effect that is no timer."""
        ...


class Note(Protocol):
    """Writes down what happened, for whoever wants a trace."""

    def __call__(self, cause: int, at_us: int, node: str, thing: Any) -> int:
        """Note one thing; the id by which it is the cause of others."""
        ...


def _no_note(cause: int, at_us: int, node: str, thing: Any) -> int:
    return NO_CAUSE


class Driver:
    """One thread for all machines of a node."""

    def __init__(
        self,
        on_error: Callable[[BaseException], None],
        clock: Clock | None = None,
        note: Note = _no_note,
    ) -> None:
        self.clock = clock or Clock()
        self.hosts: dict[str, Host] = {}
        self.cause = NO_CAUSE
        """What is being carried out now, for whoever writes it down."""
        self.overflowed = 0
        self._on_error = on_error
        self._note = note
        self._events: deque[tuple[int, str, Event, int]] = deque()
        self._messages = 0
        self._bytes = 0
        self._timers: dict[tuple[str, str], int] = {}
        self._due: list[tuple[int, int, str, str]] = []
        self._set = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)

    def start(self, hosts: Mapping[str, Host], first: Mapping[str, Event]) -> None:
        """Begin, each machine with its first event."""
        self.hosts.update(hosts)
        for name, event in first.items():
            self.post(name, event)
        self._thread.start()

    def post(self, machine: str, event: Event, cause: int = NO_CAUSE, size: int = 0) -> None:
        """Something has happened to a machine; from any thread."""
        with self._changed:
            if isinstance(event, MessageReceived):
                full = self._bytes > 0 and self._bytes + size > WAITING_BYTES
                if full or self._messages >= WAITING_MESSAGES:
                    self.overflowed += 1
                    return
                self._messages += 1
                self._bytes += size
            self._events.append((cause, machine, event, size))
            self._changed.notify()

    def stop(self) -> None:
        """End; what has been posted and not handed over is dropped."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while (taken := self._next()) is not None:
                self._handle(*taken)
        except BaseException as error:
            self._on_error(error)

    def _next(self) -> tuple[int, str, Event] | None:
        with self._changed:
            while not self._stopping:
                now = self.clock.now()
                if self._due and self._due[0][0] <= now:
                    at, _, machine, name = heapq.heappop(self._due)
                    if self._timers.get((machine, name)) == at:
                        del self._timers[machine, name]
                        return NO_CAUSE, machine, TimerFired(name)
                elif self._events:
                    cause, machine, event, size = self._events.popleft()
                    self._messages -= isinstance(event, MessageReceived)
                    self._bytes -= size
                    return cause, machine, event
                else:
                    wait = (self._due[0][0] - now) / 1e6 if self._due else LONGEST_WAIT_S
                    self._changed.wait(min(wait, LONGEST_WAIT_S))
        return None

    def _handle(self, cause: int, machine: str, event: Event) -> None:
        host = self.hosts[machine]
        now = self.clock.now()
        self.cause = self._note(cause, now, machine, event)
        for effect in host.machine.handle(event, now):
            if type(effect) is SetTimer:
                self._set_timer(machine, effect)
            else:
                host.perform(effect)

    def _set_timer(self, machine: str, effect: SetTimer) -> None:
        if self._timers.get((machine, effect.name)) == effect.at:
            return
        self._timers[machine, effect.name] = effect.at
        self._set += 1
        heapq.heappush(self._due, (effect.at, self._set, machine, effect.name))
