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
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from australis.kernel.machine import Effect, Event, Machine, MessageReceived, SetTimer, TimerFired
from australis.live.node.entries import NO_ENTRY, brief, no_entries
from australis.live.node.trace import Trace

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


class Driver:
    """One thread for all machines of a node."""

    def __init__(
        self,
        on_error: Callable[[BaseException], None],
        clock: Clock | None = None,
        next_entry: Callable[[], str] = no_entries,
    ) -> None:
        self.clock = clock or Clock()
        self.hosts: dict[str, Host] = {}
        self.trace: Trace | None = None
        """Where everything is written down, if anybody wants that."""
        self.entry = NO_ENTRY
        """What is being handled now: the cause of all that is done about it."""
        self.overflowed = 0
        self._on_error = on_error
        self._next_entry = next_entry
        self._cause = NO_ENTRY
        self._event: Event | None = None
        self._events: deque[tuple[str, str, Event, int]] = deque()
        self._messages = 0
        self._bytes = 0
        self._timers: dict[tuple[str, str], int] = {}
        self._due: list[tuple[int, int, str, str, str]] = []
        """When, in which order, for which machine, which timer, and the entry that set it."""
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

    def post(self, machine: str, event: Event, cause: str = NO_ENTRY, size: int = 0) -> None:
        """Something has happened to a machine, because of an entry; from any thread."""
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

    def about(self) -> dict[str, str]:
        """What is being handled now, for whoever tells of it; nothing on any other thread."""
        here = threading.current_thread() is self._thread
        if not here or self._event is None or self.entry == NO_ENTRY:
            return {}
        caused = {"cause": self._cause} if self._cause != NO_ENTRY else {}
        return {"id": self.entry, **caused, "on": brief(self._event)}

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

    def _next(self) -> tuple[str, str, Event] | None:
        with self._changed:
            while not self._stopping:
                now = self.clock.now()
                if self._due and self._due[0][0] <= now:
                    at, _, machine, name, cause = heapq.heappop(self._due)
                    if self._timers.get((machine, name)) == at:
                        del self._timers[machine, name]
                        return cause, machine, TimerFired(name)
                elif self._events:
                    cause, machine, event, size = self._events.popleft()
                    self._messages -= isinstance(event, MessageReceived)
                    self._bytes -= size
                    return cause, machine, event
                else:
                    wait = (self._due[0][0] - now) / 1e6 if self._due else LONGEST_WAIT_S
                    self._changed.wait(min(wait, LONGEST_WAIT_S))
        return None

    def _handle(self, cause: str, machine: str, event: Event) -> None:
        host = self.hosts[machine]
        now = self.clock.now()
        self.entry = self._next_entry()
        self._cause, self._event = cause, event
        for effect in self._effects(host, machine, event, now):
            if type(effect) is SetTimer:
                self._set_timer(machine, effect)
            else:
                host.perform(effect)

    def _effects(self, host: Host, machine: str, event: Event, now: int) -> Sequence[Effect]:
        if self.trace is None:
            return host.machine.handle(event, now)
        self.trace.handled(now, machine, self.entry, self._cause, event)
        effects = host.machine.handle(event, now)
        self.trace.effects(now, machine, self.entry, effects)
        if type(event) is not MessageReceived:
            self.trace.looked(now, machine, host.machine)
        return effects

    def _set_timer(self, machine: str, effect: SetTimer) -> None:
        if self._timers.get((machine, effect.name)) == effect.at:
            return
        self._timers[machine, effect.name] = effect.at
        self._set += 1
        heapq.heappush(self._due, (effect.at, self._set, machine, effect.name, self.entry))
