"""Deliberately broken variants that take clocks for other than they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from australis.protocols.dpc.clocks import PeerClock
from australis.protocols.dpc.monitor import Data, Monitor
from australis.sim.dpc.run import Scenario
from australis.sim.harness.model import Variant


class BelievesClocks(PeerClock):
    """Takes the clocks of other nodes for right."""

    def entered(self, entered_us: int, *, now: int, restored: bool = False) -> int:
        return entered_us


class CorrectsBackwards(PeerClock):
    """Adds the offset of a clock instead of subtracting it."""

    def entered(self, entered_us: int, *, now: int, restored: bool = False) -> int:
        assert self.estimate is not None
        return min(now, entered_us + self.estimate.offset_us)


class ForgetsOffset(PeerClock):
    """Forgets how far a clock was off before its node was restarted."""

    def entered(self, entered_us: int, *, now: int, restored: bool = False) -> int:
        return super().entered(entered_us, now=now)


class CorrectsOnce(Monitor):
    """Corrects entry times only at the first hop, where they come from a source."""

    def in_own_clock(self, data: Data, now: int) -> Data | None:
        ours = super().in_own_clock(data, now)
        return data if "/" in self.node and ours is not None else ours


def _replicas(monitor: type[Monitor], scenario: Scenario) -> Scenario:
    broken = type("Broken", (scenario.replica_class,), {"monitor_class": monitor})
    return replace(scenario, replica_class=broken)


def _client(monitor: type[Monitor], scenario: Scenario) -> Scenario:
    broken = type("Broken", (scenario.client_class,), {"monitor_class": monitor})
    return replace(scenario, client_class=broken)


def _monitor(kind: type[PeerClock]) -> type[Monitor]:
    return type("Broken", (Monitor,), {"clock_class": kind})


_LIST: list[tuple[str, type, Callable[[type[Monitor], Scenario], Scenario], type[Monitor], str]] = [
    ("believes clocks", BelievesClocks, _replicas, _monitor(BelievesClocks), "delay"),
    ("corrects backwards", CorrectsBackwards, _replicas, _monitor(CorrectsBackwards), "delay"),
    ("corrects once", CorrectsOnce, _replicas, CorrectsOnce, "delay"),
    ("forgets offset", ForgetsOffset, _replicas, _monitor(ForgetsOffset), "masked"),
    ("a client believes clocks", BelievesClocks, _client, _monitor(BelievesClocks), "entered"),
]
CLOCK_VARIANTS: Mapping[str, Variant[Scenario]] = {
    name: Variant(
        *(name, str(kind.__doc__).strip(), partial(apply, monitor), (caught_by,)),
        *(range(60), "clocks"),
    )
    for name, kind, apply, monitor, caught_by in _LIST
}
