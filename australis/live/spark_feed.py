"""What `spark.read.format("australis")` reads: the stable buckets of one stream of a cluster.

The reader of a Spark job runs in one process beside the driver. It holds a subscription,
and keeps what it has received until a micro-batch has taken it (`Window`). Tuples go to
the tasks inside Spark's own plan: executors need no way to the nodes and no certificates,
all tasks that are repeated get the same bytes, and one guest is one guest however many
tasks there are. Once so many bytes wait, the subscription is not read on.

A client of the cluster file acknowledges a bucket only after Spark has committed it, so a
job that goes on from its checkpoint finds in the logs what it had not finished. For a guest
no log is kept: if what follows its checkpoint is gone, it stops and says so.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from australis.diagram.check import nearest
from australis.kernel.durations import SECOND, format_duration
from australis.kernel.errors import Stopped, UserError
from australis.kernel.ids import MAX_BUCKET
from australis.live.client import Change, Connection, Kind, Subscription, connect

FACTORY = f"{__name__}:open_feed"
"""What Spark's processes are told to connect with."""
OPTIONS = ("cluster", "stream", "client", "identity", "startingBucket", "maxBytesPerTrigger")
COLUMNS = ("_id", "_stime")
"""What of a tuple's header Spark sees; all tuples it sees are of one type."""
MAX_BYTES = 64 << 20
"""So many bytes wait for Spark if the options say nothing else."""
TABLE_BYTES = 1 << 30
"""No more than this is read at once, without a stream."""
PIECE_BYTES = 8 << 20
"""What one task is handed, about; Spark refuses tasks of more than 128 MB."""
POLL_S = 0.1
"""So long it is waited for tuples before Spark hears that there are none."""
IDLE_US = 60 * SECOND
"""An idle stream goes on after so long, so that its log can go."""
PATIENCE_S = 60.0
"""How long a bucket that is in the logs may take to come."""


class Window:
    """Stable buckets in order that wait to be read."""

    def __init__(self, after: int) -> None:
        self.begins = after
        """What lies up to here is gone."""
        self.upto = after
        self.nbytes = 0
        self._batches: deque[tuple[int, pa.RecordBatch]] = deque()

    def add(self, bucket: int, batch: pa.RecordBatch | None) -> None:
        """The next bucket; an empty one has no batch."""
        self.upto = bucket
        if batch is not None and batch.num_rows:
            self._batches.append((bucket, batch))
            self.nbytes += batch.nbytes

    def drop(self, upto: int) -> None:
        """Nobody will ask for these buckets."""
        self.begins = max(self.begins, upto)
        while self._batches and self._batches[0][0] <= upto:
            self.nbytes -= self._batches.popleft()[1].nbytes

    def between(self, after: int, upto: int) -> list[pa.RecordBatch]:
        """The tuples of the buckets (after, upto]."""
        assert self.begins <= after, f"({after}, {upto}] was done with: {self.begins}"
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
        """Whether nothing has been read yet, and nobody said from where."""
        self._needed = -1
        """Up to here it is read on, however much waits."""
        self._error: BaseException | None = None
        self._closed = False

    def schema(self) -> str:
        """The columns of the stream, as Spark SQL writes them."""
        return f"_id bigint, _stime timestamp, {self._connection.schema(self._stream)}"

    def end(self) -> int:
        """The last bucket the logs hold now."""
        return self._connection.kept(self._stream)[1]

    # --- following the stream -----------------------------------------------------------------

    def begin(self, after: int | None = None) -> None:
        """Follow the stream behind this bucket, or from where the options say."""
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
        begins, end = self._connection.kept(self._stream)
        return begins if self._starting == "earliest" else end

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
        if change.kind is Kind.STABLE:
            self._may_skip = False
            self._window.add(change.bucket, change.batch)
        elif self._may_skip:
            self._window = Window(change.bucket)
        else:
            raise self._gone(change.bucket)

    def _gone(self, upto: int) -> UserError:
        """The buckets up to this one cannot be read any more."""
        missing = f"{self._window.upto + 1} to {upto}"
        hint = "" if self._client else "; the log of a 'client' of the cluster file would be kept"
        return UserError(
            f"is no longer in the logs from bucket {missing}: begin anew with another"
            f" checkpoint and 'startingBucket'{hint}",
            name=self._stream,
        )

    # --- what Spark asks ----------------------------------------------------------------------

    def latest(self, after: int | None, target: int | None = None) -> tuple[int, int] | None:
        """The range of the next micro-batch behind a bucket (None: the very first one).

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
            rows = bool(window.between(window.begins, upto))
            if not rows and (target is not None or upto - window.begins < self._idle):
                return None
            return window.begins, upto

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
            batches = self._window.between(self._window.begins, target)
        return list(_pieces(batches, self._columns))

    def commit(self, upto: int) -> None:
        """Spark has processed the buckets up to this one for good."""
        if self._subscription is not None:
            self._subscription.acknowledge(upto)

    def close(self) -> None:
        """Follow the stream no longer."""
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
        """Wait a moment for tuples; what went wrong is told once there are none left."""
        self._changed.wait_for(lambda: self._window.nbytes or self._error, POLL_S)
        if not self._window.nbytes:
            self._look()

    def _until(self, there: Callable[[], bool]) -> None:
        """Wait for something; it may take long as long as buckets come."""
        while not there():
            self._until_more(there, self._window.upto)

    def _until_more(self, there: Callable[[], bool], before: int) -> None:
        def more() -> bool:
            return there() or self._error is not None or self._window.upto > before

        if not self._changed.wait_for(more, PATIENCE_S):
            patience = format_duration(int(PATIENCE_S * SECOND))
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
    """The options under the names we know them by; Spark does not tell cases apart."""
    names = {name.lower(): name for name in OPTIONS}
    for name in options:
        if name.lower() not in names:
            close = nearest(name, list(OPTIONS))
            hint = f"did you mean '{close}'?" if close else f"options: {', '.join(OPTIONS)}"
            raise UserError(f"is no option of this format ({hint})", name=name)
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
