"""Sources whose rows carry their own times, and which give none for a while now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from australis.kernel.machine import SetTimer
from australis.protocols.dpc.effects import BucketClosed
from australis.protocols.dpc.messages import Bucket
from australis.sim.dpc.hosts import SourceHost
from australis.sim.dpc.truth import Span
from australis.streams.buckets import Buckets
from australis.streams.schema import TIMESTAMP, parse_schema
from australis.streams.source import Cursor, SourceStream

SCHEMA = parse_schema("k string, v int")
TICK_US = 100_000
ROW_EVERY_US = 150_000
HELD_BACK = 0.3
"""The share of the rows of a quiet time that come when it is over."""


@dataclass(frozen=True)
class Memo:
    """What a log stores with each append."""

    end: int = -1
    cursor: Cursor = Cursor()  # noqa: RUF009
    late: int = 0


class Rows:
    """The rows of one source, each with its number as value: what it gives, and when."""

    def __init__(self, quiet: Iterable[Span], rng: Random) -> None:
        self._quiet = tuple(quiet)
        self._rng = rng
        self._held: list[int] = []
        self._next = 0
        self.given: list[int] = []
        """The numbers of the rows in the order in which they came."""

    def due(self, now_us: int) -> list[int]:
        """The numbers of the rows that come by now."""
        found: list[int] = []
        while self.stime_us(self._next) <= now_us:
            at = self.stime_us(self._next)
            if not any(begin <= at < end for begin, end in self._quiet):
                found += [*self._held, self._next]
                self._held = []
            elif self._rng.random() < HELD_BACK:
                self._held.append(self._next)
            self._next += 1
        self.given += found
        return found

    def stime_us(self, number: int) -> int:
        """The time that a row carries."""
        return (number + 1) * ROW_EVERY_US


class EventTimeHost(SourceHost):
    """A source proxy in front of such rows: it journals them, and its log ends with their times.

    What the rows have given is in the journal, and acknowledged. An append is atomic, with its
    memo.
    """

    stream_class = SourceStream

    def __init__(self, *args: Any, idle_us: int | None, quiet: Iterable[Span]) -> None:
        super().__init__(*args)
        self._idle_us = idle_us
        self.rows = Rows(quiet, self._rng)
        self.late: list[int] = []
        """The numbers of late rows; the first `_late_synced` are durable."""
        self._late_synced = 0
        self._memo = Memo()
        self._buckets = Buckets()
        self._in_flight: tuple[list[Bucket], Memo] | None = None

    def boot(self, bucket_us: int) -> None:
        """Start; rows wait for a proxy that is down."""
        self._buckets = Buckets(bucket_us)
        self._stream = self._restored()
        self._next_late = self._memo.late
        self._take(self.rows.given[self._memo.cursor.resume :])
        super().boot(bucket_us)

    def waits(self, number: int) -> bool:
        """Whether a row waits for its bucket to close."""
        return self.rows.stime_us(number) > self._buckets.end(self._log.end)

    def _restored(self) -> SourceStream:
        return self.stream_class(
            SCHEMA,
            self._buckets,
            idle_us=self._idle_us,
            boundary_us=self._buckets.end(self._log.end),
            cursor=self._memo.cursor,
        )

    def crash(self) -> None:
        if self._in_flight is not None and self._rng.random() < 0.5:
            self._commit(*self._in_flight)  # it was on the disk, though nothing was told of it
        self._in_flight = None
        del self.late[self._rng.randint(self._late_synced, len(self.late)) :]
        super().crash()

    def _tick(self) -> None:
        now = self.clock.local(self.world.now)
        self._set_timer(SetTimer("close", now + TICK_US))
        self._take(self.rows.due(now))
        step = self._stream.close(self._stream.due_boundary(self._stream.idle_clock(now)))
        if step is None:
            return
        batches = dict(step.buckets)
        first = self._log.end if self._in_flight is None else self._in_flight[1].end
        upto = self._buckets.closed_by(step.boundary_us)
        new = [Bucket(n, now, batches.get(n)) for n in range(first + 1, upto + 1)]
        self._late_synced = len(self.late)
        self._append(new, Memo(upto, step.cursor, self._next_late))

    def _append(self, new: list[Bucket], memo: Memo) -> None:
        before = [] if self._in_flight is None else self._in_flight[0]
        waiting = self._in_flight is not None
        self._in_flight = ([*before, *new], memo)
        if not waiting:
            self.later(self._costs.sync_us, self._synced)

    def _synced(self) -> None:
        assert self._in_flight is not None
        (new, memo), self._in_flight = self._in_flight, None
        self._commit(new, memo)
        self.probe.entered(self.name, new, self.world.now)
        after = max(self._log.trimmed_upto, memo.end - len(new))
        self.take(BucketClosed(self.name, memo.end, self._log.digests(after, memo.end)))

    def _commit(self, new: list[Bucket], memo: Memo) -> None:
        self._log.append(new)
        self._log.sync()
        self._memo = memo

    def _take(self, numbers: list[int]) -> None:
        """Take rows that are in the journal; the late ones are written down once."""
        if not numbers:
            return
        late = self._stream.offer(self._batch(numbers))
        for number in late.rows.column("v").to_pylist():
            if self._next_late >= len(self.late):
                self.late.append(number)
            self._next_late += 1

    def _batch(self, numbers: list[int]) -> pa.RecordBatch:
        columns = [
            pa.array([self.rows.stime_us(n) for n in numbers], TIMESTAMP),
            pa.array([f"k{n % 3}" for n in numbers]),
            pa.array(numbers, pa.int32()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._stream.row_schema)


@dataclass(frozen=True)
class EventSources:
    """Makes the hosts of sources: those with quiet times have rows with their own times."""

    quiet: Mapping[str, tuple[Span, ...]]
    idle_us: int | None
    host: Callable[..., EventTimeHost] = EventTimeHost

    def __call__(self, world: Any, name: str, *args: Any) -> SourceHost:
        if name not in self.quiet:
            return SourceHost(world, name, *args)
        return self.host(world, name, *args, idle_us=self.idle_us, quiet=self.quiet[name])

    @property
    def holds_back_us(self) -> int:
        """The longest time for which a source without rows holds back the others."""
        return 0 if self.idle_us is None else self.idle_us + 2 * TICK_US + ROW_EVERY_US
