"""Deliberately broken variants of what is done about disks that lie (see `broken`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from msgspec import structs

from australis.kernel.errors import Damaged
from australis.kernel.machine import Effect
from australis.protocols.dpc.messages import Bucket, SubscriptionState
from australis.protocols.dpc.proxies import SourceMachine
from australis.sim.dpc.hosts import ReplicaHost
from australis.sim.dpc.run import Scenario
from australis.sim.dpc.store import LaneStore, SimLog
from australis.sim.harness.model import Variant


class ReadsUnchecked(SimLog):
    """Gives out tuples whose checksum does not fit them."""

    def _rotten(self, number: int) -> Bucket:
        return structs.replace(self._buckets[number], batch=None)


class TakesDamageForCrash(SimLog):
    """Takes a log that ends too early for one whose last writes a crash has torn."""

    def refuse_damage(self) -> None:
        self.mark = self.end


class TakesCrashForDamage(SimLog):
    """Takes a log that ends with a torn write for a damaged one."""

    torn = False

    def crash(self, rng: Random) -> None:
        before = self.end
        super().crash(rng)
        self.torn |= self.end < before

    def refuse_damage(self) -> None:
        super().refuse_damage()
        if self.torn:
            raise Damaged("the last write is not whole")


class IgnoresCheckpoint(LaneStore):
    """Opens a log that ends before its checkpoint, and goes on behind the hole."""

    def refuse_damage(self) -> None:
        self.log.mark = self.log.end
        self.log.refuse_damage()


class SaysNothing(ReplicaHost):
    """Sets damaged state aside without a word."""

    def _refuse_damage(self, stream: str, store: LaneStore) -> None:
        try:
            store.refuse_damage()
        except Damaged:
            store.begin_as_new(self._engines[stream].initial)


class AcceptsOldSource(SourceMachine):
    """Serves a source's log to consumers that have read more of it, or something else."""

    def _compare(self, sender: str, want: SubscriptionState) -> list[Effect]:
        return []


def _torn(scenario: Scenario) -> Scenario:
    """The variant, with syncs so slow that crashes tear writes."""
    costs = replace(scenario.costs, sync_us=400_000)
    return replace(_stored(TakesCrashForDamage)(scenario), costs=costs)


def _stored(kind: type[SimLog] | type[LaneStore]) -> Callable[[Scenario], Scenario]:
    if issubclass(kind, SimLog):
        kind = type("Broken", (LaneStore,), {"log_class": kind})
    host: Any = type("Broken", (ReplicaHost,), {"store_class": kind})
    return lambda scenario: replace(scenario, replica_host=host)


_LIST: list[tuple[str, type, Callable[[Scenario], Scenario], tuple[str, ...]]] = [
    ("reads unchecked", ReadsUnchecked, _stored(ReadsUnchecked), ("logs", "stable")),
    ("damage for a crash", TakesDamageForCrash, _stored(TakesDamageForCrash), ("disks",)),
    ("crash for damage", TakesCrashForDamage, _torn, ("disks",)),
    ("ignores checkpoint", IgnoresCheckpoint, _stored(IgnoresCheckpoint), ("logs",)),
    (
        "sets aside silently",
        SaysNothing,
        lambda s: replace(s, replica_host=SaysNothing),
        ("disks",),
    ),
    (
        "accepts an old source",
        AcceptsOldSource,
        lambda scenario: replace(scenario, source_class=AcceptsOldSource),
        ("disks",),
    ),
]
DISK_VARIANTS: Mapping[str, Variant[Scenario]] = {
    name: Variant(name, str(kind.__doc__), apply, caught_by, range(60), "disks")
    for name, kind, apply, caught_by in _LIST
}
