"""The queue of rows that cannot be requested again.

Pushed rows and rows from a socket are delivered by any thread and taken by the
source's own thread, which makes them durable before it acknowledges them. Waiting
deliveries are taken together, so that many producers share one sync.
"""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field

import pyarrow as pa

from australis.kernel.errors import AustralisError, Stopped
from australis.runtime.sources.base import Rejected

BATCH_ROWS = 100_000
"""The approximate number of rows that are taken at once."""


@dataclass
class Delivery:
    """Some delivered rows, and whether they became durable."""

    rows: pa.RecordBatch
    stimes: pa.Array | None
    """The `_stime` of each row; None if the rows are to be stamped on arrival."""
    rejected: tuple[Rejected, ...] = ()
    end: bool = False
    error: AustralisError | None = None
    _done: threading.Event = field(default_factory=threading.Event)

    def finish(self, error: AustralisError | None = None) -> None:
        """Report that the rows are durable, or the error for which they were refused."""
        self.error = error
        self._done.set()

    def wait(self) -> None:
        """Wait until the rows are durable; raises if they were refused."""
        self._done.wait()
        if self.error is not None:
            raise self.error


class Inbox:
    """Hands deliveries from many threads to one."""

    def __init__(self) -> None:
        # Not a SimpleQueue: its `get` waits for ever if the timeout has passed before it begins.
        self._queue: queue.Queue[Delivery] = queue.Queue()
        self._lock = threading.Lock()
        self._shut: AustralisError | None = None

    def deliver(self, delivery: Delivery) -> None:
        """Deliver rows; returns once they are durable."""
        with self._lock:
            if self._shut is not None:
                raise self._shut
            self._queue.put(delivery)
        delivery.wait()

    def take(self, timeout_s: float) -> list[Delivery]:
        """All waiting deliveries, at least one unless the timeout has passed."""
        found: list[Delivery] = []
        rows, until = 0, time.monotonic() + timeout_s
        while rows < BATCH_ROWS:
            try:
                left = until - time.monotonic() if not found else 0.0
                delivery = self._queue.get(timeout=left) if left > 0 else self._queue.get_nowait()
            except queue.Empty:
                break
            found.append(delivery)
            rows += delivery.rows.num_rows
        return found

    def wake(self) -> None:
        """Let `take` return at once."""
        nothing = pa.RecordBatch.from_arrays([], names=[])
        self._queue.put(Delivery(nothing, None))

    def shut(self, error: AustralisError | None = None) -> None:
        """Refuse all rows from now on, also those that wait."""
        with self._lock:
            self._shut = self._shut or error or Stopped("the source takes no more rows")
        while True:
            try:
                self._queue.get_nowait().finish(self._shut)
            except queue.Empty:
                return
