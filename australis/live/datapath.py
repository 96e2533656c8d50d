"""The DataPath: the logs of all streams, and what the lanes ask of them.

It holds a stable log for each logged stream and, for each lane, the pure halves
of SUnion and SOutput and what releases its micro-batches. It only moves data: which
buckets may be read and which rows may be appended is decided in `streams`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa

from australis.spark.checkpoint import batch_offsets
from australis.streams.buckets import END_OF_STREAM_US, Buckets
from australis.streams.log import Record, StableLog
from australis.streams.release import BEFORE_ALL, Batch, Release, bucket_at, share
from australis.streams.schema import Schema
from australis.streams.soutput import OutputState, SOutput
from australis.streams.sunion import MergedSchema, SUnion

ROWS_PER_BATCH = 1 << 20
"""A micro-batch takes at most so many tuples, but always a whole bucket."""
CHUNK_ROWS = 1 << 14
"""So many tuples, or a whole bucket, are merged and sent at a time."""


class SharedLog(StableLog):
    """A stable log that one thread writes and others read."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._lock = threading.RLock()
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def append(
        self, buckets: Sequence[tuple[int, pa.RecordBatch]], boundary_us: int, memo: bytes = b""
    ) -> None:
        with self._lock:
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

    def truncate(self, upto: int) -> int:
        with self._lock:
            return super().truncate(upto)

    def restart_at(self, bucket: int, memo: bytes = b"") -> None:
        with self._lock:
            super().restart_at(bucket, memo)


class _Memo(msgspec.Struct, frozen=True, array_like=True):
    """An output's state as it stands in the commit file."""

    batch_id: int
    frontier_us: int
    held: bytes
    after: int
    upto: int


@dataclass
class LaneData:
    """What the DataPath keeps for one lane."""

    name: str
    union: SUnion
    inputs: tuple[SharedLog, ...]
    output: SOutput
    log: SharedLog
    release: Release
    checkpoint: Path
    staged: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    processed: int = BEFORE_ALL
    """Buckets up to this one will not be asked for again."""
    has_read: bool = False
    has_written: bool = False
    """Whether its query has asked for rows, and committed some, since it was started."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def rows_between(self, after: int, upto: int) -> int:
        """How many tuples the buckets (after, upto] of its inputs hold."""
        return sum(log.rows_between(after, upto) for log in self.inputs)

    @property
    def committed_to(self) -> int:
        """The last bucket whose results are in the log, or held."""
        return self.output.state.upto

    @property
    def ended(self) -> bool:
        """Whether its output is complete."""
        return self.log.boundary_us >= END_OF_STREAM_US


class DataPath:
    """All logs and lanes of one node."""

    def __init__(self, buckets: Buckets) -> None:
        self.buckets = buckets
        self.logs: dict[str, SharedLog] = {}
        self.lanes: dict[str, LaneData] = {}
        self.changed = threading.Condition()
        self._names = itertools.count()

    def appended(self, _stream: str) -> None:
        """A log has grown: wake whoever waits for it."""
        with self.changed:
            self.changed.notify_all()

    def add_lane(
        self,
        name: str,
        inputs: Sequence[str],
        output: str,
        checkpoint: Path,
        *,
        emits_on_watermark: bool,
        ids: bool = True,
        rows_per_batch: int = ROWS_PER_BATCH,
    ) -> MergedSchema:
        """Make a lane known; the schema of its merged input."""
        logs = tuple(self.logs[stream] for stream in inputs)
        log = self.logs[output]
        schema = MergedSchema(tuple(log.schema for log in logs), ids)
        output_half = SOutput(log.schema, self.buckets, decode_state(log.memo, log.schema))
        self.lanes[name] = LaneData(
            name,
            SUnion(schema, self.buckets),
            logs,
            output_half,
            log,
            Release(
                name,
                self.buckets,
                rows_per_batch=rows_per_batch,
                emits_on_watermark=emits_on_watermark,
            ),
            checkpoint,
            processed=output_half.state.after,
        )
        return schema

    # --- the reading end -------------------------------------------------------

    def latest(self, name: str, after: int, reader: str) -> int:
        """The last bucket the lane may process next, the same for all readers of a batch."""
        lane = self.lanes[name]
        with lane.lock:
            stable = lane.union.stable_bucket([log.boundary_us for log in lane.inputs])
            return lane.release.latest(after, reader, stable, lane.rows_between, lane.ended)

    def rows(self, name: str, after: int, upto: int) -> int:
        """How many tuples the buckets (after, upto] of the lane's inputs hold."""
        return self.lanes[name].rows_between(after, upto)

    def read(
        self, name: str, after: int, upto: int, part: int, parts: int
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """One part of the merged buckets, read as it is sent; a boundary row ends the last."""
        lane = self.lanes[name]
        lane.has_read = True
        low, high = share(after, upto, part, parts, lane.rows_between)
        boundary = upto if part == parts - 1 else None
        return lane.union.schema.arrow, self._merged(lane, low, high, boundary)

    def _merged(
        self, lane: LaneData, after: int, upto: int, boundary: int | None
    ) -> Iterator[pa.RecordBatch]:
        while after < upto:
            end = bucket_at(after, upto, CHUNK_ROWS, lane.rows_between)
            inputs = [[batch for _, batch in log.read(after, end)] for log in lane.inputs]
            yield from lane.union.merge(inputs).combine_chunks().to_batches()
            after = end
        if boundary is not None:
            yield lane.union.boundary(self.buckets.end(boundary))

    def processed(self, name: str, upto: int) -> None:
        """The lane's checkpoint covers the buckets up to this one."""
        self.lanes[name].processed = upto

    # --- the writing end -------------------------------------------------------

    def stage(self, name: str, batches: Sequence[pa.RecordBatch]) -> str:
        """Keep one task's rows until its micro-batch is committed."""
        staged = f"{name}/{next(self._names)}"
        lane = self.lanes[name]
        with lane.lock:
            lane.staged[staged] = list(batches)
        return staged

    def abort(self, name: str, staged: Sequence[str]) -> None:
        """Forget the rows of a micro-batch that failed."""
        lane = self.lanes[name]
        with lane.lock:
            for one in staged:
                lane.staged.pop(one, None)

    def commit(self, name: str, batch_id: int, staged: Sequence[str]) -> None:
        """Append a finished micro-batch to the output's log, exactly once."""
        lane = self.lanes[name]
        lane.has_written = True
        with lane.lock:
            rows = [batch for one in staged for batch in lane.staged[one]]
            batch = _batch(lane, batch_id)
            step = lane.output.commit(batch_id, rows, batch.frontier_us, (batch.after, batch.upto))
            # Tasks that were tried twice have staged twice; only what was named counts.
            lane.staged.clear()
            if step is None:
                return
            lane.log.append(step.buckets, step.state.frontier_us, encode_state(step.state))
        self.appended(name)


def _batch(lane: LaneData, batch_id: int) -> Batch:
    """What Spark's checkpoint says of a micro-batch."""
    now = batch_offsets(lane.checkpoint, batch_id)
    after = batch_offsets(lane.checkpoint, batch_id - 1).upto if batch_id > 0 else BEFORE_ALL
    return lane.release.batch(batch_id, after, now.upto, now.watermark_us)


def encode_state(state: OutputState) -> bytes:
    """What an output remembers, as bytes for the log's commit file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, state.held.schema) as writer:
        writer.write_table(state.held)
    held: bytes = sink.getvalue().to_pybytes() if state.held.num_rows else b""
    return msgspec.msgpack.encode(
        _Memo(state.batch_id, state.frontier_us, held, state.after, state.upto)
    )


def decode_state(memo: bytes, schema: Schema) -> OutputState | None:
    """What `encode_state` wrote; None if nothing was."""
    if not memo:
        return None
    saved = msgspec.msgpack.decode(memo, type=_Memo)
    empty = SOutput(schema, Buckets()).row_schema.empty_table()
    held = pa.ipc.open_stream(saved.held).read_all() if saved.held else empty
    return OutputState(saved.batch_id, saved.frontier_us, held, saved.after, saved.upto)
