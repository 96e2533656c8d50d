"""Tuples for a Python program: a function that is called, or an iterator.

The function gets each record batch, or with `rows: true` a list of dicts. The
position is stored once it has returned: after a crash it may get tuples a second
time, but it misses none.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from australis.kernel.errors import Stopped
from australis.runtime.sinks.base import Position, PositionedSink, kept_in_state, last_id_of

MAX_QUEUED_BATCHES = 16
"""The largest number of batches by which an iterator's writer is ahead of its reader."""


class CallbackSink(PositionedSink):
    """Calls a function with the tuples of a stream."""

    def __init__(self, call: Callable[[Any], object], path: Path, *, rows: bool = False) -> None:
        file = kept_in_state(path)
        super().__init__(file, file.load() or Position())
        self._call = call
        self._rows = rows

    def _put(self, batch: pa.RecordBatch) -> None:
        """Call the function; what it raises stops the sink."""
        try:
            self._call(batch.to_pylist() if self._rows else batch)
        except Exception as error:
            raise Stopped(f"the function of a callback sink raised {error!r}") from error


class StreamIterator:
    """A sink whose tuples a program in the same process iterates over.

    Iterating blocks until tuples arrive and ends when the writer is closed. The
    writer blocks when it is far ahead, until the reader catches up or ends by
    `close_reader` (leaving the loop does that). It begins with the first tuple: no
    position is kept between runs.
    """

    def __init__(self, *, batches: bool = False) -> None:
        """An iterator over one dict per tuple, or over whole record batches."""
        self._batches = batches
        self._waiting: deque[pa.RecordBatch] = deque()
        self._changed = threading.Condition()
        self._finished = False
        self._closed = False
        self._error: BaseException | None = None
        self._last_id = -1

    @property
    def abandoned(self) -> bool:
        """Whether its reader has stopped."""
        return self._closed

    # --- the writer's side ----------------------------------------------------

    @property
    def position(self) -> int:
        """The id of the last tuple that was queued."""
        return self._last_id

    def write(self, batch: pa.RecordBatch) -> None:
        """Queue tuples; blocks while the reader is far behind."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < MAX_QUEUED_BATCHES or self._closed)
            if batch.num_rows and not self._closed:
                self._waiting.append(batch)
                self._changed.notify_all()
        if batch.num_rows:
            self._last_id = last_id_of(batch)

    def flush(self) -> None:
        """Do nothing: queued tuples are the reader's responsibility."""

    def close(self) -> None:
        """End the iteration after the queued tuples."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    # --- the reader's side ----------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Raise this error in the reader, after the queued tuples."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def close_reader(self) -> None:
        """Stop reading; the writer does not block any more."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Any]:
        try:
            while (batch := self._next()) is not None:
                if self._batches:
                    yield batch
                else:
                    yield from batch.to_pylist()
        finally:
            self.close_reader()  # also when the loop over it is left early

    def _next(self) -> pa.RecordBatch | None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._waiting or self._finished or self._closed or self._error
            )
            if not self._waiting:
                if self._error is not None and not self._finished:
                    raise self._error
                return None
            batch = self._waiting.popleft()
            self._changed.notify_all()
            return batch
