"""The writing half of a source proxy: rows in, appends to the log out.

It joins the pure `SourceStream` with the log, the file of rejected rows and the
file of late tuples, and it is not threaded. With each append the log stores a
`Memo`, from which a later run continues: what was rejected or late before an
append is on disk before the append is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from australis.diagram.model import Source
from australis.runtime.json_values import iso_times, json_objects
from australis.runtime.side_files import SideFile
from australis.runtime.sources.base import Rejected
from australis.streams.log import StableLog
from australis.streams.schema import TIMESTAMP
from australis.streams.source import Cursor, LateRows, SourceStep, SourceStream


class Memo(msgspec.Struct, frozen=True, array_like=True):
    """The state that a source's log stores with each append."""

    resume: int = 0
    read: int = 0
    newest_us: int = 0
    rows: int = 0
    late: int = 0
    unstampable: int = 0
    rejected: int = 0


def decode_memo(memo: bytes) -> Memo:
    """The state that a source's log stores; that of a new source if there is none."""
    return msgspec.msgpack.decode(memo, type=Memo) if memo else Memo()


class CopyMemo(msgspec.Struct, frozen=True, array_like=True):
    """What the copy of a source's log for a standby tells besides tuples."""

    digest_base: int
    digest: int
    """The rolling digest up to the bucket after which the copy begins."""
    memo: bytes = b""
    """The memo of the log at the end of the copy; nothing if the copy is partial."""
    ended: bool = False
    """Whether the source has ended with this copy."""


@dataclass
class SourceStats:
    """The counts of a source so far."""

    rows: int = 0
    rejected: int = 0
    late: int = 0
    boundary_us: int = 0
    ended: bool = False
    idle: bool = False
    """Whether its boundary follows the clock because it gives no rows."""
    ahead_us: int = 0
    """How far its stream is ahead of the clock that it follows."""


class SourceLog:
    """Takes the rows of one source and appends them to its log."""

    def __init__(
        self,
        source: Source,
        log: StableLog,
        state: Path,
        *,
        on_append: Callable[[str], None],
        read_again: bool,
    ) -> None:
        """A log; with `read_again` a restarted source reports its rejected rows from the first."""
        self._source = source
        self._log = log
        self._on_append = on_append
        self.memo = decode_memo(log.memo)
        self.stream = SourceStream(
            source.schema,
            log.buckets,
            slack_us=source.slack_us,
            idle_us=source.idle_us,
            boundary_us=log.boundary_us,
            cursor=Cursor(self.memo.resume, self.memo.read, self.memo.newest_us),
        )
        name, most = f"{source.name}.jsonl", source.rejected_bytes
        self._rejected = SideFile(state / "rejected" / name, most, self.memo.rejected)
        self._late = SideFile(state / "late" / name, most, self.memo.late)
        self._next_rejected = 0 if read_again else self._rejected.count
        self._next_late = self.memo.late
        self._unstampable = self.memo.unstampable
        self.next_row = self.memo.resume
        self.stats = SourceStats(
            self.memo.rows,
            self._rejected.count,
            self._late.count,
            log.boundary_us,
            self.stream.ended,
        )

    def take(
        self, rows: pa.RecordBatch, rejected: Sequence[Rejected] = (), unstampable: int = 0
    ) -> None:
        """Take rows with their `_stime`, in order, and what was rejected among them."""
        self._unstampable += unstampable
        self.reject(rejected)
        if not rows.num_rows:
            return
        self.next_row += rows.num_rows
        late = self.stream.offer(rows)
        if late.rows.num_rows:
            self._next_late = self._late.add(
                self._next_late, late.rows.num_rows, lambda first: self._late_entries(late, first)
            )
            self.stats.late = self._late.count

    def reject(self, rejected: Sequence[Rejected]) -> None:
        """Write down rows that could not be taken; durable with the next append."""
        if not rejected:
            return

        def entries(first: int) -> Iterator[dict[str, Any]]:
            for r in rejected[first:]:
                yield {
                    "source": self._source.name,
                    "line": r.line,
                    "reason": r.reason,
                    "raw": r.raw,
                }

        self._next_rejected = self._rejected.add(self._next_rejected, len(rejected), entries)
        self.stats.rejected = self._rejected.count

    def sync_rejected(self) -> None:
        """Make the rejected rows durable now, before their producer gets an answer."""
        self._rejected.sync()

    def _late_entries(self, late: LateRows, first: int) -> list[dict[str, Any]]:
        missed = iso_times(pa.array(late.boundaries_us[first:], TIMESTAMP)).to_pylist()
        rows = json_objects(late.rows.slice(first), ("_stime",))
        return [
            {"source": self._source.name, "boundary": boundary} | row
            for boundary, row in zip(missed, rows, strict=True)
        ]

    def close(self, boundary_us: int) -> None:
        """Append every bucket up to this boundary."""
        self._append(self.stream.close(boundary_us))

    def end(self) -> None:
        """Append everything: no row follows."""
        self._append(self.stream.end())
        self.stats.ended = True

    def _append(self, step: SourceStep | None) -> None:
        if step is None:
            return
        self._rejected.sync()
        self._late.sync()
        rows = self.memo.rows + sum(batch.num_rows for _, batch in step.buckets)
        at = step.cursor
        self.memo = Memo(
            resume=at.resume,
            read=at.read,
            newest_us=at.newest_us,
            rows=rows,
            late=self._next_late,
            unstampable=self._unstampable,
            rejected=self._next_rejected,
        )
        self._log.append(step.buckets, step.boundary_us, memo=msgspec.msgpack.encode(self.memo))
        self.stats.rows = rows
        self.stats.boundary_us = step.boundary_us
        self._on_append(self._source.name)

    def release(self) -> None:
        """Close the files."""
        self._rejected.close()
        self._late.close()
