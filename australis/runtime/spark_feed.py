"""The feed of `spark.read.format("australis")`: the stable buckets of one stream of a cluster.

The reader of a Spark job runs in one process beside the driver. It holds a subscription,
and buffers what it has received until a micro-batch has read it (`Window`). Tuples go to
the tasks inside Spark's own plan: executors need no connection to the nodes and no
certificates, repeated tasks get the same bytes, and one job is one guest however many tasks
it has. Once the buffer is full, the subscription is not read on (back-pressure).

A client of the cluster file acknowledges a bucket only after Spark has committed it, so a
job that continues from its checkpoint finds in the logs what it had not finished. For a guest
no log is kept: if the buckets after its checkpoint are truncated, it stops with an error.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from australis.kernel.durations import SECOND, format_duration
from australis.kernel.errors import Stopped, UserError, unknown_name
from australis.kernel.ids import MAX_BUCKET
from australis.runtime.client import Change, ChangeKind, Connection, Subscription, connect

FACTORY = f"{__name__}:open_feed"
"""The function with which Spark's processes connect."""
OPTIONS = ("cluster", "stream", "client", "identity", "startingBucket", "maxBytesPerTrigger")
COLUMNS = ("_id", "_stime")
"""The header columns that Spark sees; all tuples that it sees are of one type."""
MAX_BYTES = 64 << 20
"""The default limit of the bytes that are buffered for Spark."""
TABLE_BYTES = 1 << 30
"""The largest number of bytes that a batch query (without a stream) may read."""
PIECE_BYTES = 8 << 20
"""The approximate number of bytes for one task; Spark refuses tasks of more than 128 MB."""
POLL_S = 0.1
"""The longest wait for tuples before Spark is told that there are none."""
IDLE_US = 60 * SECOND
"""The time after which an idle stream advances its offset, so that its log can be truncated."""
START_TIMEOUT_S = 60.0
"""The longest time in which a bucket that is in the logs must arrive."""


class Window:
    """The stable buckets, in order, that wait to be read."""

    def __init__(self, after: int) -> None:
        self.trimmed_upto = after
        """The last bucket that is no longer buffered."""
        self.upto = after
        self.nbytes = 0
        self._batches: deque[tuple[int, pa.RecordBatch]] = deque()

    def add(self, bucket: int, batch: pa.RecordBatch | None) -> None:
        """Append the next bucket; an empty one has no batch."""
        self.upto = bucket
        if batch is not None and batch.num_rows:
            self._batches.append((bucket, batch))
            self.nbytes += batch.nbytes

    def drop(self, upto: int) -> None:
        """Drop the buckets up to this one, which Spark will not ask for again."""
        self.trimmed_upto = max(self.trimmed_upto, upto)
        while self._batches and self._batches[0][0] <= upto:
            self.nbytes -= self._batches.popleft()[1].nbytes

    def between(self, after: int, upto: int) -> list[pa.RecordBatch]:
        """The tuples of the buckets (after, upto]."""
        assert self.trimmed_upto <= after, f"({after}, {upto}] was done with: {self.trimmed_upto}"
        return [batch for bucket, batch in self._batches if after < bucket <= upto]


class StreamFeed:
    """One stream of a cluster, for one Spark job."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        client: str | None,
        starting: str | None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._client = client
        self._starting = starting or ("latest" if client is None else "earliest")
        self._max_bytes = max_bytes
        self._idle = max(1, IDLE_US // connection.diagram.bucket_us)
        self._changed = threading.Condition()
        self._subscription: Subscription | None = None
        self._window = Window(-1)
        self._may_skip = False
        """Whether nothing has been read yet, and no start was given."""
        self._needed = -1
        """The bucket up to which the subscription is read even if the buffer is full."""
        self._error: BaseException | None = None
        self._closed = False

    def schema(self) -> str:
        """The columns of the stream, as Spark SQL writes them."""
        return f"_id bigint, _stime timestamp, {self._connection.schema(self._stream)}"

    def end(self) -> int:
        """The last bucket that the logs hold now."""
        return self._connection.kept(self._stream)[1]

    # --- following the stream -----------------------------------------------------------------

    def begin(self, after: int | None = None) -> None:
        """Follow the stream after this bucket, or from the start that the options give."""
        if self._subscription is not None:
            return
        self._may_skip = after is None and not self._starting.isdigit()
        if after is None:
            after = self._first()
        self._window = Window(after)
        self._subscription = self._connection.subscribe(
            self._stream,
            self._client,
            after=after,
            guest=self._client is None,
            stable_only=True,
            hold=True,
        )
        threading.Thread(target=self._fill, name=f"feed of {self._stream}", daemon=True).start()

    def _first(self) -> int:
        if self._starting.isdigit():
            return int(self._starting) - 1
        trimmed_upto, end = self._connection.kept(self._stream)
        return trimmed_upto if self._starting == "earliest" else end

    def _fill(self) -> None:
        assert self._subscription is not None
        error: BaseException = Stopped(f"the subscription to '{self._stream}' was closed")
        try:
            for change in self._subscription:
                with self._changed:
                    self._changed.wait_for(self._has_room)
                    self._take(change)
                    self._changed.notify_all()
        except BaseException as raised:
            error = raised
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return not self._full or self._window.upto < self._needed or self._closed

    @property
    def _full(self) -> bool:
        return self._window.nbytes >= self._max_bytes

    def _take(self, change: Change) -> None:
        if change.kind is ChangeKind.INSERTION:
            self._may_skip = False
            self._window.add(change.bucket, change.batch)
        elif self._may_skip:
            self._window = Window(change.bucket)
        else:
            raise self._gone(change.bucket)

    def _gone(self, upto: int) -> UserError:
        """The error that the buckets up to this one cannot be read any more."""
        missing = f"{self._window.upto + 1} to {upto}"
        hint = "" if self._client else "; the log of a 'client' of the cluster file would be kept"
        return UserError(
            f"is no longer in the logs from bucket {missing}: begin anew with another"
            f" checkpoint and 'startingBucket'{hint}",
            name=self._stream,
        )

    # --- what Spark asks ----------------------------------------------------------------------

    def latest(self, after: int | None, target: int | None = None) -> tuple[int, int] | None:
        """The range of the next micro-batch after a bucket (None: the very first one).

        None if there is nothing to do. With a `target` it waits for all up to there, or for as
        much as there is room for, and goes no further.
        """
        self.begin(after)
        with self._changed:
            if after is not None:
                self._window.drop(after)
                self._changed.notify_all()
            if target is None:
                self._until_rows()
            else:
                self._until(lambda: self._full or self._window.upto >= target)
            window = self._window
            upto = window.upto if target is None else min(window.upto, target)
            rows = bool(window.between(window.trimmed_upto, upto))
            if not rows and (target is not None or upto - window.trimmed_upto < self._idle):
                return None
            return window.trimmed_upto, upto

    def read(self, after: int, upto: int) -> list[bytes]:
        """The tuples of the buckets (after, upto] as Arrow streams, one for each task."""
        self.begin(after)
        with self._changed:
            self._needed = upto
            self._changed.notify_all()
            self._until(lambda: self._window.upto >= upto)
            batches = self._window.between(after, upto)
        return list(_pieces(batches, self._columns))

    def everything(self) -> list[bytes]:
        """All tuples that are in the logs now."""
        target = self.end()
        self.begin()
        with self._changed:
            self._until(lambda: self._full or self._window.upto >= target)
            if self._window.upto < target:
                sentence = f"holds more than {self._max_bytes:,} bytes: read it as a stream"
                raise UserError(sentence, name=self._stream)
            batches = self._window.between(self._window.trimmed_upto, target)
        return list(_pieces(batches, self._columns))

    def commit(self, upto: int) -> None:
        """Acknowledge the buckets up to this one, which Spark has committed."""
        if self._subscription is not None:
            self._subscription.acknowledge(upto)

    def close(self) -> None:
        """Stop following the stream."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._connection.close()

    @property
    def _columns(self) -> list[str]:
        assert self._subscription is not None
        return [*COLUMNS, *self._subscription.schema.names]

    def _look(self) -> None:
        if self._error is not None:
            raise self._error

    def _until_rows(self) -> None:
        """Wait a moment for tuples; raises an error only once no tuples are left."""
        self._changed.wait_for(lambda: self._window.nbytes or self._error, POLL_S)
        if not self._window.nbytes:
            self._look()

    def _until(self, there: Callable[[], bool]) -> None:
        """Wait for a condition; there is no timeout while buckets keep arriving."""
        while not there():
            self._until_more(there, self._window.upto)

    def _until_more(self, there: Callable[[], bool], before: int) -> None:
        def more() -> bool:
            return there() or self._error is not None or self._window.upto > before

        if not self._changed.wait_for(more, START_TIMEOUT_S):
            patience = format_duration(int(START_TIMEOUT_S * SECOND))
            raise Stopped(
                f"bucket {before + 1} of '{self._stream}' did not come in {patience}:"
                " are the nodes of the cluster up?"
            )
        if not there():
            self._look()


def _pieces(batches: list[pa.RecordBatch], columns: list[str]) -> Iterator[bytes]:
    """These tuples as Arrow streams of a decent size."""
    if not batches:
        return
    whole = pa.concat_batches([batch.select(columns) for batch in batches])
    rows = max(1, PIECE_BYTES * whole.num_rows // max(1, whole.nbytes))
    for at in range(0, whole.num_rows, rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, whole.schema) as writer:
            writer.write_batch(whole.slice(at, rows))
        yield sink.getvalue().to_pybytes()


# --- options ------------------------------------------------------------------------------------


def open_feed(options: Mapping[str, str], *, table: bool = False) -> StreamFeed:
    """The feed that a Spark job's options describe; as a `table` it is read once, as a whole."""
    given = _known(options)
    for name in ("cluster", "stream"):
        if name not in given:
            example = {"cluster": "cluster.yaml", "stream": "alerts"}[name]
            raise UserError(f"is missing: .option({name!r}, {example!r})", name=name)
    client = given.get("client")
    if table and client is not None:
        raise UserError("reads a stream: without one, read as a guest", name="client")
    starting = _starting(given.get("startingBucket", "earliest" if table else None))
    most = TABLE_BYTES if table else _bytes(given.get("maxBytesPerTrigger"))
    connection = connect(given["cluster"], identity=given.get("identity"))
    return StreamFeed(connection, given["stream"], client, starting, most)


def _known(options: Mapping[str, str]) -> dict[str, str]:
    """The options under their proper names, since Spark ignores case."""
    names = {name.lower(): name for name in OPTIONS}
    for name in options:
        if name.lower() not in names:
            raise unknown_name(name, OPTIONS, "is no option of this format", heading="options")
    return {names[name.lower()]: value for name, value in options.items()}


def _starting(text: str | None) -> str | None:
    if text is None or text in ("earliest", "latest"):
        return text
    if text.isdigit() and int(text) <= MAX_BUCKET:
        return text
    raise UserError("should be 'earliest', 'latest' or a bucket", name="startingBucket")


def _bytes(text: str | None) -> int:
    if text is None:
        return MAX_BYTES
    if not text.isdigit() or not int(text):
        raise UserError("should be a number of bytes", name="maxBytesPerTrigger")
    return int(text)
