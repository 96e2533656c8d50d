"""The durable stable log of one stream.

Two kinds of file make a log:

- *Segments* (`<first bucket>.seg`) hold the tuples: one framed Arrow record
  batch per non-empty bucket, nothing else, so that equal streams are equal
  bytes. A segment ends when the next bucket would begin beyond its size.
- The *commit file* (`commits`) says how much of the segments counts: each
  framed record holds the end of the data, the boundary, and the writer's state
  (batch id and held rows of an output, cursor of a source).

An append writes the data and syncs it, then writes the commit and syncs that;
the append takes effect with the commit. After a crash or a failed write, data
after the last whole commit is cut off. Truncation drops whole segments.

Opening a log reads the heads of the buckets alone; their checksums must add up to
what the last commit says. A bucket's tuples are checked whenever they are read.
What is not as it was written raises `Damaged`, and is never taken for a crash
(see `commits`); `verify` checks every byte.
"""

from __future__ import annotations

import bisect
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from australis.kernel.errors import Damaged, Stopped
from australis.kernel.ids import pack_id
from australis.streams.buckets import Buckets
from australis.streams.commits import Commit, CommitFile
from australis.streams.digest import hash_of, plus
from australis.streams.disk import Disk
from australis.streams.entry_times import EntryTimes
from australis.streams.frames import (
    CHECK,
    HEAD_SIZE,
    LENGTH,
    damaged,
    frame,
    read_frame,
)
from australis.streams.schema import Schema

SEGMENT_BYTES = 16 << 20
MIN_SEGMENT_BYTES = 64 << 10


def segment_bytes_of(most_bytes: int | None) -> int:
    """The size of segments of a log that is to have at most `most_bytes`.

    Truncation drops whole segments: a small log needs small ones.
    """
    if most_bytes is None:
        return SEGMENT_BYTES
    return max(MIN_SEGMENT_BYTES, min(SEGMENT_BYTES, most_bytes // 8))


HEAD = struct.Struct("<qqI")
"""The header of a record batch in a frame: bucket, rows and a checksum of the head
(opening a log reads the heads alone), 12 + 20 bytes, so that the batch is aligned."""


@dataclass(frozen=True)
class Record:
    """The position of a bucket in the segments."""

    segment: str
    offset: int
    length: int


class StableLog:
    """The stable tuples of a stream, in order, on a disk."""

    def __init__(
        self, disk: Disk, schema: Schema, buckets: Buckets, *, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self.schema = schema
        self.buckets = buckets
        self._disk = disk
        self._segment_bytes = segment_bytes
        self._numbers: list[int] = []
        self._totals: list[int] = []
        self._records: list[Record] = []
        self._ends: list[int] = []
        """The bytes of all records up to each one, counted from the first when it was opened."""
        self._dropped_bytes = 0
        self._digests: list[int] = []
        """The rolling digest up to each bucket that is not empty (`digest`)."""
        self._commit = Commit()
        self._commits = CommitFile(disk)
        self._entries = EntryTimes()
        self._entries_stored = -1
        """The last bucket whose entry time is in the commit file."""
        self._acknowledged = -1
        self._unfinished = True
        self._recover()

    # --- what is there -------------------------------------------------------

    @property
    def boundary_us(self) -> int:
        """The boundary: every later tuple has a greater `_stime`."""
        return self._commit.boundary_us

    @property
    def memo(self) -> bytes:
        """The writer's state as of the last append."""
        return self._commit.memo

    @property
    def rows(self) -> int:
        """The number of tuples in the log."""
        return self._total - self._commit.dropped_rows

    @property
    def appended_rows(self) -> int:
        """The number of tuples that were ever appended, truncated ones included."""
        return self._commit.rows

    @property
    def first_bucket(self) -> int | None:
        """The oldest bucket in the log that is not empty."""
        return self._numbers[0] if self._numbers else None

    @property
    def last_bucket(self) -> int | None:
        """The newest bucket that is not empty."""
        return self._numbers[-1] if self._numbers else None

    @property
    def truncated_to(self) -> int:
        """The last bucket that was dropped with its segment; -1 if none was."""
        return self._commit.dropped_to

    @property
    def trimmed_upto(self) -> int:
        """The last bucket that readers no longer need; it may lie before the log's first."""
        return max(self._acknowledged, self._commit.acknowledged, self._commit.dropped_to)

    def rows_between(self, after: int, upto: int) -> int:
        """The number of tuples in the buckets (after, upto]."""
        return self._total_upto(upto) - self._total_upto(after)

    @property
    def _total(self) -> int:
        return self._totals[-1] if self._totals else self._commit.dropped_rows

    def _total_upto(self, bucket: int) -> int:
        at = bisect.bisect_right(self._numbers, bucket)
        return self._totals[at - 1] if at else self._commit.dropped_rows

    # --- its digest ----------------------------------------------------------

    @property
    def digest_base(self) -> int:
        """The bucket after which its rolling digest begins."""
        base = self._commit.digest_base
        return self._commit.dropped_to if base is None else base

    def digest_at(self, bucket: int) -> int:
        """The rolling digest up to a bucket, which must not have been dropped."""
        at = bisect.bisect_right(self._numbers, bucket)
        return self._digests[at - 1] if at else self._commit.dropped_digest

    def digests(self, after: int, upto: int, most: int) -> list[tuple[int, int]]:
        """The digests up to the last `most` buckets of (after, upto] that are not empty."""
        lo = bisect.bisect_right(self._numbers, after)
        hi = bisect.bisect_right(self._numbers, upto)
        lo = max(lo, hi - most)
        return list(zip(self._numbers[lo:hi], self._digests[lo:hi], strict=True))

    # --- reading -------------------------------------------------------------

    def read(self, after: int, upto: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The buckets in (after, upto], each one record batch, loaded one by one."""
        for number, record in self._between(after, upto):
            try:
                batch = self._load(record)
            except Damaged as error:
                error.bucket = number
                raise
            yield number, batch

    def _between(self, after: int, upto: int) -> list[tuple[int, Record]]:
        if after < self._commit.dropped_to and upto > after:
            raise Stopped(
                f"bucket {after + 1} is no longer in the log, which was truncated"
                f" up to bucket {self._commit.dropped_to}"
            )
        lo = bisect.bisect_right(self._numbers, after)
        hi = bisect.bisect_right(self._numbers, upto)
        return list(zip(self._numbers[lo:hi], self._records[lo:hi], strict=True))

    def _load(self, record: Record) -> pa.RecordBatch:
        payload = read_frame(self._disk, record.segment, record.offset, record.length)
        return pa.ipc.read_record_batch(pa.py_buffer(payload[HEAD.size :]), self.schema.arrow)

    def reaching_back(self, upto: int, most_bytes: int) -> int:
        """The bucket after which at most `most_bytes` bytes follow, up to and including `upto`."""
        at = bisect.bisect_right(self._numbers, upto)
        least = self._bytes_upto(upto) - most_bytes
        at = bisect.bisect_left(self._ends, least, hi=at)
        if self._dropped_bytes >= least:
            return self._commit.dropped_to
        return self._numbers[at]

    def fits_after(self, most_bytes: int | None) -> int:
        """The bucket after which its tuples have at most `most_bytes`; -1 without a limit."""
        return -1 if most_bytes is None else self.reaching_back(self.buckets.last, most_bytes)

    @property
    def kept_bytes(self) -> int:
        """The bytes of the buckets that readers may still need; its segments may hold more."""
        return (self._ends[-1] if self._ends else 0) - self._bytes_upto(self.trimmed_upto)

    def _bytes_upto(self, bucket: int) -> int:
        at = bisect.bisect_right(self._numbers, bucket)
        return self._ends[at - 1] if at else self._dropped_bytes

    # --- writing -------------------------------------------------------------

    def append(
        self, buckets: Sequence[tuple[int, pa.RecordBatch]], boundary_us: int, memo: bytes = b""
    ) -> None:
        """Append whole buckets and advance the boundary, durably and atomically."""
        self._refuse_open(buckets, boundary_us)
        segment, size = self._commit.segment, self._commit.size
        written: dict[str, list[bytes]] = {}
        records: list[Record] = []
        checks: list[int] = []
        for bucket, batch in buckets:
            data = _encode(bucket, batch)
            if not segment or size >= self._segment_bytes:
                segment, size = f"{bucket:012d}.seg", 0
            written.setdefault(segment, []).append(data)
            records.append(Record(segment, size, len(data)))
            checks.append(_check_in(data))
            size += len(data)
        self._begin()
        for name, frames in written.items():
            self._disk.append(name, b"".join(frames))
            self._disk.sync(name)
        self._write_commit(
            msgspec.structs.replace(
                self._commit,
                boundary_us=boundary_us,
                segment=segment,
                size=size,
                digest=self._digest_with(buckets, checks),
                memo=memo,
                rows=self._commit.rows + sum(batch.num_rows for _, batch in buckets),
                acknowledged=self.trimmed_upto,
            )
        )
        for (bucket, batch), record, check in zip(buckets, records, checks, strict=True):
            self._index(bucket, batch.num_rows, record, check)

    def _refuse_open(self, buckets: Sequence[tuple[int, pa.RecordBatch]], boundary_us: int) -> None:
        if boundary_us < self.boundary_us:
            raise Stopped(f"the boundary {boundary_us} lies before {self.boundary_us}")
        last = self.buckets.closed_by(self.boundary_us)
        for bucket, _ in buckets:
            if bucket <= last or self.buckets.end(bucket) > boundary_us:
                raise Stopped(f"bucket {bucket} does not follow {last} or is still open")
            last = bucket

    def _digest_with(
        self, buckets: Sequence[tuple[int, pa.RecordBatch]], checks: Sequence[int]
    ) -> int:
        """The rolling digest up to the end once these buckets are appended."""
        digest = self._digest_at_end
        for (bucket, _), check in zip(buckets, checks, strict=True):
            digest = plus(digest, hash_of(bucket, check))
        return digest

    @property
    def _digest_at_end(self) -> int:
        return self._digests[-1] if self._digests else self._commit.dropped_digest

    def _begin(self) -> None:
        """Cut off the remains of a failed write before the next one."""
        if self._unfinished:
            self._discard_uncommitted()
        self._unfinished = True
        if not self._commit.number:  # there are no segments without a commit file
            self._write_commit(self._commit, anew=True)
            self._unfinished = True

    def _write_commit(self, commit: Commit, *, anew: bool = False) -> None:
        commit = msgspec.structs.replace(commit, number=self._commit.number + 1)
        anew = anew or self._commits.is_long
        after = -1 if anew else self._entries_stored
        self._commits.write(self._with_entries(commit, after), anew=anew)
        self._commit = commit
        self._entries_stored = min(self._entries.upto, self.buckets.closed_by(commit.boundary_us))
        self._unfinished = False
        self._commits.mark(commit.number)

    def _with_entries(self, commit: Commit, after: int = -1) -> Commit:
        """The commit with the entry times of its buckets after this one."""
        closed = self.buckets.closed_by(commit.boundary_us)
        return msgspec.structs.replace(commit, entered=self._entries.between(after, closed))

    def truncate(self, upto: int) -> int:
        """Drop the segments that hold nothing after this bucket; returns how many were dropped.

        The last segment stays, since the next append continues there; that append also stores
        the bucket up to which readers need nothing any more.
        """
        self._acknowledged = max(self._acknowledged, upto)
        first = bisect.bisect_right(self._numbers, upto)
        kept = self._records[first].segment if first < len(self._records) else self._commit.segment
        at = bisect.bisect_left(self._records, kept, key=lambda record: record.segment)
        if at:
            bucket = self._numbers[at - 1]
            self._begin()
            self._write_commit(
                msgspec.structs.replace(
                    self._commit,
                    acknowledged=self.trimmed_upto,
                    dropped_to=bucket,
                    dropped_rows=self._totals[at - 1],
                    dropped_id=pack_id(bucket, self.rows_between(bucket - 1, bucket) - 1),
                    digest_base=self.digest_base,
                    dropped_digest=self._digests[at - 1],
                )
            )
            self._dropped_bytes = self._ends[at - 1]
            del self._numbers[:at], self._totals[:at], self._records[:at], self._digests[:at]
            del self._ends[:at]
        going = [name for name in self._segments() if name < kept]
        for name in going:
            self._disk.remove(name)
        return len(going)

    def restart_at(
        self, bucket: int, memo: bytes = b"", digest: tuple[int, int] | None = None
    ) -> None:
        """Drop everything and continue after this bucket, as if all before were truncated.

        `digest` is the rolling digest up to there, with its base; without it a new one begins.
        """
        self._begin()
        self._entries = EntryTimes()
        self._acknowledged = -1
        base, value = digest or (bucket, 0)
        begun = Commit(
            number=self._commit.number,
            boundary_us=self.buckets.end(bucket),
            digest=value,
            memo=memo,
            dropped_to=bucket,
            dropped_id=pack_id(bucket, 0),
            digest_base=base,
            dropped_digest=value,
        )
        self._write_commit(begun, anew=True)
        self._numbers.clear()
        self._totals.clear()
        self._records.clear()
        self._ends.clear()
        self._dropped_bytes = 0
        self._digests.clear()
        self._discard_uncommitted()

    # --- recovery ------------------------------------------------------------

    def _segments(self) -> list[str]:
        return sorted(name for name in self._disk.names() if name.endswith(".seg"))

    def _recover(self) -> None:
        for commit in self._commits.recover():
            self._entries.note(*commit.entered)
            self._commit = commit
        self._commit = msgspec.structs.replace(self._commit, entered=(-1, []))
        self._entries.clip(self.buckets.closed_by(self.boundary_us))
        self._entries_stored = self._entries.upto
        self._discard_uncommitted()
        for name in self._segments():
            if int(name.removesuffix(".seg")) <= self._commit.dropped_to:
                self._disk.remove(name)
            else:
                self._index_segment(name)
        self._refuse_others()
        self._unfinished = False

    def _refuse_others(self) -> None:
        """Refuse segments that are not those of the last commit."""
        name, end = self._commit.segment, self._commit.size
        if name and self._disk.size(name) < end:
            size = self._disk.size(name)
            raise Damaged(
                f"the log file {name} ends at byte {size}, not {end}", file=name, byte=size
            )
        if self._total != self._commit.rows:
            raise Damaged(f"the log holds {self._total} tuples of {self._commit.rows}")
        if self._digest_at_end != self._commit.digest:
            raise Damaged("the segments of the log hold other tuples than its last commit says")

    def _discard_uncommitted(self) -> None:
        # The commit is cut first: it must never exist without the data it names.
        self._commits.clear_away(self._with_entries(self._commit))
        for name in self._segments():
            if name > self._commit.segment:
                self._disk.remove(name)
            elif name == self._commit.segment and self._disk.size(name) > self._commit.size:
                self._disk.cut(name, self._commit.size)

    def _index_segment(self, name: str) -> None:
        offset, size = 0, self._disk.size(name)
        while offset < size:
            start = self._disk.read(name, offset, HEAD_SIZE + HEAD.size)
            length = int.from_bytes(start[LENGTH], "little")
            bucket, rows = unpack_head(start[HEAD_SIZE:], length)
            if rows < 0 or offset + HEAD_SIZE + length > size:
                raise damaged(name, offset)
            record = Record(name, offset, HEAD_SIZE + length)
            self._index(bucket, rows, record, _check_in(start))
            offset += HEAD_SIZE + length

    def _index(self, bucket: int, rows: int, record: Record, check: int) -> None:
        before = self._digests[-1] if self._digests else self._commit.dropped_digest
        self._digests.append(plus(before, hash_of(bucket, check)))
        self._totals.append(self._total + rows)
        self._ends.append((self._ends[-1] if self._ends else self._dropped_bytes) + record.length)
        self._numbers.append(bucket)
        self._records.append(record)


def _encode(bucket: int, batch: pa.RecordBatch) -> bytes:
    body: bytes = batch.serialize().to_pybytes()
    rows, length = batch.num_rows, HEAD.size + len(body)
    return frame(HEAD.pack(bucket, rows, _head_check(bucket, rows, length)) + body)


def _check_in(frame_head: bytes) -> int:
    return int.from_bytes(frame_head[CHECK], "little")


def check_of(bucket: int, rows: int, body: memoryview | bytes) -> int:
    """The checksum that the frame of a bucket has in a log, given its encoded record batch."""
    length = HEAD.size + len(body)
    return zlib.crc32(body, zlib.crc32(HEAD.pack(bucket, rows, _head_check(bucket, rows, length))))


def unpack_head(head: bytes, length: int) -> tuple[int, int]:
    """The bucket and its number of rows; -1 rows if the head or the frame's length is damaged."""
    if len(head) < HEAD.size:
        return -1, -1
    bucket, rows, check = HEAD.unpack(head)
    return bucket, rows if check == _head_check(bucket, rows, length) else -1


def _head_check(bucket: int, rows: int, length: int) -> int:
    return zlib.crc32(struct.pack("<qqI", bucket, rows, length))
