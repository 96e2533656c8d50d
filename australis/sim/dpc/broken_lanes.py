"""Deliberately broken variants of what tentative lanes are given and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from australis.kernel.machine import Event
from australis.protocols.dpc.effects import DropLane, ForkLane, RunTentative, TentativeDone
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import TentativeData
from australis.protocols.dpc.spans import Spans
from australis.sim.dpc.hosts import ReplicaHost


class DropsOverlay(Input):
    """Gives the tentative lane nothing of what is known tentatively."""

    def spans(self, number: int) -> Spans:
        return super().spans(number) if number <= self.have else ()


class LosesArrivals(Input):
    """Ignores every third tentative bucket that it receives."""

    def take_tentative(self, sender: str, data: TentativeData) -> bool:
        return data.bucket.number % 3 > 0 and super().take_tentative(sender, data)


class SaysNothing(ReplicaHost):
    """Says of every tentative bucket that it is empty."""

    def take(self, event: Event) -> None:
        empty = type(event) is TentativeDone
        super().take(structs.replace(event, batch=None) if empty else event)


class IgnoresInputs(ReplicaHost):
    """Runs the tentative lane on empty inputs."""

    def _tentative(self, e: RunTentative, inputs: Any) -> None:
        super()._tentative(e, [(number, (None,) * len(those)) for number, those in inputs])


class ForksOldState(ReplicaHost):
    """Forks the tentative lane from the last checkpoint, which may be older than its inputs."""

    def fork(self, e: ForkLane) -> None:
        super().fork(e)
        self._forks[e.output] = e.epoch, self.stores[e.output].state


class CountsTwice(ReplicaHost):
    """Runs every bucket of an epoch twice through its tentative lane."""

    def _tentative(self, e: RunTentative, inputs: Any) -> None:
        super()._tentative(e, [*inputs, *inputs])


class ForksLeftLane(ReplicaHost):
    """Begins a tentative lane where the one before it has ended."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._left: dict[str, Any] = {}

    def drop(self, e: DropLane) -> None:
        self._left[e.output] = self._forks[e.output][1]
        super().drop(e)

    def fork(self, e: ForkLane) -> None:
        super().fork(e)
        self._forks[e.output] = e.epoch, self._left.get(e.output, self._forks[e.output][1])


INPUTS: Mapping[str, type[Input]] = {"drops overlay": DropsOverlay, "loses arrivals": LosesArrivals}
HOSTS: Mapping[str, type[ReplicaHost]] = {
    "says nothing": SaysNothing,
    "ignores inputs": IgnoresInputs,
    "old fork": ForksOldState,
    "rows twice": CountsTwice,
    "lane goes on": ForksLeftLane,
}
