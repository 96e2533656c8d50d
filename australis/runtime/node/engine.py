"""The engine of a replica as its host sees it: lanes, their completions, and snapshots."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from australis.kernel.machine import Event
from australis.protocols.dpc.effects import (
    Checkpoint,
    DropLane,
    ForkLane,
    InstallSnapshot,
    RememberSources,
    RunStable,
    RunTentative,
    ShipSnapshot,
    SkipAhead,
    StableDone,
)
from australis.protocols.dpc.messages import Snapshot
from australis.protocols.dpc.options import LogBounds
from australis.runtime.logs import SharedLog
from australis.runtime.node.lane_work import LaneWork
from australis.runtime.node.lanes import Lanes


class LiveEngine:
    """The engine of one replica, which delegates to its lanes (`node.ports.EnginePort`)."""

    def __init__(
        self,
        machine: str,
        lanes: Lanes,
        work: LaneWork,
        post: Callable[[str, Event, str], None],
        install: Callable[[str, InstallSnapshot], None],
        bounds: Callable[[str], LogBounds],
        remember: Callable[[RememberSources], None] = lambda effect: None,
    ) -> None:
        """An engine that hands completions to `post`, with the entry that asked for them."""
        self.remember = remember
        self.machine = machine
        self.lanes = lanes
        self.work = work
        self._post = post
        self._install = install
        self._bounds = bounds

    def start(self) -> None:
        """Start the lanes."""
        self.lanes.start(
            lambda event: self._post(self.machine, self._sized(event), self.work.done(event))
        )

    def _sized(self, event: Event) -> Event:
        """A completion, with what fits the bytes of a log that has grown."""
        if not isinstance(event, StableDone):
            return event
        return replace(event, fits_after=self.fits_after(event.output))

    def fits_after(self, stream: str) -> int:
        """The bucket after which the log of an output fits its bytes."""
        return self.log(stream).fits_after(self._bounds(stream).max_bytes)

    def log(self, stream: str) -> SharedLog:
        return self.lanes.log(stream)

    def run_stable(self, effect: RunStable) -> None:
        self.work.asked(effect)
        self.lanes.run_stable(effect)

    def run_tentative(self, effect: RunTentative) -> None:
        self.work.asked(effect)
        self.lanes.run_tentative(effect)

    def checkpoint(self, effect: Checkpoint) -> None:
        self.work.asked(effect)
        self.lanes.checkpoint(effect)

    def fork(self, effect: ForkLane) -> None:
        self.work.asked(effect)
        self.lanes.fork(effect)

    def drop(self, effect: DropLane) -> None:
        self.work.asked(effect)
        self.lanes.drop(effect)

    def skip_ahead(self, effect: SkipAhead) -> None:
        self.work.asked(effect)
        self.lanes.skip(effect)

    def shipment(self, effect: ShipSnapshot) -> Snapshot:
        """Describe the latest checkpoint; the other node fetches its files, which may be large."""
        return Snapshot(effect.stream, effect.upto, effect.at_us, self.machine)

    def install(self, effect: InstallSnapshot) -> None:
        self._install(self.machine, effect)
