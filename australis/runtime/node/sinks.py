"""A sink on a node: the application behind a client proxy that writes stable tuples.

The proxy acknowledges what the sink has made durable, so that the log is kept until then; after a
crash the sink continues after its position, and repeated tuples are dropped by their ids.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from australis.kernel.errors import Damaged
from australis.kernel.ids import unpack_id
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import Consumed, LogDamaged
from australis.protocols.dpc.proxies import Insertions, LoggedInsertions, Skipped
from australis.protocols.dpc.spans import Span
from australis.runtime.node.events import ERROR, WARNING, Tell, tell_nobody
from australis.runtime.node.held import FindLog
from australis.runtime.sinks import SinkWriter
from australis.runtime.sinks.base import after, last_id_of
from australis.streams.buckets import Buckets

FLUSH_INTERVAL_S = 1.0
"""How often a sink makes durable what it has written, at least."""
STOP_TIMEOUT_S = 5.0
"""How long a sink that is stopped goes on writing what has come."""


class SinkFollower:
    """Writes the stable tuples of one stream on a separate thread."""

    def __init__(
        self,
        name: str,
        stream: str,
        writer: SinkWriter,
        buckets: Buckets,
        find_log: FindLog,
        post: Callable[[str, Event], None],
        on_error: Callable[[BaseException], None],
        on_progress: Callable[[], None],
        tell: Tell = tell_nobody,
        on_damaged: Callable[[str, str, Damaged], None] = lambda machine, stream, error: None,
    ) -> None:
        """A follower that tells `on_damaged` which machine's log it could not read."""
        self.name = name
        self.stream = stream
        self.rows = 0
        self.upto = -1
        """The last bucket whose tuples are durably written."""
        self.done = threading.Event()
        """Set when the stream has ended and everything is written, or the sink was stopped."""
        self._writer = writer
        self._buckets = buckets
        self._find_log = find_log
        self._post = post
        self._on_error = on_error
        self._on_progress = on_progress
        self._tell = tell
        self._on_damaged = on_damaged
        self._reads_again = False
        """Whether what the proxy had delivered is dropped until it has gone back."""
        self.gone: list[tuple[int, int]] = []
        """The buckets (after, upto] that it was told are no longer kept, since it was started."""
        self._waiting: deque[Span | Skipped] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._last_id = writer.position
        self._taken = -1
        """The last bucket that was handed to the writer."""
        self._said = (-1, -1)
        """What the proxy was told last."""
        self._saved_at = time.monotonic()
        self._stop_by: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"sink {name}", daemon=True)

    @property
    def taken(self) -> int:
        """The last bucket whose tuples have been handed to the writer."""
        return self._taken

    @property
    def begins_after(self) -> int:
        """The last bucket that need not be read again."""
        position = self._writer.position
        return -1 if position < 0 else unpack_id(position)[0] - 1

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what has come, as far as there is time for that, then end."""
        with self._changed:
            self._stopping = True
            self._stop_by = time.monotonic() + STOP_TIMEOUT_S
            self._changed.notify()
        if self._thread.ident is None:  # nothing was taken: the start of its node failed
            self._writer.close()
        else:
            self._thread.join()

    def deliver(self, stream: str, what: Any) -> None:
        """Take a delivery of the client proxy; tentative tuples are ignored."""
        match what:
            case Insertions(bucket=bucket):
                self._take(Span(bucket.number - 1, bucket.number, (bucket,)))
            case LoggedInsertions(span=span):
                self._take(span)
            case Skipped(after=after, upto=upto):
                self._take(Skipped(after, upto))

    def _take(self, what: Span | Skipped) -> None:
        with self._changed:
            self._waiting.append(what)
            self._changed.notify()

    def _run(self) -> None:
        try:
            while self._taken < self._buckets.last and not self._ends:
                match self._next():
                    case Span() as span:
                        self._write(span)
                    case Skipped() as gap:
                        self._skip(gap)
                    case None if self._stopping:
                        break
                if not self._waiting:
                    self._save()
            self._writer.close()
            self._report()
        except BaseException as error:
            self._on_error(error)
        finally:
            self.done.set()
            self._on_progress()

    @property
    def _ends(self) -> bool:
        """Whether to end before all is written: the position says where to go on."""
        overdue = self._stop_by is not None and time.monotonic() > self._stop_by
        return overdue or bool(getattr(self._writer, "abandoned", False))

    def _is_dropped(self, what: Span | Skipped) -> bool:
        """Whether this was delivered before the proxy went back to a damaged bucket."""
        self._reads_again &= what.after > self._taken
        return self._reads_again

    def _skip(self, gap: Skipped) -> None:
        """Go on behind tuples that are gone, and say which."""
        if self._is_dropped(gap):
            return
        why = f"the buckets {gap.after + 1} to {gap.upto} of '{self.stream}' are no longer kept"
        self.gone.append((gap.after, gap.upto))
        told = {"sink": self.name, "after": gap.after, "upto": gap.upto, "why": why}
        if self._last_id >= 0:
            self._tell("sink_misses", level=ERROR, **told)
        else:
            self._tell("sink_begins_late", level=WARNING, **told)
        self._taken = max(self._taken, gap.upto)

    def _save(self) -> None:
        """Make durable what can be, and say so."""
        self._writer.flush()
        self._saved_at = time.monotonic()
        self._report()

    def _next(self) -> Span | Skipped | None:
        """What comes next; None if nothing has come for a while."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping, FLUSH_INTERVAL_S)
            return self._waiting.popleft() if self._waiting else None

    def _write(self, span: Span) -> None:
        if self._is_dropped(span):
            return
        try:
            self._write_all(span)
        except Damaged as error:
            if error.bucket is None or not span.log:
                raise
            # The proxy reads that bucket from another replica, or is told that it is gone.
            self._taken = max(self._taken, error.bucket - 1)
            self._reads_again = True
            self._on_damaged(span.log, self.stream, error)
            self._post(self.name, LogDamaged(self.stream, error.bucket))

    def _write_all(self, span: Span) -> None:
        for batch in self._batches(span):
            new = after(batch, self._last_id)
            if new.num_rows:
                self._writer.write(new)
                self.rows += new.num_rows
                self._last_id = last_id_of(new)
            if time.monotonic() - self._saved_at > FLUSH_INTERVAL_S:
                self._save()
            if self._ends:
                return
        self._taken = span.upto

    def _batches(self, span: Span) -> Iterator[pa.RecordBatch]:
        if span.log:
            log = self._find_log(span.log, self.stream)
            yield from (batch for _, batch in log.read(span.after, span.upto))
        else:
            yield from (b.batch for b in span.buckets if b.batch is not None)

    def _report(self) -> None:
        """Tell the proxy what the log need not keep, and what has been taken from it.

        The bucket of the last tuple that is durable stays in the log: there the sink goes on after
        a restart, whatever empty buckets have followed.
        """
        durable = self._writer.position >= self._last_id
        self.upto = max(self.upto, self._taken if durable else self.begins_after)
        said = self.begins_after, self._taken
        if said != self._said:
            self._said = said
            self._post(self.name, Consumed(*said))
            self._on_progress()
