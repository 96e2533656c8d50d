"""A node's disk as DPC sees it: the log of a stream and the checkpoint of its lane.

A crash loses records that were appended but not synced, except for a prefix that happened to reach
the platter; a torn record is dropped (the log's own tests show that it is recognised,
`tests/streams`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from random import Random
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from australis.kernel.errors import Damaged
from australis.protocols.dpc.effects import RestoredLog
from australis.protocols.dpc.messages import Bucket, LogDigest
from australis.streams.digest import hash_of, plus


class SimLog:
    """The stable log of one stream.

    A disk that lies makes it rotten in some buckets, cuts it back, or writes over a part of it.
    """

    def __init__(self) -> None:
        self.rotten: set[int] = set()
        """The buckets whose tuples are not what was written."""
        self.overwritten = False
        self.mark = -1
        """The last bucket that is known to have been synced."""
        self.trimmed_upto = -1
        self.end = -1
        self._buckets: dict[int, Bucket] = {}
        self._synced = -1
        self._ends: dict[int, int] = {}
        """The bytes of all buckets that were ever appended, up to each one that it holds."""
        self._dropped = 0
        self._base = LogDigest(-1, -1, 0)
        """The digest up to the last trimmed bucket."""

    def append(self, buckets: Iterable[Bucket]) -> None:
        """Append buckets, in order; they are durable after `sync`."""
        for bucket in buckets:
            assert bucket.number == self.end + 1, f"{bucket.number} after {self.end}"
            value = plus(self.digest(self.end).value, _hash(bucket))
            self._buckets[bucket.number] = replace(bucket, digest=value)
            self._ends[bucket.number] = self._bytes_upto(self.end) + bytes_of(bucket)
            self.end = bucket.number

    def _bytes_upto(self, bucket: int) -> int:
        return self._ends.get(bucket, self._dropped)

    @property
    def kept_bytes(self) -> int:
        """The bytes that it holds."""
        return self._bytes_upto(self.end) - self._dropped

    def fits_after(self, most_bytes: int | None) -> int:
        """The bucket after which it has at most so many bytes; -1 without a limit."""
        least = self._bytes_upto(self.end) - (most_bytes or 0)
        if most_bytes is None or self._dropped >= least:
            return -1
        return next(number for number, end in self._ends.items() if end >= least)

    def sync(self) -> None:
        """Make all appended buckets durable."""
        self._synced = self.mark = self.end

    def read(self, after: int, upto: int) -> tuple[Bucket, ...]:
        """The buckets (after, upto]."""
        return tuple(self.listed(after, upto))

    def listed(self, after: int, upto: int) -> Iterator[Bucket]:
        """The same buckets one by one, all of them, up to one that is rotten."""
        for number in range(after + 1, upto + 1):
            yield self._rotten(number) if number in self.rotten else self._buckets[number]

    def _rotten(self, number: int) -> Bucket:
        """Refuse a bucket whose checksum does not fit its tuples."""
        error = Damaged(f"bucket {number} is damaged")
        error.bucket = number
        raise error

    def refuse_damage(self) -> None:
        """Raise `Damaged` as the real log does when it is opened (`streams.log`)."""
        if self.overwritten:
            raise Damaged("the head of a bucket is damaged")
        if self.mark > self.end:
            raise Damaged(f"the log ends with bucket {self.end}, but {self.mark} was synced")

    def entry_times(self, after: int, upto: int) -> tuple[Bucket, ...]:
        """The buckets (after, upto] without their tuples."""
        return tuple(replace(self._buckets[n], batch=None) for n in range(after + 1, upto + 1))

    def digest(self, bucket: int) -> LogDigest:
        """The rolling digest up to a bucket."""
        held = self._buckets.get(bucket)
        return self._base if held is None else LogDigest(self._base.base, bucket, held.digest)

    def digests(self, after: int, upto: int) -> tuple[tuple[int, int], ...]:
        """The digests up to each of the buckets (after, upto]."""
        return tuple((n, self._buckets[n].digest) for n in range(after + 1, upto + 1))

    def note_entries(self, after: int, runs: Sequence[tuple[int, int]]) -> None:
        """Do nothing: a bucket is kept with its entry time."""

    def truncate(self, upto: int) -> None:
        """Trim the log up to this bucket."""
        self._base = self.digest(max(self.trimmed_upto, upto))
        self._dropped = self._bytes_upto(max(self.trimmed_upto, upto))
        for number in range(self.trimmed_upto + 1, upto + 1):
            del self._buckets[number], self._ends[number]
        self.trimmed_upto = max(self.trimmed_upto, upto)
        self.rotten = {n for n in self.rotten if n > upto}

    def begin_at(self, bucket: int, digest: LogDigest | None = None) -> None:
        """Begin a new log after this bucket, with the digest of one that goes on there."""
        self._buckets.clear()
        self._ends.clear()
        self._dropped = 0
        self._base = digest or LogDigest(bucket, bucket, 0)
        self.trimmed_upto = self.end = self._synced = self.mark = bucket
        self.rotten.clear()
        self.overwritten = False

    def crash(self, rng: Random) -> None:
        """Lose unsynced records, except for those that happened to survive."""
        self._cut(rng.randint(self._synced, self.end))

    def _cut(self, end: int) -> None:
        for number in range(end + 1, self.end + 1):
            del self._buckets[number], self._ends[number]
        self.rotten = {n for n in self.rotten if n <= end}
        self.end = self._synced = end

    # --- a disk that lies -------------------------------------------------------------------

    def lose(self, buckets: int, *, marked: bool) -> int:
        """Lose the latest synced buckets, and maybe what says that they were synced too; returns
        how many are lost."""
        end = max(self.trimmed_upto, self.end - buckets)
        lost = self.end - end
        self._cut(end)
        if not marked:
            self.mark = end
        return lost

    def copy(self) -> SimLog:
        """A copy of it as it is now."""
        other = copy(self)
        other._buckets, other._ends = dict(self._buckets), dict(self._ends)
        other.rotten = set(self.rotten)
        return other

    def tuples(self, most: int) -> list[int]:
        """The newest buckets that hold tuples."""
        found = [n for n, bucket in self._buckets.items() if bucket.batch is not None]
        return found[-most:]

    def has(self, bucket: int) -> bool:
        """Whether it holds a bucket."""
        return bucket in self._buckets

    def __len__(self) -> int:
        return len(self._buckets)


class LaneStore:
    """A stream's log and the checkpoint of the lane that computes it."""

    log_class = SimLog

    def __init__(self, state: Any) -> None:
        self.log = self.log_class()
        self.upto = -1
        self.state = state
        self.lost = False
        self.read: tuple[tuple[str, LogDigest], ...] = ()

    def checkpoint(self, state: Any, upto: int) -> None:
        """Replace the checkpoint, durably."""
        self.state, self.upto = state, upto

    def snapshot(self) -> tuple[Any, tuple[Bucket, ...], LogDigest]:
        """The checkpoint, and the log up to there with the digest where it begins."""
        trimmed = self.log.trimmed_upto
        buckets = self.log.read(trimmed, max(trimmed, self.upto))
        return self.state, buckets, self.log.digest(trimmed)

    def install(
        self,
        snapshot: tuple[Any, tuple[Bucket, ...], LogDigest],
        upto: int,
        ahead_us: int = 0,
    ) -> None:
        """Install a replica's state and its log, whose entry times are by another clock."""
        state, buckets, digest = snapshot
        self.checkpoint(state, upto)
        # If the log was trimmed beyond the checkpoint, its digest is not that of the new log.
        begins = upto - len(buckets)
        self.log.begin_at(begins, digest if digest.bucket == begins else None)
        self.log.append(replace(b, entered_us=b.entered_us + ahead_us) for b in buckets)
        self.log.sync()
        self.lost = False

    def wipe(self, state: Any) -> None:
        """Lose the checkpoint and the log."""
        self.log = self.log_class()
        self.state, self.upto = state, -1
        self.read = ()
        self.lost = True

    def refuse_damage(self) -> None:
        """Raise `Damaged` as the real lanes do when they open an output."""
        self.log.refuse_damage()
        if self.upto > self.log.end:
            raise Damaged(f"the log ends with bucket {self.log.end}, before its checkpoint")

    def begin_as_new(self, state: Any) -> None:
        """Set aside what is damaged, and begin with nothing."""
        self.wipe(state)
        self.lost = False

    def copy(self) -> LaneStore:
        """A copy of it as it is now."""
        other = copy(self)
        other.log = self.log.copy()
        return other

    def restored(self, stream: str, max_bytes: int | None = None) -> RestoredLog:
        """The content of the disk, for a node that starts."""
        log = self.log
        return RestoredLog(
            *(stream, self.upto, log.trimmed_upto, log.end),
            digest=log.digest(log.end),
            fits_after=log.fits_after(max_bytes),
            read=self.read,
        )


ROW_BYTES = 100


def bytes_of(bucket: Bucket) -> int:
    """The bytes that a bucket takes in a log."""
    rows = 0 if bucket.batch is None else getattr(bucket.batch, "num_rows", 1)
    return ROW_BYTES * int(rows)


def _hash(bucket: Bucket) -> int:
    """The contribution of a bucket to the digest of a log."""
    batch = bucket.batch
    if batch is None:
        return 0
    content = batch.serialize() if isinstance(batch, pa.RecordBatch) else repr(batch).encode()
    return hash_of(bucket.number, zlib.crc32(content))
