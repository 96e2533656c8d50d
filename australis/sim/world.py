"""A deterministic world: simulated time, an event heap, nodes and the network between them.

Events at the same moment happen in the order in which they were planned, so a run depends on its
seed alone. The world knows no protocol: it drives machines (`kernel.machine`) and carries out the
effects every machine may ask for; a `Host` adds what else its machine needs (disks, engines).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from australis.kernel.machine import (
    Effect,
    Event,
    Machine,
    Message,
    MessageReceived,
    Send,
    SetTimer,
    TimerFired,
    describe,
)
from australis.kernel.trace import NO_CAUSE, Trace
from australis.sim.network import Network


class World:
    """Simulated time and the heap of planned events."""

    def __init__(self, network: Network, trace: Trace | None = None) -> None:
        self.now = 0
        self.network = network
        self.trace = trace
        self.cause = NO_CAUSE
        self.hosts: dict[str, Host] = {}
        self.delivered = 0
        self.tap: Callable[[str, str, Message], None] | None = None
        """An observer of every message that arrives: receiver, sender, message."""
        self._heap: list[tuple[int, int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._planned = 0
        self._deliver = self.deliver

    def at(self, when: int, call: Callable[..., None], *args: Any) -> None:
        """Plan a call, caused by the event that is being handled."""
        self._planned += 1
        heapq.heappush(self._heap, (when, self._planned, self.cause, call, args))

    def run(self, until: int) -> None:
        """Run all events planned up to this moment."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until:
            self.now, _, self.cause, call, args = pop(heap)
            call(*args)
        self.now = until

    def send(self, sender: str, to: str, message: Message) -> None:
        """Give a message to the network, which decides when it arrives, and how often."""
        for when in self.network.deliveries(sender, to, self.now):
            self._planned += 1
            heapq.heappush(
                self._heap, (when, self._planned, self.cause, self._deliver, (sender, to, message))
            )

    def deliver(self, sender: str, to: str, message: Message) -> None:
        """Deliver a message to its node, if the node is up."""
        host = self.hosts.get(to)
        if host is not None:
            self.delivered += 1
            if self.tap is not None:
                self.tap(to, sender, message)
            host.take(MessageReceived(sender, message))

    def note(self, node: str, thing: Any) -> None:
        """Write an entry into the trace; it becomes the cause of what follows."""
        if self.trace is not None:
            text = thing if isinstance(thing, str) else describe(thing)
            self.cause = self.trace.add(self.cause, self.now, node, text)


class Clock:
    """A node's own clock: it is off by `offset_us` and runs fast or slow by `drift`."""

    def __init__(self, offset_us: int = 0, drift: float = 0.0) -> None:
        self._offset_us = offset_us
        self._rate = 1.0 + drift
        self._plain = drift == 0.0

    @property
    def exact(self) -> bool:
        """Whether it shows the world's time."""
        return self._plain and self._offset_us == 0

    def step(self, by_us: int) -> None:
        """Set the clock forward, or back."""
        self._offset_us += by_us

    def local(self, world_us: int) -> int:
        """What the clock shows at this moment."""
        if self._plain:
            return world_us + self._offset_us
        return int(world_us * self._rate) + self._offset_us

    def world(self, local_us: int) -> int:
        """The first moment at which the clock shows this."""
        moment = local_us - self._offset_us
        if self._plain:
            return moment
        moment = int(moment / self._rate)
        while self.local(moment) < local_us:
            moment += 1
        return moment


class Host:
    """A node in the world: its machine while it runs, its clock and its timers."""

    def __init__(self, world: World, name: str, clock: Clock | None = None) -> None:
        self.world = world
        self.name = name
        self.clock = clock or Clock()
        self.machine: Machine | None = None
        self.incarnation = 0
        """The number of starts; calls planned by an earlier incarnation are dropped."""
        self.paused = False
        self._waiting: list[tuple[int, Event]] = []
        self._timers: dict[str, int] = {}
        self._performers: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            SetTimer: self._set_timer,
        }
        world.hosts[name] = self

    # --- lifecycle --------------------------------------------------------------------

    def start(self, machine: Machine, event: Event) -> None:
        """Begin an incarnation with this machine and its first event."""
        self.incarnation += 1
        self.machine = machine
        self.take(event)

    def crash(self) -> None:
        """End this incarnation: the machine and all its pending work are gone."""
        self.machine = None
        self.paused = False
        self.incarnation += 1
        self._waiting.clear()
        self._timers.clear()

    def pause(self) -> None:
        """Pause the node; events that arrive meanwhile are queued."""
        self.paused = self.machine is not None

    def resume(self) -> None:
        """Resume the node, beginning with the queued events."""
        self.paused = False
        waiting, self._waiting = self._waiting, []
        for cause, event in waiting:
            self.world.cause = cause
            self.take(event)

    # --- events and effects ----------------------------------------------------------

    def take(self, event: Event) -> None:
        """Hand an event to the machine and perform its effects."""
        machine = self.machine
        if machine is None:
            return
        world = self.world
        if self.paused:
            self._waiting.append((world.cause, event))
            return
        now = world.now if self.clock.exact else self.clock.local(world.now)
        if world.trace is None:
            for _ in self._carried_out(machine, event, now):
                pass
            return
        world.note(self.name, event)
        cause = world.cause
        for effect in self._carried_out(machine, event, now):
            world.cause = cause
            world.note(self.name, effect)
        world.cause = cause

    def _carried_out(self, machine: Machine, event: Event, now: int) -> Iterator[Effect]:
        """The effects of an event, each one performed before the next is given."""
        for effect in machine.handle(event, now):
            yield effect
            self._performers[type(effect)](effect)

    def later(self, delay_us: int, call: Callable[..., None], *args: Any) -> None:
        """Plan a call that is dropped when this incarnation ends."""
        self.world.at(self.world.now + delay_us, self._in_incarnation, self.incarnation, call, args)

    def _in_incarnation(
        self, incarnation: int, call: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        if incarnation == self.incarnation:
            call(*args)

    def _send(self, effect: Send) -> None:
        self.world.send(self.name, effect.to, effect.message)

    def _set_timer(self, effect: SetTimer) -> None:
        if self._timers.get(effect.name) == effect.at:
            return
        self._timers[effect.name] = effect.at
        due = max(self.world.now, self.clock.world(effect.at))
        self.world.at(due, self._fire, self.incarnation, effect.name, effect.at)

    def _fire(self, incarnation: int, name: str, at: int) -> None:
        if incarnation == self.incarnation and self._timers.get(name) == at:
            del self._timers[name]
            self.take(TimerFired(name))
