"""The thread that drives a node's machines.

It takes one event at a time (a message, a timer, a completion), hands it to the machine
it is for, and has the effects executed, in order, before the next one. Long operations
run on other threads, which post an event on completion.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections.abc import Callable, Mapping

from australis.kernel.machine import Event, MessageReceived, SetTimer, TimerFired
from australis.node.admission import MessageQueue, Rank
from australis.node.machine import NodeMachine
from australis.runtime.node.entries import NO_ENTRY, brief, no_entries
from australis.runtime.node.trace import TraceFile

NUDGE_TIMEOUT_S = 0.1
MAX_WAIT_S = 3600.0
"""The longest single wait of the driver thread; a timer may be due later than one wait can last."""


SHIFT = "AUSTRALIS_CLOCK_SHIFT_S"
"""The variable by which tests shift a node's clock, in seconds."""


def shifted_clock() -> WallClock:
    """A node's clock: the wall clock, unless a test shifts it."""
    return WallClock(float(os.environ.get(SHIFT, "0")))


class Call(Event, frozen=True):
    """Something to be done on the driver's thread."""

    what: Callable[[], None]


class WallClock:
    """The wall clock in microseconds, monotonic while the process runs."""

    def __init__(self, shift_s: float = 0.0) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns() + int(shift_s * 1e9)

    def now(self) -> int:
        """The current time."""
        return (time.monotonic_ns() + self._offset_ns) // 1000


class Driver:
    """The driver thread of all machines of a node."""

    def __init__(
        self,
        node: NodeMachine,
        on_error: Callable[[BaseException], None],
        clock: WallClock | None = None,
        next_entry: Callable[[], str] = no_entries,
        messages_per_s: float = float("inf"),
    ) -> None:
        """A driver that takes so many messages from each client or guest."""
        self.node = node
        self.clock = clock or WallClock()
        self.trace: TraceFile | None = None
        """The file that records every handled event, if the cluster file asks for one."""
        self.entry = NO_ENTRY
        """The entry that is being handled now, which is the cause of its effects."""
        self.turns = 0
        """The number of times that the thread has looked for work, which grows while it runs."""
        self._on_error = on_error
        self._next_entry = next_entry
        self._cause = NO_ENTRY
        self._event: Event | None = None
        self._events: MessageQueue[tuple[str, str, Event]] = MessageQueue(messages_per_s)
        self._timers: dict[tuple[str, str], int] = {}
        self._due: list[tuple[int, int, str, str, str]] = []
        """The pending timers: time, order, machine, name, and the entry that set the timer."""
        self._set = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)

    def start(self, first: Mapping[str, Event]) -> None:
        """Start the thread and hand each machine its first event."""
        for name, event in first.items():
            self.post(name, event)
        self._thread.start()

    @property
    def dropped(self) -> dict[Rank, int]:
        """The messages that were over a budget, by the rank of their senders."""
        return {rank: self._events.dropped[rank] for rank in Rank}

    @property
    def overflowed(self) -> int:
        """The messages that were over a budget, all together."""
        return sum(self.dropped.values())

    def post(self, machine: str, event: Event, cause: str = NO_ENTRY) -> None:
        """Queue an event for a machine, with the entry that caused it; callable from any thread.

        Messages between machines of this node are such events; those of others have `offer`.
        """
        with self._changed:
            self._events.put((cause, machine, event))
            self._changed.notify()

    def call(self, what: Callable[[], None]) -> None:
        """Have something done on the driver's thread, between two events."""
        self.post("", Call(what))

    def has_room(self, rank: Rank, sender: str, size: int) -> bool:
        """Whether a message of a sender would be taken; otherwise it is counted as dropped."""
        with self._changed:
            return self._events.has_room(rank, sender, size, time.monotonic())

    def offer(
        self,
        machine: str,
        event: MessageReceived,
        cause: str = NO_ENTRY,
        size: int = 0,
        rank: Rank = Rank.PEER,
        sender: str = "",
    ) -> bool:
        """Queue a message, unless its sender is over a budget; returns whether there was room.

        The sender is the machine that sent it, unless another name is given.
        """
        with self._changed:
            what, by = (cause, machine, event), sender or event.sender
            taken = self._events.put_message(what, rank, by, size, time.monotonic())
            self._changed.notify()
            return taken

    def nudge(self) -> None:
        """Wake the thread, so that it makes a turn though it has nothing to do."""
        if self._changed.acquire(timeout=NUDGE_TIMEOUT_S):
            self._changed.notify()
            self._changed.release()

    @property
    def handling(self) -> str:
        """The event that was handed to a machine last."""
        return "" if self._event is None else brief(self._event)

    @property
    def died(self) -> bool:
        """Whether the thread has ended though it was not to."""
        return self._thread.ident is not None and not (self._stopping or self._thread.is_alive())

    def about(self) -> dict[str, str]:
        """The event being handled now, as fields for logging; empty on any other thread."""
        here = threading.current_thread() is self._thread
        if not here or self._event is None or self.entry == NO_ENTRY:
            return {}
        caused = {"cause": self._cause} if self._cause != NO_ENTRY else {}
        return {"id": self.entry, **caused, "on": brief(self._event)}

    def stop(self) -> None:
        """Stop the thread; events that are still queued are dropped."""
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
                self.turns += 1
                now = self.clock.now()
                if self._due and self._due[0][0] <= now:
                    at, _, machine, name, cause = heapq.heappop(self._due)
                    if self._timers.get((machine, name)) == at:
                        del self._timers[machine, name]
                        return cause, machine, TimerFired(name)
                elif (taken := self._events.take()) is not None:
                    return taken
                else:
                    wait = (self._due[0][0] - now) / 1e6 if self._due else MAX_WAIT_S
                    self._changed.wait(min(wait, MAX_WAIT_S))
        return None

    def _handle(self, cause: str, machine: str, event: Event) -> None:
        now = self.clock.now()
        if isinstance(event, Call):
            event.what()
            return
        self.entry = self._next_entry()
        self._cause, self._event = cause, event
        if self.trace is None:
            for _ in self.node.handle(machine, event, now):
                pass
        else:
            self._handle_traced(self.trace, machine, event, now)

    def _handle_traced(self, trace: TraceFile, machine: str, event: Event, now: int) -> None:
        host = self.node.hosts.get(machine)
        its = None if host is None else host.machine
        trace.handled(now, machine, self.entry, self._cause, event, its)
        for effect in self.node.handle(machine, event, now):
            trace.effect(now, machine, self.entry, effect, its)
        if host is not None and type(event) is not MessageReceived:
            trace.looked(now, machine, host.machine)

    def set_timer(self, machine: str, effect: SetTimer) -> None:
        """Set a timer of a machine; called only while one of its events is handled."""
        if self._timers.get((machine, effect.name)) == effect.at:
            return
        self._timers[machine, effect.name] = effect.at
        self._set += 1
        heapq.heappush(self._due, (effect.at, self._set, machine, effect.name, self.entry))
