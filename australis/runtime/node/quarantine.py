"""The rows that a lane leaves out, since the functions of its plan raise on them.

rejected/OUTPUT.jsonl    a line for each: where it came from, why, and the row

A row is known by its content, so that it is left out again after a restart, and on a tentative lane
as on the stable one. What tentative lanes alone have met is not written: it may never become stable.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from australis.runtime.files import FileDisk
from australis.streams.buckets import Buckets, stime_values
from australis.streams.canonical import canonical_array

MAX_ROWS = 10_000
"""The largest number of rows that are left out of an output; with more its lane stops."""
_NOT_CONTENT = ("_type", "_id")


@dataclass(frozen=True)
class Refused:
    """A row that is left out."""

    stime_us: int
    digest: str
    row: dict[str, Any]
    why: str


class Quarantine:
    """The rows that are left out of one output."""

    def __init__(self, directory: Path, output: str, streams: Sequence[str]) -> None:
        self._directory = directory / "rejected"
        self._name = f"{output}.jsonl"
        self._streams = tuple(streams)
        self._lock = threading.Lock()
        self._known: dict[str, int] = {}
        """The time of each row that is left out, by digest."""
        self._stimes: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self.rows = 0
        """The number of rows that are in the file."""
        if self.path.exists():
            self._recover()

    @property
    def path(self) -> Path:
        """The file of the rows."""
        return self._directory / self._name

    def __len__(self) -> int:
        """The number of rows that are left out."""
        return len(self._known)

    def _recover(self) -> None:
        """Take what the file has; a torn or damaged line counts as not written."""
        disk = FileDisk(self._directory)
        try:
            data = disk.read(self._name, 0, disk.size(self._name))
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                disk.cut(self._name, whole)
        finally:
            disk.close()
        for line in data[:whole].splitlines():
            with suppress(msgspec.MsgspecError):
                one = msgspec.json.decode(line, type=_Line)
                self._known[one.digest] = one.stime_us
                self.rows += 1
        self._index()

    def _index(self) -> None:
        self._stimes = np.unique(np.fromiter(self._known.values(), np.int64, len(self._known)))

    def without(self, rows: pa.Table) -> pa.Table:
        """The rows that are not left out."""
        if not len(self._stimes) or not rows.num_rows:
            return rows
        candidates = np.flatnonzero(np.isin(stime_values(rows.column("_stime")), self._stimes))
        gone = [i for i in candidates.tolist() if digest_of(rows, i) in self._known]
        if not gone:
            return rows
        keep = np.ones(rows.num_rows, dtype=bool)
        keep[gone] = False
        return rows.filter(pa.array(keep))

    def refused(self, rows: pa.Table, index: int, why: str) -> Refused:
        """The row at a place of a table, to be left out."""
        stime_us = int(stime_values(rows.column("_stime"))[index])
        return Refused(stime_us, digest_of(rows, index), _told(rows, index), why)

    def add(self, refused: Iterable[Refused], buckets: Buckets, *, durable: bool) -> None:
        """Leave rows out from now on; those that are durable are written."""
        with self._lock:
            new = [one for one in refused if durable or one.digest not in self._known]
            if durable:
                self._write(new, buckets)
            self._known |= {one.digest: one.stime_us for one in new}
            self._index()

    def _write(self, new: Sequence[Refused], buckets: Buckets) -> None:
        lines = bytearray()
        for one in new:
            row = dict(one.row)
            stream = self._streams[int(row.pop("_input", 0) or 0)]
            bucket = buckets.of(one.stime_us)
            line = _Line(one.digest, stream, bucket, one.stime_us, one.why, row)
            lines += msgspec.json.encode(line, enc_hook=repr) + b"\n"
        disk = FileDisk(self._directory)
        try:
            disk.append(self._name, bytes(lines))
            disk.sync(self._name)
        finally:
            disk.close()
        self.rows += len(new)


class _Line(msgspec.Struct):
    """A line of the file."""

    digest: str
    stream: str
    bucket: int
    stime_us: int
    why: str
    row: dict[str, Any]


def digest_of(rows: pa.Table, index: int) -> str:
    """The digest of a row's content: its time, its input and its attributes."""
    row = rows.drop_columns([n for n in _NOT_CONTENT if n in rows.column_names]).take([index])
    columns = [canonical_array(column.combine_chunks()) for column in row.columns]
    batch = pa.RecordBatch.from_arrays(columns, names=row.column_names)
    return hashlib.sha256(batch.serialize()).hexdigest()[:32]


def _told(rows: pa.Table, index: int) -> dict[str, Any]:
    """A row as people read it; without what Python cannot hold."""
    row = rows.slice(index, 1)
    told: dict[str, Any] = {}
    for name in row.column_names:
        if name not in (*_NOT_CONTENT, "_stime"):
            value = row.column(name)[0]
            try:
                plain = value.as_py()
            except (ValueError, OverflowError):
                plain = str(value)
            if not name.startswith("_port"):
                told[name] = plain
            elif isinstance(plain, dict):
                told |= plain
    return told
