"""Sources with two proxies in the simulated world: their members and their witness."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from msgspec.structs import replace

from australis.kernel.machine import SetTimer, TimerFired
from australis.node import hosts
from australis.node.hosts import MachineHost
from australis.protocols.dpc.effects import BucketClosed, LimitSource, RestoredLog, Started
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.source_pair import (
    AcknowledgeRows,
    CopyStored,
    FollowSource,
    LeadSource,
    RowsJournalled,
    SaveStanding,
    SendCopy,
    SourceCopy,
    SourceMember,
    SourceView,
    SourceWitness,
    Standing,
    StoreCopy,
)
from australis.sim.dpc.engine import Digest
from australis.sim.dpc.hosts import Costs, DpcHost
from australis.sim.dpc.probes import Probe
from australis.sim.dpc.store import SimLog
from australis.sim.world import Clock, World

TICK_US = 100_000


class Producers:
    """The producers of one source: they give rows to the member that takes some, once each."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.given = 0
        """The rows have the numbers below this one."""
        self.acknowledged: set[int] = set()

    def some(self) -> list[int]:
        """Between no and three new rows."""
        first, self.given = self.given, self.given + self._rng.randint(0, 3)
        return list(range(first, self.given))


class MemberHost(DpcHost):
    """A proxy that stamps rows when they arrive, so that two would never write the same log."""

    machine: SourceMember

    def __init__(
        self,
        world: World,
        name: str,
        clock: Clock,
        probe: Probe,
        make: Callable[[Standing, int], SourceMember],
        producers: Producers,
        costs: Costs,
        rng: Random,
        copy_buckets: int,
    ) -> None:
        """A member that puts no more than so many buckets into one copy."""
        super().__init__(world, name, clock, probe)
        self._make = make
        self._producers = producers
        self._costs = costs
        self._rng = rng
        self._copy_buckets = copy_buckets
        self._limit: int | None = None
        self._max_bytes: int | None = None
        self.was_full = False
        """Whether it has taken no rows for a while because its log was full."""
        self._bucket_us = 1
        self.wipe()

    def _host_of(self, machine: SourceMember) -> MachineHost:
        return hosts.SourceMemberHost(machine, self, self)

    def log(self, stream: str = "") -> SimLog:
        """The member's log."""
        return self._log

    # --- lifecycle -------------------------------------------------------------------------

    def wipe(self) -> None:
        """Lose the disk."""
        self._log = SimLog()
        self._standing = Standing()
        self._journal: list[int] = []
        """All rows that were ever journalled here or at the leaders before."""
        self._logged = 0
        """How many of them the log holds; written with each append."""

    def boot(self, bucket_us: int) -> None:
        """Start with what is on the disk."""
        self._bucket_us = bucket_us
        self._leads = False
        self._told = -1
        self._storing = 0
        self._limit = None
        machine = self._make(self._standing, len(self._journal))
        log = self._log
        self._max_bytes = machine.options.bounds_of(machine.stream).max_bytes
        lane = RestoredLog(
            *(machine.stream, log.end, log.trimmed_upto, log.end),
            fits_after=log.fits_after(self._max_bytes),
        )
        self.start(machine, Started(self.incarnation + 1, (lane,)))

    def crash(self) -> None:
        super().crash()
        self._leads = False

    def take(self, event: Any) -> None:
        if isinstance(event, TimerFired) and event.name == "rows":
            if self.machine is not None and not self.paused:
                self._tick()
            elif self.paused:
                super().take(event)
            return
        super().take(event)
        self._observe()

    def _observe(self) -> None:
        """Tell the checkers what is published now."""
        machine = self.machine
        if machine is not None and machine.leads and machine.end > self._told:
            after = max(self._told, self._log.trimmed_upto)
            self.probe.entered(machine.stream, self._log.read(after, machine.end), self.world.now)
            self._told = machine.end

    @property
    def unpublished(self) -> list[int]:
        """The rows that it has and that are not published yet."""
        rows = self._journal[self._logged :]
        for bucket in self._log.read(max(self.machine.end, self._log.trimmed_upto), self._log.end):
            rows += [] if bucket.batch is None else [int(r) for r in bucket.batch.value.split()]
        return rows

    # --- the source, while this member leads -------------------------------------------------

    def lead(self, effect: LeadSource) -> None:
        """Take rows from now on, after the copies that are being stored."""
        self._leads = True
        if not self._storing:
            self._set_timer(SetTimer("rows", self.clock.local(self.world.now)))

    def follow(self, effect: FollowSource) -> None:
        """Take no more rows."""
        self._leads = False

    def limit(self, effect: LimitSource) -> None:
        """Take no rows for buckets beyond this one for now."""
        self._limit = effect.upto

    @property
    def full(self) -> bool:
        """Whether the log has no room for more buckets."""
        log = self._log
        limited = self._limit is not None and log.end >= self._limit
        return limited or log.trimmed_upto < log.fits_after(self._max_bytes)

    def _tick(self) -> None:
        if not self._leads:
            return
        now = self.clock.local(self.world.now)
        self._set_timer(SetTimer("rows", now + TICK_US))
        if self.full:
            self.was_full = True
            return
        came = self._producers.some()
        if came:
            self.later(self._costs.sync_us, self._journalled, came)
        over = now // self._bucket_us - 1
        if over > self._log.end:
            self.later(2 * self._costs.sync_us, self._closed, over, now)

    def _journalled(self, rows: list[int]) -> None:
        if self._leads:
            self._journal += rows
            self.take(RowsJournalled(self.machine.stream, len(self._journal)))

    def _closed(self, upto: int, now: int) -> None:
        first = self._log.end + 1
        if not self._leads or upto < first:
            return
        rows = self._journal[self._logged :]
        new = [
            Bucket(n, now, self._batch(rows) if n == upto else None) for n in range(first, upto + 1)
        ]
        self._append(new)
        self._logged = len(self._journal)
        fits_after = self._log.fits_after(self._max_bytes)
        self.take(BucketClosed(self.machine.stream, upto, fits_after=fits_after))

    def _append(self, new: list[Bucket]) -> None:
        self.probe.extended(self.name, self.machine.stream, new, leads=self._leads)
        self._log.append(new)
        self._log.sync()

    def _batch(self, rows: list[int]) -> Digest | None:
        return Digest(b" ".join(b"%d" % row for row in rows), len(rows)) if rows else None

    # --- the pair ------------------------------------------------------------------------------

    def save(self, effect: SaveStanding) -> None:
        """Write the standing."""
        self._standing = effect.standing

    def acknowledge(self, effect: AcknowledgeRows) -> None:
        """Acknowledge rows that wait here."""
        if self._leads:
            self._producers.acknowledged.update(self._journal[: effect.rows])

    def copies(self, effect: SendCopy) -> Iterable[SourceCopy]:
        """The journal as it is by now, and the log or the first buckets of it."""
        copy, log = effect.copy, self._log
        after = max(copy.after, log.trimmed_upto)
        upto = min(log.end, after + self._copy_buckets)
        partial = upto < log.end
        yield replace(
            copy,
            upto=upto,
            rows_upto=len(self._journal),
            buckets=log.read(after, upto),
            rows=tuple(self._journal),
            memo=None if partial else self._logged,
            partial=partial,
        )

    def store(self, effect: StoreCopy) -> None:
        """Write a copy."""
        self._storing += 1
        self.later(self._costs.sync_us, self._stored, effect.copy)

    def _stored(self, copy: SourceCopy) -> None:
        self._storing -= 1
        log = self._log
        if copy.whole:
            log.begin_at(copy.after)
        if copy.upto >= log.end:
            self._append([b for b in copy.buckets if b.number > log.end])
            self._logged = copy.memo or 0
        if copy.whole or copy.rows_upto > len(self._journal):
            self._journal = list(copy.rows)
        fits_after = log.fits_after(self._max_bytes)
        self.take(CopyStored(self.machine.stream, copy, fits_after=fits_after))
        if self._leads and not self._storing:
            self._set_timer(SetTimer("rows", self.clock.local(self.world.now)))


class SimWitness(DpcHost):
    """The node of a witness, whose disk is never lost."""

    def __init__(
        self,
        world: World,
        name: str,
        clock: Clock,
        probe: Probe,
        make: Callable[[str, SourceView], SourceWitness],
        stream: str,
    ) -> None:
        super().__init__(world, name, clock, probe)
        self._make = make
        self._stream = stream
        self._view = SourceView()

    def _host_of(self, machine: Any) -> MachineHost:
        return hosts.WitnessHost(self.name, machine, self, self.save)

    def save(self, effect: SaveStanding) -> None:
        """Write the view."""
        self._view = effect.standing.view

    def boot(self) -> None:
        """Start with the view on the disk."""
        self.start(self._make(self._stream, self._view), Started(self.incarnation + 1))
