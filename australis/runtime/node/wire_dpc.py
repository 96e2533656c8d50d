"""The messages of DPC on the wire: a family with rules of its own (see `wire`).

Arrow batches travel inside as IPC messages without their schema, which both sides know by the
stream's name. Before a message is handed on its numbers are ones that can occur, its buckets are
listed in order, and each batch holds tuples of its stream and of its bucket.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Meta

from australis.kernel.ids import MAX_RANK, RANK_BITS
from australis.kernel.machine import Message
from australis.protocols.dpc.messages import (
    Bucket,
    ConsumerHeard,
    Heartbeat,
    HeartbeatReply,
    LogDigest,
    NoSnapshot,
    PeerDigest,
    PeerDigests,
    ReconcileAnswer,
    ReconcileDone,
    ReconcileRequest,
    Snapshot,
    SnapshotRequest,
    StableData,
    StreamStatus,
    SubscriptionState,
    TentativeData,
    WentBack,
)
from australis.protocols.dpc.missing import MissingSource
from australis.protocols.dpc.source_pair import SourceClaim, SourceCopy, SourceHeld, SourceView
from australis.runtime.node.wire import (
    Count,
    Family,
    Name,
    Number,
    WireError,
    many,
    short,
    strict,
)
from australis.runtime.source_log import CopyMemo
from australis.streams.buckets import END_OF_STREAM_US, Buckets, stime_values
from australis.streams.digest import MAX_DIGEST, hash_of, plus
from australis.streams.log import check_of
from australis.streams.schema import HEADER, Schema, TupleType
from australis.streams.source import row_schema, valid_stimes

VERSION = 6
"""The version of the family."""
_Incarnation = Annotated[int, Meta(ge=0, le=1 << 42)]
"""Overlays are numbered from it (`Output.begin_incarnation`), which must stay a count."""
_Time = Annotated[int, Meta(ge=-END_OF_STREAM_US, le=END_OF_STREAM_US)]
"""A time by some node's clock; it lies before 1970 if that clock has never been set."""
_Digest = Annotated[int, Meta(ge=0, le=MAX_DIGEST)]
_View = strict(SourceView, epoch=Count, since=Count, claim=_Incarnation)
_Rows = Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)]
"""The number of rows of a source, or -1 if it is unknown."""
MAX_COPY_BUCKETS = 1 << 14
"""The largest number of buckets in the copy of a source's log."""
_missing = strict(MissingSource, runs=many(tuple[Number, Number]))
_bucket = strict(
    Bucket, entered_us=_Time, batch=memoryview | None, digest=_Digest, missing=many(_missing)
)
_digest = strict(LogDigest, value=_Digest)


def _whole(
    message: Message, sender: str, schemas: Mapping[str, Schema], buckets: Buckets
) -> Message:
    """The message with its batches decoded to Arrow."""
    match message:
        case StableData(stream=stream):
            _check_known((stream,), schemas)
            _check_piece(message)
            whole = tuple(_with_batch(b, schemas[stream], buckets) for b in message.buckets)
            if message.digest is not None:
                _check_digests(message.digest.value, message.buckets, whole)
            return msgspec.structs.replace(message, buckets=whole)
        case TentativeData(stream=stream, bucket=bucket):
            _check_known((stream,), schemas)
            return msgspec.structs.replace(
                message, bucket=_with_batch(bucket, schemas[stream], buckets)
            )
        case Heartbeat(wants=wants):
            _check_known((w.stream for w in wants), schemas)
            if len({(w.stream, w.reader) for w in wants}) < len(wants):
                raise WireError("a heartbeat that wants a stream twice")
        case HeartbeatReply(streams=streams):
            _check_known((s.stream for s in streams), schemas)
        case PeerDigests(logs=logs):
            _check_known((log.stream for log in logs), schemas)
        case Snapshot(state=state) if state != sender:
            raise WireError("a snapshot whose state is with another node")
        case SourceClaim(view=view) if view.leader != sender:
            raise WireError("a claim for another proxy than its sender")
        case SourceCopy(to=to) if to >= 0:
            return _whole_copy(message, sender, schemas, buckets)
    return message


def _check_known(streams: Iterable[str], schemas: Mapping[str, Schema]) -> None:
    for stream in streams:
        if stream not in schemas:
            raise WireError(f"of an unknown stream '{short(stream)}'")


def _whole_copy(
    copy: SourceCopy, sender: str, schemas: Mapping[str, Schema], buckets: Buckets
) -> SourceCopy:
    """The copy with its buckets and rows decoded to Arrow."""
    stream = sender.rpartition("@")[0]
    _check_known((stream,), schemas)
    if copy.memo is None:
        raise WireError("the copy of a log without its digest")
    _check_listed(copy)
    about = msgspec.convert(copy.memo, CopyMemo)
    whole = tuple(_with_batch(b, schemas[stream], buckets) for b in copy.buckets)
    _check_digests(about.digest, copy.buckets, whole)
    rows = None
    if copy.rows is not None:
        first, data = copy.rows
        batch = _batch(data, row_schema(schemas[stream]))
        if not valid_stimes(batch.column(0), buckets).to_numpy(zero_copy_only=False).all():
            raise WireError("rows of a time that a stream cannot carry")
        if not batch.num_rows or first + batch.num_rows != copy.rows_upto:
            raise WireError("rows that are not those of the copy")
        rows = (first, batch)
    return msgspec.structs.replace(copy, buckets=whole, rows=rows, memo=about)


def _check_piece(piece: StableData) -> None:
    """Check that a piece of a log is complete."""
    if piece.in_log:
        raise WireError("a piece of a log that is said to be on this node")
    _check_listed(piece)


def _check_listed(piece: StableData | SourceCopy) -> None:
    """Check that buckets are listed in order, within the piece, and up to its last one."""
    numbers = [bucket.number for bucket in piece.buckets]
    if any(b <= a for a, b in zip([piece.after, *numbers], numbers, strict=False)):
        raise WireError("a piece of a log whose buckets are not in order")
    if (numbers[-1] if numbers else piece.after) != piece.upto:
        raise WireError("a piece of a log whose last bucket is missing")


def _check_digests(digest: int, sent: Iterable[Bucket], whole: Iterable[Bucket]) -> None:
    """Check that the digests of a piece of a log are those of its tuples."""
    for bytes_, bucket in zip(sent, whole, strict=True):
        if bucket.batch is not None:
            check = check_of(bucket.number, bucket.batch.num_rows, bytes_.batch)
            digest = plus(digest, hash_of(bucket.number, check))
        if bucket.digest != digest:
            raise WireError(f"a digest that is not that of the tuples of bucket {bucket.number}")


DPC = Family(
    "dpc",
    VERSION,
    {
        Heartbeat: strict(
            Heartbeat,
            incarnation=_Incarnation,
            number=Count,
            wants=many(strict(SubscriptionState, digest=_digest | None)),
        ),
        HeartbeatReply: strict(
            HeartbeatReply,
            incarnation=_Incarnation,
            number=Count,
            streams=many(
                strict(StreamStatus, digest=_digest | None, went_back=strict(WentBack) | None)
            ),
            at_us=_Time,
        ),
        StableData: strict(
            StableData,
            buckets=many(_bucket),
            digest=_digest | None,
            incarnation=_Incarnation,
        ),
        TentativeData: strict(TentativeData, epoch=Count, bucket=_bucket, incarnation=_Incarnation),
        ReconcileRequest: strict(ReconcileRequest, number=Count),
        ReconcileAnswer: strict(ReconcileAnswer, number=Count),
        ReconcileDone: strict(ReconcileDone, number=Count),
        PeerDigests: strict(PeerDigests, logs=many(strict(PeerDigest, digest=_digest))),
        SnapshotRequest: strict(SnapshotRequest),
        NoSnapshot: strict(NoSnapshot),
        Snapshot: strict(Snapshot, at_us=_Time, state=Name),
        SourceView: _View,
        SourceClaim: strict(SourceClaim, view=_View),
        SourceHeld: strict(
            SourceHeld,
            view=_View,
            incarnation=_Incarnation,
            since=Count,
            rows=_Rows,
            consumers=many(strict(ConsumerHeard, incarnation=_Incarnation, silent_us=Count)),
            at_us=_Time,
        ),
        SourceCopy: strict(
            SourceCopy,
            view=_View,
            to=Annotated[int, Meta(ge=-1, le=1 << 42)],
            safe=_Rows,
            rows_after=_Rows,
            rows_upto=_Rows,
            buckets=many(_bucket, MAX_COPY_BUCKETS),
            rows=tuple[Count, memoryview] | None,
            memo=tuple[Number, _Digest, memoryview, bool] | None,
            incarnation=_Incarnation,
            asked=tuple[_Incarnation, _Time] | None,
            at_us=_Time,
        ),
    },
    _whole,
)


# --- tuples -----------------------------------------------------------------------------------


def _with_batch(bucket: Bucket, schema: Schema, buckets: Buckets) -> Bucket:
    if bucket.batch is None:
        return bucket
    batch = _batch(bucket.batch, schema.arrow)
    _check_tuples(batch, bucket.number, buckets)
    return msgspec.structs.replace(bucket, batch=batch)


def _batch(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    message = pa.ipc.read_message(pa.py_buffer(data))
    if message.type != "record batch":
        raise WireError("a bucket whose tuples are no record batch")
    if _is_compressed(message.metadata.to_pybytes()):
        raise WireError("a bucket whose tuples are compressed")
    batch = pa.ipc.read_record_batch(message, schema)
    # The full validation: otherwise string offsets may point anywhere in memory. Below 0.4 ms a
    # megabyte.
    batch.validate(full=True)
    return batch


def _is_compressed(metadata: bytes) -> bool:
    """Whether a record batch is compressed: a few bytes could exhaust memory when they are read.

    Arrow has checked the flatbuffer but does not expose this: its table `RecordBatch` is field 2
    of the root, and `compression` is field 3 of that.
    """
    (root,) = struct.unpack_from("<I", metadata)
    header = _field(metadata, root, 2)
    assert header is not None
    (offset,) = struct.unpack_from("<I", metadata, header)
    return _field(metadata, header + offset, 3) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """The offset of a field in a table of a flatbuffer; None if the table lacks it."""
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    at = 4 + 2 * number
    if at >= size:
        return None
    (offset,) = struct.unpack_from("<H", data, table - back + at)
    return table + offset if offset else None


def _check_tuples(batch: pa.RecordBatch, number: int, buckets: Buckets) -> None:
    """Check that tuples fit a log: insertions of one bucket, numbered, in order of time."""
    rows = batch.num_rows
    if any(column.null_count for column in batch.columns[: len(HEADER)]):
        raise WireError(f"tuples of bucket {number} without type, id or time")
    if not 0 < rows <= MAX_RANK + 1:
        raise WireError(f"{rows:,} tuples in bucket {number}")
    if (batch.column(0).to_numpy() != int(TupleType.INSERTION)).any():
        raise WireError(f"tuples of bucket {number} that are no insertions")
    if (batch.column(1).to_numpy() - (number << RANK_BITS) != np.arange(rows)).any():
        raise WireError(f"tuples of bucket {number} with ids of another")
    stimes = stime_values(batch.column(2))
    if (stimes[1:] < stimes[:-1]).any():
        raise WireError(f"tuples of bucket {number} that are out of order")
    if buckets.of(int(stimes[0])) != number or buckets.of(int(stimes[-1])) != number:
        raise WireError(f"tuples of another time in bucket {number}")
