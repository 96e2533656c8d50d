"""Logs that one thread writes and others read, and the stored state of an output's writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pyarrow as pa

from australis.protocols.dpc.digests import KEPT
from australis.protocols.dpc.messages import Bucket, LogDigest
from australis.streams.buckets import END_OF_STREAM_US, Buckets
from australis.streams.entry_times import Runs
from australis.streams.log import Record, StableLog
from australis.streams.schema import Schema
from australis.streams.soutput import OutputState, SOutput


class SharedLog(StableLog):
    """A stable log with the entry times of its buckets (`node.ports.LogPort`)."""

    entry_clock: Callable[[], int] | None = None
    """The clock of a source's log, whose buckets enter when they are appended."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._lock = threading.RLock()
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    @property
    def closed(self) -> int:
        """The last bucket that the boundary closes."""
        return self.buckets.closed_by(self.boundary_us)

    @property
    def position(self) -> tuple[int, bytes]:
        """The boundary and the writer's state as of the same append."""
        with self._lock:
            return self.boundary_us, self.memo

    # --- one writer, many readers ----------------------------------------------------------

    def append(
        self, buckets: Sequence[tuple[int, pa.RecordBatch]], boundary_us: int, memo: bytes = b""
    ) -> None:
        with self._lock:
            if self.entry_clock is not None and boundary_us < END_OF_STREAM_US:
                upto = self.buckets.closed_by(boundary_us)
                self._entries.note(self.closed, [(upto, self.entry_clock())])
            super().append(buckets, boundary_us, memo)

    def _between(self, after: int, upto: int) -> list[tuple[int, Record]]:
        with self._lock:
            return super()._between(after, upto)

    def rows_between(self, after: int, upto: int) -> int:
        with self._lock:
            return super().rows_between(after, upto)

    def reaching_back(self, upto: int, most_bytes: int) -> int:
        with self._lock:
            return super().reaching_back(upto, most_bytes)

    @property
    def kept_bytes(self) -> int:
        with self._lock:
            return super().kept_bytes

    def truncate(self, upto: int) -> int:
        with self._lock:
            return super().truncate(upto)

    def restart_at(
        self, bucket: int, memo: bytes = b"", digest: tuple[int, int] | None = None
    ) -> None:
        with self._lock:
            super().restart_at(bucket, memo, digest)

    def replace(
        self,
        after: int,
        buckets: Sequence[tuple[int, pa.RecordBatch]],
        upto: int,
        memo: bytes,
        digest: tuple[int, int] | None = None,
        entered: Runs = (-1, []),
    ) -> None:
        """Hold the buckets (after, upto] of another log instead; no reader sees half of that.

        `digest` is the other log's rolling digest up to `after`, with its base.
        """
        with self._lock:
            self.restart_at(after, digest=digest)
            self._entries.note(*entered)
            self._entries.clip(upto)
            self.append(buckets, self.buckets.end(upto), memo)

    # --- its digest -------------------------------------------------------------------------

    def digest(self, bucket: int) -> LogDigest:
        """The rolling digest up to a bucket, which must not have been dropped."""
        with self._lock:
            return LogDigest(self.digest_base, bucket, self.digest_at(bucket))

    def recent_digests(self, after: int, upto: int) -> tuple[tuple[int, int], ...]:
        """The digests up to the last buckets of (after, upto] that hold tuples."""
        with self._lock:
            return tuple(self.digests(after, upto, KEPT))

    # --- entry times ------------------------------------------------------------------------

    def note_entries(self, after: int, runs: Sequence[tuple[int, int]]) -> None:
        """Record when the buckets after `after` entered the system."""
        with self._lock:
            self._entries.note(after, runs)

    def entries_between(self, after: int, upto: int) -> Runs:
        """The entry times of the buckets (after, upto], as runs."""
        with self._lock:
            return self._entries.between(after, upto)

    def entry_times(self, after: int, upto: int) -> list[Bucket]:
        """The buckets (after, upto] as a listing of entry times alone."""
        with self._lock:
            edges = list(self._entries.edges(after, upto))
            if upto > after and (not edges or edges[-1] < upto):
                edges.append(upto)
            return [self._bucket(number) for number in edges]

    def listed(self, after: int, upto: int) -> Iterator[Bucket]:
        """The buckets (after, upto] with their tuples, listed as in a `Span`."""
        bare = iter(self.entry_times(after, upto))
        waiting = next(bare, None)
        for number, batch in self.read(after, upto):
            while waiting is not None and waiting.number < number:
                yield waiting
                waiting = next(bare, None)
            if waiting is not None and waiting.number == number:
                waiting = next(bare, None)
            with self._lock:
                listed = self._bucket(number, batch)
            yield listed
        while waiting is not None:
            yield waiting
            waiting = next(bare, None)

    def _bucket(self, number: int, batch: pa.RecordBatch | None = None) -> Bucket:
        at = self._entries.at(number)
        entered = self.buckets.end(number) if at is None else at
        return Bucket(number, entered, batch, self.digest_at(number))


class _Memo(msgspec.Struct, frozen=True, array_like=True):
    """An output's state as stored in the commit file."""

    batch_id: int
    frontier_us: int
    held: bytes
    after: int
    upto: int
    began: int = -1


def encode_state(state: OutputState) -> bytes:
    """The state of an output, as bytes for the log's commit file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, state.held.schema) as writer:
        writer.write_table(state.held)
    held: bytes = sink.getvalue().to_pybytes() if state.held.num_rows else b""
    return msgspec.msgpack.encode(
        _Memo(state.batch_id, state.frontier_us, held, state.after, state.upto, state.began)
    )


def decode_state(memo: bytes, schema: Schema) -> OutputState | None:
    """The state that `encode_state` wrote; None if there is none."""
    if not memo:
        return None
    saved = msgspec.msgpack.decode(memo, type=_Memo)
    empty = SOutput(schema, Buckets()).row_schema.empty_table()
    held = pa.ipc.open_stream(saved.held).read_all() if saved.held else empty
    return OutputState(
        saved.batch_id, saved.frontier_us, held, saved.after, saved.upto, saved.began
    )
