"""Broken variants of what stands in front of a source's log (see `broken`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from msgspec import structs

from australis.kernel.ids import pack_id
from australis.kernel.machine import Effect, Event, MessageReceived, Send
from australis.protocols.dpc.clocks import PeerClock
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.source_pair import (
    AcknowledgeRows,
    SourceClaim,
    SourceCopy,
    SourceHeld,
    SourceMember,
    SourceView,
    SourceWitness,
    Standing,
)
from australis.sim.dpc.event_source import SCHEMA, EventSources, EventTimeHost, Memo
from australis.sim.dpc.pairs import MemberHost
from australis.sim.dpc.run import Scenario
from australis.sim.harness.model import Variant
from australis.streams.schema import TupleType
from australis.streams.source import SourceStream


class NeverIdle(SourceStream):
    """Waits for rows, however long none come."""

    def idle_clock(self, now_us: int) -> int | None:
        return None


class WaitsForRows(EventTimeHost):
    """Waits for rows, however long none come."""

    stream_class = NeverIdle


class ForgetsIdleBoundary(EventTimeHost):
    """Takes up its boundary from the newest row after a restart, not from its log."""

    def _restored(self) -> SourceStream:
        newest_us = max(0, self._memo.cursor.newest_us - 1)
        known = self._buckets.closed_by(self._buckets.floor(newest_us))
        self._log.end = min(self._log.end, max(known, self._log.trimmed_upto))
        self._memo = replace(self._memo, end=self._log.end)
        return super()._restored()


class LetsLateThrough(EventTimeHost):
    """Logs a late row in the next bucket, below the boundary that it has published."""

    def _append(self, new: list[Bucket], memo: Memo) -> None:
        let_through = self.late[self._memo.late :]
        if let_through and new[0].batch is None:
            new = [_with_rows(new[0], self._batch(let_through)), *new[1:]]
        super()._append(new, memo)


def _with_rows(bucket: Bucket, rows: pa.RecordBatch) -> Bucket:
    ids = pa.array([pack_id(bucket.number, i) for i in range(rows.num_rows)])
    types = pa.array([int(TupleType.INSERTION)] * rows.num_rows, pa.int8())
    batch = pa.RecordBatch.from_arrays([types, ids, *rows.columns], schema=SCHEMA.arrow)
    return Bucket(bucket.number, bucket.entered_us, batch)


class DropsLate(EventTimeHost):
    """Drops a late row and tells nobody."""

    def _take(self, numbers: list[int]) -> None:
        if numbers:
            self._stream.offer(self._batch(numbers))


def _idle(host: type[EventTimeHost]) -> Callable[[Scenario], Scenario]:
    def apply(scenario: Scenario) -> Scenario:
        sources = scenario.source_host
        assert isinstance(sources, EventSources)
        return replace(scenario, source_host=replace(sources, host=host))

    return apply


# --- two proxies ---------------------------------------------------------------------------------


class NotFenced(SourceMember):
    """Goes on confirming copies of an older view after it has taken over."""

    def _take(self, copy: SourceCopy) -> list[Effect]:
        if copy.view.epoch < self.view.epoch and self.leads:
            held = SourceHeld(
                copy.view, self.incarnation, copy.view.since, copy.upto, copy.rows_upto
            )
            return [Send(self.other, held)]
        return super()._take(copy)

    def _other_holds(self, held: SourceHeld) -> list[Effect]:
        return super()._other_holds(held) if held.view.epoch <= self.view.epoch else []

    def _adopt(self, view: SourceView) -> list[Effect]:
        return [] if self.leads and view.leader != self.name else super()._adopt(view)


class AcknowledgesAlone(SourceMember):
    """Acknowledges a row when it is durable here, before the other proxy has it."""

    def _publish(self) -> list[Effect]:
        effects = super()._publish()
        if self.leads and self.rows > self.safe:
            self.safe = self.rows
            effects.append(AcknowledgeRows(self.stream, self.rows))
        return effects


class PublishesAlone(SourceMember):
    """Publishes a bucket when it is durable here, before the other proxy has it."""

    def _publish(self) -> list[Effect]:
        self.held = max(self.held, self.local)
        return super()._publish()


class BelievesLeadersClock(PeerClock):
    """Takes the entry times of a copy for those of one's own clock."""

    def entered(self, entered_us: int, *, now: int, restored: bool = False) -> int:
        return entered_us


class CopiesEntryTimes(SourceMember):
    """Takes the entry times of a copy for those of its own clock."""

    clock_class = BelievesLeadersClock


class TakesOverBehind(SourceMember):
    """Takes over though it does not hold all that was published."""

    def _claim(self) -> list[Effect]:
        known = self.standing
        if not self.leads and known.since == self.view.since:
            self.standing = structs.replace(known, synced=True)
        effects = super()._claim()
        self.standing = known
        return effects

    def _may_lead(self, view: SourceView) -> bool:
        return view.leader == self.name


class KeepsItsView(SourceMember):
    """Waits for the other proxy, which was granted a view that it cannot take."""

    def _gives_back(self, held: SourceHeld) -> bool:
        return False


class TakesItBack(SourceMember):
    """Goes on where it was when it was deposed, though the other proxy leads."""

    def _adopt(self, view: SourceView) -> list[Effect]:
        led = self.leads
        effects = super()._adopt(view)
        if not led or self.leads:
            return effects
        return [*effects, *self._save(structs.replace(self.standing, synced=True))]


class GrantsTwice(SourceWitness):
    """Grants a view to both proxies."""

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        match event:
            case MessageReceived(sender=sender, message=SourceClaim(view=view)):
                return [Send(sender, view)]
        return super().handle(event, now)


class TakesRowsWhenFull(MemberHost):
    """Takes rows however full the source's log is."""

    @property
    def full(self) -> bool:
        return False


class KeepsCopies(SourceMember):
    """Keeps in the copy what the leader's log has forgotten."""

    def _trim(self, upto: int) -> list[Effect]:
        return []


class ForgetsStanding(MemberHost):
    """Forgets what it was when it restarts, and begins a log of its own."""

    def boot(self, bucket_us: int) -> None:
        if self.incarnation:
            self._standing = Standing(SourceView(1, self.name, True, 1), 1)
        super().boot(bucket_us)


def _pair(**fields: Any) -> Callable[[Scenario], Scenario]:
    return lambda scenario: replace(scenario, **fields)


SOURCE_VARIANTS: Mapping[str, Variant[Scenario]] = {
    name: Variant(name, str(host.__doc__), _idle(host), (caught_by,), range(first, 60), "idle")
    for name, host, first, caught_by in (
        ("waits for rows", WaitsForRows, 0, "masked"),
        ("forgets idle boundary", ForgetsIdleBoundary, 6, "disks"),
        ("lets late through", LetsLateThrough, 10, "rows"),
        ("drops late", DropsLate, 0, "rows"),
    )
} | {
    name: Variant(
        name, str(kind.__doc__), _pair(**{field: kind}), caught, range(first, 60), "standby"
    )
    for name, field, kind, caught, first in (
        ("not fenced", "member_class", NotFenced, ("one log",), 0),
        ("acknowledges alone", "member_class", AcknowledgesAlone, ("acknowledged",), 0),
        ("publishes alone", "member_class", PublishesAlone, ("one log",), 0),
        ("takes over behind", "member_class", TakesOverBehind, ("one log",), 0),
        ("keeps its view", "member_class", KeepsItsView, ("liveness",), 40),
        ("takes it back", "member_class", TakesItBack, ("one log",), 0),
        ("grants twice", "witness_class", GrantsTwice, ("one log",), 0),
        ("takes rows when full", "member_host", TakesRowsWhenFull, ("log bounds",), 0),
        ("copies entry times", "member_class", CopiesEntryTimes, ("entered",), 30),
        ("keeps copies", "member_class", KeepsCopies, ("log bounds",), 0),
        ("forgets standing", "member_host", ForgetsStanding, ("one log",), 0),
    )
}
