"""Running a diagram on this machine: a cluster of one node, in this process.

    with start(diagram, state=Path("state")) as running:
        running.push("readings", [{"room": "a", "celsius": 31.0}])
        running.wait()

Everything durable is in the state directory, so a run that was stopped or killed
continues where it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from australis.deployment.cluster import LOOPBACK, Cluster, NodePlace
from australis.diagram.fragments import Fragment, cut
from australis.diagram.model import Diagram
from australis.kernel.durations import MINUTE, SECOND
from australis.kernel.errors import UserError, unknown_name
from australis.runtime.logs import SharedLog
from australis.runtime.node.lanes import ROWS_PER_BATCH
from australis.runtime.node.process import Node
from australis.runtime.node.settings import NodeSettings
from australis.runtime.node.sinks import SinkFollower
from australis.runtime.node.spark_lanes import SparkLanes
from australis.runtime.node.spark_work import Query
from australis.runtime.proxy import SourceProxy
from australis.runtime.sinks.callback import StreamIterator
from australis.runtime.sources.push import PushHandle
from australis.runtime.state import StateDirectory
from australis.spark.lane import Lane
from australis.spark.session import SparkSession
from australis.streams.buckets import END_OF_STREAM_US
from australis.streams.schema import Schema

NODE = "local"
"""The name of the only node."""
SUPERVISE_INTERVAL_S = 0.1


def one_node(diagram: Diagram, state: Path, master: str) -> Cluster:
    """The cluster of one node that runs everything and accepts no connections from others."""
    return Cluster(
        name=NODE,
        diagram_path="",
        state=str(state),
        max_delay_us=10 * MINUTE,
        heartbeat_us=SECOND // 4,
        epoch_us=0,
        nodes={NODE: NodePlace(NODE, LOOPBACK, 0, master=master)},
        replicas={fragment.name: (NODE,) for fragment in cut(diagram)},
        sources={source.name: NODE for source in diagram.sources},
    )


class Running:
    """A running diagram: a context manager; `wait` returns when a finite one has ended."""

    def __init__(
        self,
        diagram: Diagram,
        state: Path,
        *,
        spark: SparkSession | None = None,
        master: str = "local[*]",
        base: Path | None = None,
        host: str = LOOPBACK,
        fresh: bool = False,
        drop_written: bool = False,
        rows_per_batch: int = ROWS_PER_BATCH,
        spark_settings: dict[str, str] | None = None,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self.diagram = diagram
        self.base = base if base is not None else Path.cwd()
        written = {sink.stream for sink in diagram.sinks} if drop_written else set()
        settings = NodeSettings(
            listen=False,
            bounded=True,
            tentative=False,
            keep=tuple(stream for stream in diagram.results if stream not in written),
            fresh=fresh,
            rows_per_batch=rows_per_batch,
            spark=spark,
            spark_settings=spark_settings or {},
            host=host,
            on_step=on_step,
        )
        self._node = Node(
            one_node(diagram, state, master),
            diagram,
            NODE,
            base=self.base,
            settings=settings,
            directory=Path(state),
        )
        self.started_at = time.monotonic()
        """The time at which the lanes were started."""
        self._iterators: list[StreamIterator] = []
        self._stopping = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
        self._stopped = False

    # --- what there is -------------------------------------------------------

    @property
    def state(self) -> StateDirectory:
        """The state directory."""
        return self._node.state

    @property
    def schemas(self) -> dict[str, Schema]:
        """The schema of every stream."""
        return self._node.schemas

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The fragments of the diagram."""
        return self._node.topology.fragments

    @property
    def sources(self) -> dict[str, SourceProxy]:
        """The proxies of the sources."""
        return {name: feed.proxy for name, feed in self._node.sources.items()}

    @property
    def logs(self) -> dict[str, SharedLog]:
        """The log of every logged stream: those of sources first."""
        return self._node.logs

    @property
    def queries(self) -> dict[str, Query]:
        """The inputs and progress of each lane, by the stream that it computes."""
        engines = (engine.lanes for engine in self._node.engines.values())
        spark = [lanes for lanes in engines if isinstance(lanes, SparkLanes)]
        return {query.name: query for lanes in spark for query in lanes.queries}

    def wait_of(self, stream: str) -> dict[str, Any]:
        """The input that holds back a computed stream (`node.waits.of_wait`)."""
        return self._node.wait_of(stream)

    @property
    def lanes(self) -> dict[str, Lane]:
        """The Spark queries, by the stream that each computes."""
        return {name: q.lane for name, q in self.queries.items() if q.lane is not None}

    @property
    def sinks(self) -> dict[str, SinkFollower]:
        """The sinks, each of which follows a stream."""
        return self._node.sinks

    # --- starting ------------------------------------------------------------

    def start(self) -> Running:
        """Open the state, start Spark, the lanes, the sinks and the sources."""
        try:
            self._node.start()
            self._node.await_lanes()
        except BaseException:
            self.stop()
            raise
        self.started_at = time.monotonic()
        self._supervisor.start()
        return self

    def _supervise(self) -> None:
        """Report failures to iterators, and end processes that are no longer needed."""
        while not self._stopping.wait(SUPERVISE_INTERVAL_S):
            if self._node.errors:
                for iterator in self._iterators:
                    iterator.fail(self._node.errors[0])
                return
            with suppress(Exception):  # a JVM that is gone is told by its queries
                self._node.trim()

    # --- using ---------------------------------------------------------------

    def push(self, source: str, rows: Any) -> None:
        """Push rows to a push source; they are durable when this returns."""
        self.check()
        self._push_handle(source).push(rows)

    def end(self, source: str) -> None:
        """End a push source, which gets no more rows."""
        self._push_handle(source).end()

    def _push_handle(self, source: str) -> PushHandle:
        proxy = self.sources.get(source)
        if proxy is None or proxy.push_handle is None:
            known = [name for name, one in self.sources.items() if one.push_handle is not None]
            sentence = "is not a push source of this diagram"
            raise unknown_name(source, known, sentence, heading="push sources")
        return proxy.push_handle

    def table(self, stream: str) -> pa.Table:
        """All stable tuples of a result so far; of another logged stream, those in its log."""
        log = self._log(stream)
        if stream in self.diagram.results:
            self._refuse_dropped(stream)
        batches = [batch for _, batch in log.read(log.truncated_to, log.closed)]
        return pa.Table.from_batches(batches, log.schema.arrow)

    def stream(self, stream: str) -> Iterator[dict[str, Any]]:
        """The stable tuples of a stream as they arrive, one dict each, until it ends."""
        if stream not in self.diagram.results:
            results, sentence = self.diagram.results, "is not a result of this diagram"
            raise unknown_name(stream, results, sentence, heading="results")
        self._refuse_dropped(stream)
        self.check()
        iterator = StreamIterator()
        self._iterators.append(iterator)
        self._node.follow(stream, iterator, iterator.fail)
        return iter(iterator)

    def _refuse_dropped(self, stream: str) -> None:
        if self._log(stream).trimmed_upto >= 0:
            raise UserError("has been dropped from its log, as was asked for", name=stream)

    def _log(self, stream: str) -> SharedLog:
        if stream not in self.logs:
            raise unknown_name(stream, self.logs, "has no log", heading="logged streams")
        return self.logs[stream]

    @property
    def finished(self) -> bool:
        """Whether every result is complete and in its sinks."""
        logs = self.logs
        complete = all(
            s in logs and logs[s].boundary_us >= END_OF_STREAM_US for s in self.diagram.results
        )
        return complete and all(sink.done.is_set() for sink in list(self.sinks.values()))

    def check(self) -> None:
        """Raise the error that has stopped a source, a lane or a sink, if there is one."""
        for error in self._node.errors:
            raise error

    def wait(self, timeout_s: float | None = None, *, every_s: float = 0.1) -> bool:
        """Wait until all results are complete; returns False after a timeout."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self.finished:
            self.check()
            if deadline is not None and time.monotonic() > deadline:
                return False
            with self._node.changed:
                self._node.changed.wait(every_s)
        self.check()
        return True

    # --- stopping ------------------------------------------------------------

    def stop(self) -> None:
        """Stop everything; acknowledged data stays durable."""
        if self._stopped:
            return
        self._stopped = True
        self._stopping.set()
        if self._supervisor.ident is not None:
            self._supervisor.join()
        for iterator in self._iterators:
            iterator.close_reader()
        self._node.stop()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def start(diagram: Diagram, state: Path | str, **options: Any) -> Running:
    """Start a diagram over this state directory; see `Running` for the options."""
    return Running(diagram, Path(state), **options).start()
