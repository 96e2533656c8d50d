"""Running a diagram on this machine: sources, DataPath, lanes and sinks together.

    with start(diagram, state=Path("state")) as running:
        running.push("readings", [{"room": "a", "celsius": 31.0}])
        running.wait()

Everything durable is in the state directory, so a run that was stopped or killed
goes on where it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from australis.diagram.fragments import Fragment, cut
from australis.diagram.model import Diagram, Spark
from australis.kernel.errors import UserError
from australis.live.datapath import ROWS_PER_BATCH, DataPath, SharedLog
from australis.live.files import DirectoryLock, FileDisk
from australis.live.flight import DataPathServer
from australis.live.flight_port import FACTORY
from australis.live.follow import SinkFollower
from australis.live.processes import identity, outlive
from australis.live.proxy import SourceProxy
from australis.live.sinks import check_options as check_sink
from australis.live.sinks import open_sink, refuse_shared_files
from australis.live.sinks.callback import StreamIterator
from australis.live.sources import check_options as check_source
from australis.live.sources.push import PushHandle
from australis.live.state import StateDirectory
from australis.spark.analyse import check_streaming, stream_schemas
from australis.spark.functions import function_digest
from australis.spark.lane import Lane, LaneAddress
from australis.spark.session import (
    LOOKUP,
    NEXT,
    READ_PLANNERS,
    WRITE_PLANNERS,
    SparkSession,
    end_processes,
    has_process,
    open_session,
    our_settings,
    process_id,
)
from australis.streams.buckets import END_OF_STREAM_US
from australis.streams.schema import Schema

AHEAD_ROWS = 2_000_000
"""A source that can be replayed is read at most so far ahead of the lanes."""
TRUNCATE_EVERY_S = 5.0
SUPERVISE_EVERY_S = 0.1


class Running:
    """A diagram that runs. Use it as a context manager; `wait` for a finite one to end."""

    def __init__(
        self,
        diagram: Diagram,
        state: Path,
        *,
        spark: SparkSession | None = None,
        master: str = "local[*]",
        base: Path | None = None,
        host: str = "127.0.0.1",
        fresh: bool = False,
        drop_written: bool = False,
        rows_per_batch: int = ROWS_PER_BATCH,
        spark_settings: dict[str, str] | None = None,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self.diagram = diagram
        self.base = base if base is not None else Path.cwd()
        self.state = StateDirectory(state)
        self.datapath = DataPath(diagram.buckets)
        self.schemas: dict[str, Schema] = {}
        self.fragments: tuple[Fragment, ...] = ()
        self.sources: dict[str, SourceProxy] = {}
        self.lanes: dict[str, Lane] = {}
        self.sinks: dict[str, SinkFollower] = {}
        self.lanes_started_at = time.monotonic()
        self._given_spark = spark
        self._spark = spark
        self._master = master
        self._host = host
        self._fresh = fresh
        self._drop_written = drop_written
        self._iterators: list[StreamIterator] = []
        self._rows_per_batch = rows_per_batch
        self._spark_settings = spark_settings or {}
        self._on_step = on_step
        self._errors: list[BaseException] = []
        self._lock: DirectoryLock | None = None
        self._server: DataPathServer | None = None
        self._disks: list[FileDisk] = []
        self._truncated_at = time.monotonic()
        self._functions: dict[str, str] = {}
        self._stopping = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
        self._planners = [READ_PLANNERS, WRITE_PLANNERS]
        self._stopped = False

    # --- starting ------------------------------------------------------------

    def start(self) -> Running:
        """Open the state, start Spark, the lanes, the sinks and the sources."""
        try:
            self._open_state()
            lent = nullcontext() if self._given_spark is None else our_settings(self._given_spark)
            with lent:
                self._open_spark()
                self._open_logs()
                self._open_lanes()
            self._open_sinks()
            self._open_sources()
        except BaseException:
            self.stop()
            raise
        self._supervisor.start()
        return self

    def _supervise(self) -> None:
        """See what has failed, tell whoever waits, and drop what nobody needs."""
        while not self._stopping.wait(SUPERVISE_EVERY_S):
            try:
                self._look_after()
            except BaseException as error:
                self._errors.append(error)
            if self._errors:
                for iterator in self._iterators:
                    iterator.fail(self._errors[0])
                self.datapath.appended("")
                return

    def _open_state(self) -> None:
        for source in self.diagram.sources:
            check_source(source, self.base)
        for sink in self.diagram.sinks:
            check_sink(sink)
        refuse_shared_files(self.diagram, self.base)
        self.state.open()
        lock = DirectoryLock(self.state.lock)
        lock.acquire()
        self._lock = lock
        self._functions = {
            o.name: function_digest(o, self.base)
            for o in self.diagram.operators
            if isinstance(o, Spark)
        }
        if not self._fresh:
            self.state.refuse_other(self.diagram, self._functions)

    def _open_spark(self) -> None:
        outlive(self.state.spark_pid)
        if self._given_spark is not None:
            self._spark = self._given_spark
        else:
            self._on_step("starting Spark")
            self._spark = open_session(
                self._master,
                f"australis {self.diagram.name}",
                self._spark_settings,
                log=self.state.spark_log,
                host=self._host,
                preload=FACTORY.partition(":")[0],
            )
            self.state.spark_pid.write_text(identity(process_id(self._spark)))
        self.fragments = cut(self.diagram)
        known = None if self._fresh else self.state.load_schemas()
        self.schemas = known or self._analyse(self._spark)
        if self._fresh:
            self.state.clear()
        self.state.claim(self.diagram, self._functions)
        self.state.save_schemas(self.schemas)

    def _analyse(self, spark: SparkSession) -> dict[str, Schema]:
        self._on_step("checking the diagram")
        schemas = stream_schemas(spark, self.diagram, self.base)
        for fragment in self.fragments:
            for plan in fragment.plans:
                check_streaming(spark, plan, schemas, self.base)
        return schemas

    def _open_logs(self) -> None:
        computed = [plan.output for fragment in self.fragments for plan in fragment.plans]
        for stream in [*(s.name for s in self.diagram.sources), *computed]:
            disk = FileDisk(self.state.log(stream))
            self._disks.append(disk)
            self.datapath.logs[stream] = SharedLog(disk, self.schemas[stream], self.diagram.buckets)

    def _open_lanes(self) -> None:
        assert self._spark is not None
        self.lanes_started_at = time.monotonic()
        self._server = DataPathServer(self.datapath, self._errors.append, self._host)
        for fragment in self.fragments:
            for plan in fragment.plans:
                checkpoint = self.state.checkpoint(plan.output)
                schema = self.datapath.add_lane(
                    plan.output,
                    plan.inputs,
                    plan.output,
                    checkpoint,
                    emits_on_watermark=plan.emits_on_watermark,
                    ids=plan.reads_ids,
                    rows_per_batch=self._rows_per_batch,
                )
                if self.datapath.lanes[plan.output].ended:
                    continue
                self._on_step(f"starting the lane of {plan.output}")
                at = LaneAddress(plan.output, FACTORY, self._server.address)
                self.lanes[plan.output] = Lane(self._spark, plan, schema, at, checkpoint, self.base)
        if self._given_spark is None:
            end_processes(self._spark, LOOKUP)

    def _open_sinks(self) -> None:
        for sink in self.diagram.sinks:
            writer = open_sink(
                sink, self.schemas[sink.stream], self.state.root, self.base, fresh=self._fresh
            )
            follower = SinkFollower(
                sink.name, sink.stream, writer, self.datapath, self._errors.append
            )
            self.sinks[sink.name] = follower
            follower.start()

    def _open_sources(self) -> None:
        for source in self.diagram.sources:
            self.sources[source.name] = SourceProxy(
                source,
                self.datapath.logs[source.name],
                self.state.root,
                base=self.base,
                on_append=self.datapath.appended,
                on_error=self._errors.append,
                room=self._has_room(source.name),
            )
        for proxy in self.sources.values():
            proxy.start()

    def _has_room(self, stream: str) -> Callable[[], bool]:
        return lambda: self._unread(stream) < AHEAD_ROWS

    def _unread(self, stream: str) -> int:
        readers = [
            lane.committed_to
            for lane in self.datapath.lanes.values()
            if self.datapath.logs[stream] in lane.inputs and not lane.ended
        ]
        if not readers:
            return 0
        return self.datapath.logs[stream].rows_between(min(readers), self.diagram.buckets.last)

    # --- using ---------------------------------------------------------------

    def push(self, source: str, rows: Any) -> None:
        """Give rows to a push source; they are durable when this returns."""
        self.check()
        self._push_handle(source).push(rows)

    def end(self, source: str) -> None:
        """Say that a push source has no more rows."""
        self._push_handle(source).end()

    def _push_handle(self, source: str) -> PushHandle:
        proxy = self.sources.get(source)
        if proxy is None or proxy.push_handle is None:
            raise UserError("is not a push source of this diagram", name=source)
        return proxy.push_handle

    def table(self, stream: str) -> pa.Table:
        """All stable tuples of a result so far; of another logged stream, what is kept."""
        log = self._log(stream)
        if stream in self.diagram.results:
            self._refuse_dropped(stream)
        closed = log.buckets.closed_by(log.boundary_us)
        batches = [batch for _, batch in log.read(log.truncated_to, closed)]
        return pa.Table.from_batches(batches, log.schema.arrow)

    def stream(self, stream: str) -> Iterator[dict[str, Any]]:
        """The stable tuples of a stream as they come, one dict each, until it ends."""
        if stream not in self.diagram.results:
            known = ", ".join(self.diagram.results)
            raise UserError(f"is not a result of this diagram (results: {known})", name=stream)
        self._refuse_dropped(stream)
        self.check()
        iterator = StreamIterator()
        self._iterators.append(iterator)
        follower = SinkFollower(
            f"iterator of {stream}", stream, iterator, self.datapath, self._errors.append
        )
        self.sinks[f"{follower.name} {len(self.sinks)}"] = follower
        follower.start()
        return iter(iterator)

    def _refuse_dropped(self, stream: str) -> None:
        if self._log(stream).truncated_to >= 0:
            raise UserError("has been dropped from its log, as was asked for", name=stream)

    def _log(self, stream: str) -> SharedLog:
        if stream not in self.datapath.logs:
            known = ", ".join(self.datapath.logs)
            raise UserError(f"has no log (logged streams: {known})", name=stream)
        return self.datapath.logs[stream]

    @property
    def finished(self) -> bool:
        """Whether every result is complete and in its sinks."""
        complete = all(
            self.datapath.logs[stream].boundary_us >= END_OF_STREAM_US
            for stream in self.diagram.results
        )
        return complete and all(sink.done.is_set() for sink in self.sinks.values())

    def check(self) -> None:
        """Raise what has stopped a source, a lane or a sink."""
        for error in self._errors:
            raise error

    def _look_after(self) -> None:
        for name, lane in self.lanes.items():
            if not self.datapath.lanes[name].ended and not self._errors:
                restarted = lane.check()
                if restarted:
                    self._planners.clear()  # they are needed again
        self._trim()
        if time.monotonic() - self._truncated_at > TRUNCATE_EVERY_S:
            self._truncated_at = time.monotonic()
            self._truncate()

    def wait(self, timeout_s: float | None = None, *, every_s: float = 0.1) -> bool:
        """Until all results are complete; False if the time was up before."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self.finished:
            self.check()
            if deadline is not None and time.monotonic() > deadline:
                return False
            with self.datapath.changed:
                self.datapath.changed.wait(every_s)
        self.check()
        return True

    def _trim(self) -> None:
        """Once every lane reads and writes, what planned that only holds memory."""
        if self._given_spark is not None or self._spark is None or not self._planners:
            return
        lanes = [self.datapath.lanes[name] for name in self.lanes]
        planners = self._planners[0]
        done = all(
            lane.has_read if planners is READ_PLANNERS else lane.has_written for lane in lanes
        )
        # Of several lanes, nobody knows for which of them Spark has started what comes next.
        if done or (len(lanes) == 1 and has_process(self._spark, NEXT[planners])):
            end_processes(self._spark, self._planners.pop(0))

    def _truncate(self) -> None:
        """Drop what every lane has processed; of results, only where the user asked for it."""
        declared = {sink.stream for sink in self.diagram.sinks}
        for stream, log in self.datapath.logs.items():
            lanes = [lane for lane in self.datapath.lanes.values() if log in lane.inputs]
            sinks = [sink for sink in self.sinks.values() if sink.stream == stream]
            if stream in self.diagram.results and not (self._drop_written and stream in declared):
                continue
            read = [log.buckets.last if lane.ended else lane.processed for lane in lanes]
            upto = min([*read, *(sink.written_to for sink in sinks)], default=-1)
            if upto > 0:
                log.truncate(upto)

    # --- stopping ------------------------------------------------------------

    def stop(self) -> None:
        """Stop everything; what was acknowledged stays."""
        if self._stopped:
            return
        self._stopped = True
        self._stopping.set()
        if self._supervisor.ident is not None:
            self._supervisor.join()
        for proxy in self.sources.values():
            proxy.stop()
        for proxy in self.sources.values():
            proxy.join()
        for lane in self.lanes.values():
            with suppress(Exception):
                lane.stop()
        for iterator in self._iterators:
            iterator.close_reader()
        for sink in self.sinks.values():
            sink.stop()
        if self._spark is not None and self._given_spark is None:
            with suppress(Exception):
                self._spark.stop()
            self.state.spark_pid.unlink(missing_ok=True)
        if self._server is not None:
            self._server.shutdown()
        for disk in self._disks:
            disk.close()
        if self._lock is not None:
            self._lock.release()

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
