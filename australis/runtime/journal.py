"""The journal: rows that were acknowledged but are not in the log yet.

Rows from a socket or a program cannot be requested again. So they are written
here, with their `_stime` and their number, and synced before they are
acknowledged to the producer. That makes the journal a source that can be read
again from any row the log's cursor may ask for. A segment is deleted when all
its rows lie before the cursor: they are in the log, or they were late.

A last record that is not whole may be one that a crash has torn, or one that was
acknowledged and is damaged. A *mark* tells the two apart: after each sync of a
segment its length is added to the file `synced`. What is damaged before that
length is `Damaged`; what lies after it was never acknowledged, and is cut off.
"""

from __future__ import annotations

import bisect
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from australis.kernel.errors import Damaged
from australis.runtime.files import FileDisk, damage_in
from australis.streams.disk import Disk
from australis.streams.frames import (
    HEAD_SIZE,
    LENGTH,
    damaged,
    frame,
    read_frame,
    refuse_damage,
    scan_frames,
)
from australis.streams.marks import Marks

SEGMENT_BYTES = 16 << 20
SYNCED = "synced"
"""The file of marks (`streams.marks`)."""
_HEAD = struct.Struct("<qq8x")
"""The header before a record batch: the number of the first row, and the number of rows."""
_MARK = struct.Struct("<qqq")
"""A mark: the first row of a segment, its length in bytes, and the number after its last row."""


@dataclass
class _Segment:
    name: str
    next_row: int
    size: int
    records: list[tuple[int, int]] = field(default_factory=list)
    """The first row of each record, and its offset in the segment."""


class Journal:
    """Numbered rows in segments on a disk, written by one thread and read by others."""

    def __init__(
        self, disk: Disk, schema: pa.Schema, *, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self._disk = disk
        self._schema = schema
        self._segment_bytes = segment_bytes
        self._segments: list[_Segment] = []
        self._lock = threading.RLock()
        self._marks = Marks(disk, SYNCED)
        self._marked = ""
        """The segment of the last mark; nothing if that says that there is no row."""
        for name in sorted(name for name in disk.names() if name.endswith(".rows")):
            self._recover(name)
        self._refuse_loss()
        self._discard_torn()

    @property
    def next_row(self) -> int | None:
        """The number after that of the last row; None if there is no row."""
        with self._lock:
            return self._segments[-1].next_row if self._segments else None

    def append(self, first_row: int, rows: pa.RecordBatch) -> None:
        """Write rows and make them durable."""
        data = frame(_HEAD.pack(first_row, rows.num_rows) + rows.serialize().to_pybytes())
        with self._lock:
            self._append(first_row, rows.num_rows, data)

    def _append(self, first_row: int, count: int, data: bytes) -> None:
        if not self._segments or self._segments[-1].size >= self._segment_bytes:
            self._segments.append(_Segment(_name(first_row), first_row, 0))
        segment = self._segments[-1]
        self._disk.append(segment.name, data)
        self._disk.sync(segment.name)
        segment.records.append((first_row, segment.size))
        segment.size += len(data)
        segment.next_row = first_row + count
        self._mark(segment)

    def part(self, first: int, most_bytes: int) -> tuple[list[tuple[int, pa.RecordBatch]], bool]:
        """The records with rows from this number on, up to a size, and whether these are all.

        Rows before them may have been forgotten, so that the first record begins later.
        """
        found: list[tuple[int, pa.RecordBatch]] = []
        with self._lock:
            for segment in self._segments:
                if segment.next_row <= first:
                    continue
                at = max(0, bisect.bisect_right(segment.records, (first, segment.size)) - 1)
                for _, offset in segment.records[at:]:
                    if most_bytes <= 0:
                        return found, False
                    number, batch = self._record(segment, offset)
                    if number + batch.num_rows > first:
                        batch = batch.slice(max(0, first - number))
                        found.append((max(number, first), batch))
                        most_bytes -= batch.nbytes
        return found, True

    def _record(self, segment: _Segment, offset: int) -> tuple[int, pa.RecordBatch]:
        head = self._disk.read(segment.name, offset, HEAD_SIZE)
        length = HEAD_SIZE + int.from_bytes(head[LENGTH], "little")
        payload = read_frame(self._disk, segment.name, offset, length)
        number, _ = _HEAD.unpack_from(payload)
        body = pa.py_buffer(payload[_HEAD.size :])
        return number, pa.ipc.read_record_batch(body, self._schema)

    def rows_from(self, first: int) -> Iterator[pa.RecordBatch]:
        """All rows with at least this number, in order."""
        for segment in list(self._segments):
            if segment.next_row <= first:
                continue
            for number, count, body in self._records(segment.name):
                if number + count <= first:
                    continue
                if number > first:
                    raise Damaged(f"the journal lacks the rows {first} to {number - 1}")
                batch = pa.ipc.read_record_batch(pa.py_buffer(body), self._schema)
                yield batch.slice(first - number)
                first = number + count

    def forget(self, before: int) -> None:
        """Drop the segments that hold only rows before this number."""
        with self._lock:
            while self._segments and self._segments[0].next_row <= before:
                # The last one is deleted only when it is full: a new file per few rows costs more.
                if len(self._segments) == 1 and self._segments[0].size < self._segment_bytes:
                    return
                self._remove_first()

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            while self._segments:
                self._remove_first()

    def _remove_first(self) -> None:
        going = self._segments.pop(0)
        if self._marked == going.name:  # durably first, or the mark would tell of missing rows
            self._marks.begin(_MARK.pack(-1, 0, -1))
            self._marked = ""
        else:
            self._marks.settle()  # one that is durable may still name what goes
        self._disk.remove(going.name)

    # --- what was synced ------------------------------------------------------------------

    def settle(self) -> None:
        """Make the last mark durable, for a power cut; a process that dies does not lose it."""
        with self._lock:
            self._marks.settle()

    def _mark(self, segment: _Segment) -> None:
        """Note how much of the last segment is durable."""
        self._marks.add(_MARK.pack(_first_row(segment.name), segment.size, segment.next_row))
        self._marked = segment.name

    def _refuse_loss(self) -> None:
        """Refuse to go on without rows that were synced, and so may have been acknowledged."""
        for before in self._segments[:-1]:
            if before.size < self._disk.size(before.name):
                raise damaged(before.name, before.size)
        mark = self._marks.last()
        first, size, next_row = (-1, 0, -1) if mark is None else _MARK.unpack(mark)
        if first < 0:
            return
        name = self._marked = _name(first)
        segment = next((one for one in self._segments if one.name == name), None)
        have, lacks = (0, first) if segment is None else (segment.size, segment.next_row)
        if have < size:
            raise Damaged(
                f"the journal file {name} is damaged at byte {have}: rows {lacks} to"
                f" {next_row - 1} were written there and may have been acknowledged",
                file=name,
                byte=have,
            )

    def _records(self, name: str) -> Iterator[tuple[int, int, memoryview]]:
        for _, payload in scan_frames(self._disk, name):
            number, count = _HEAD.unpack_from(payload)
            yield number, count, memoryview(payload)[_HEAD.size :]

    def _recover(self, name: str) -> None:
        size, next_row = 0, None
        records: list[tuple[int, int]] = []
        for number, count, body in self._records(name):
            records.append((number, size))
            size += HEAD_SIZE + _HEAD.size + len(body)
            next_row = number + count
        # Whole records after a damaged one were acknowledged: cutting them off would lose them.
        refuse_damage(self._disk, name, size)
        first = _first_row(name) if next_row is None else next_row
        self._segments.append(_Segment(name, first, size, records))

    def _discard_torn(self) -> None:
        """Cut off what a crash has torn."""
        for segment in list(self._segments):
            if not segment.size:
                self._segments.remove(segment)
                self._disk.remove(segment.name)
            elif segment.size < self._disk.size(segment.name):
                self._disk.cut(segment.name, segment.size)


def open_journal(directory: Path, schema: pa.Schema) -> tuple[FileDisk, Journal]:
    """The journal in a directory; `Damaged` names that directory and what to do."""
    disk = FileDisk(directory)
    try:
        with damage_in(directory):
            return disk, Journal(disk, schema)
    except BaseException:
        disk.close()
        raise


def _name(first_row: int) -> str:
    return f"{first_row:016d}.rows"


def _first_row(name: str) -> int:
    return int(name.removesuffix(".rows"))
