"""Lanes on Spark: Structured Streaming queries that work when the machine says so.

Each output has a stable query. It asks again and again how far it may go; the answer is
the end of the micro-batch the machine has asked for, and nothing while there is none.
What a batch puts out goes to the log with the commit of the batch, exactly once, and the
machine hears of it once the log has reached the batch's last bucket: where windows close
with the watermark that takes Spark a second, empty batch.

A tentative lane must answer within the delay the application accepts, and starting a
query takes seconds. So a *warm* query stands ready behind each stable one: it works on
the same buckets, but only now and then, many at a time. When a fork is needed it takes
the buckets it has not seen yet together with the first tentative one, in one batch. When
the fork is dropped, a new one is cloned from the stable query's checkpoint.
"""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from australis.diagram.fragments import Plan
from australis.kernel.errors import Stopped
from australis.live.datapath import SharedLog, decode_state, encode_state
from australis.live.files import FileDisk, make_directory
from australis.live.flight import DataPathServer
from australis.live.flight_port import FACTORY
from australis.live.node.lanes import Inputs, Report, Work
from australis.protocols.dpc.effects import (
    Checkpointed,
    LaneRestored,
    RunStable,
    RunTentative,
    StableDone,
    TentativeDone,
)
from australis.spark.checkpoint import batch_offsets, clone, last_commit, last_offsets
from australis.spark.lane import Lane, LaneAddress
from australis.spark.session import SparkSession
from australis.streams.buckets import Buckets
from australis.streams.release import BEFORE_ALL, Batch, Release, bucket_at, share
from australis.streams.schema import Schema
from australis.streams.soutput import OutputState, SOutput
from australis.streams.sunion import MergedSchema, SUnion

ROWS_PER_BATCH = 1 << 20
CHUNK_ROWS = 1 << 14
WARM_BUCKETS = 16
"""A warm query falls behind by at most so many buckets, or"""
WARM_ROWS = 50_000
"""so many tuples; then it takes them all in one batch."""
PATIENCE_S = 120.0
"""So long a query that was begun before a crash waits for its inputs to come again."""
LOOK_EVERY_S = 0.2
MEMO = "output-state"
"""The file of a snapshot that is not Spark's."""


class Dropped(Exception):
    """A query asks that is about to end: nothing is wrong."""


@dataclass
class _Query:
    """One query: what it may work on, and what came of it."""

    name: str
    union: SUnion
    release: Release
    output: SOutput
    checkpoint: Path
    at: int
    """The last bucket it has taken in."""
    allowed: int
    """The last bucket it may take in."""
    work: dict[int, Inputs] = field(default_factory=dict)
    """The buckets after `at` that are here."""
    staged: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    lane: Lane | None = None
    closed: bool = False

    def rows_between(self, after: int, upto: int) -> int:
        """How many tuples the buckets (after, upto] hold."""
        return sum(_rows(w) for n, w in self.work.items() if after < n <= upto)


@dataclass
class _Fork:
    """A tentative lane: what was asked of it."""

    epoch: int
    asked: dict[int, RunTentative] = field(default_factory=dict)


@dataclass
class _Output:
    """One output of a fragment, with its queries."""

    plan: Plan
    schema: MergedSchema
    log: SharedLog
    disk: FileDisk
    directory: Path
    stable: _Query
    job: RunStable | None = None
    wants_checkpoint: bool = False
    batch: int = -1
    """The last micro-batch whose output is in the log."""
    warm: _Query | None = None
    fork: _Fork | None = None
    warming: bool = False
    later: dict[int, Inputs] = field(default_factory=dict)
    """What a warm query that is still being made will have to work on."""


class SparkLanes:
    """The lanes of one replica on Spark."""

    def __init__(
        self,
        plans: Mapping[str, Plan],
        schemas: Mapping[str, Schema],
        buckets: Buckets,
        directory: Path,
        session: Callable[[], SparkSession],
        base: Path,
        on_error: Callable[[BaseException], None],
        *,
        warm: bool = True,
    ) -> None:
        self._buckets = buckets
        self._directory = directory
        self._session = session
        self._base = base
        self._on_error = on_error
        self._keeps_warm = warm
        self._report: Report = lambda event: None
        self._spark: SparkSession | None = None
        self._server: DataPathServer | None = None
        self._names = itertools.count()
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        self._outputs: dict[str, _Output] = {}
        self._thread = threading.Thread(target=self._run, name="lanes", daemon=True)
        self.lanes: dict[str, _Query] = {}
        """All queries by name, for whoever serves them."""
        for output, plan in plans.items():
            self._outputs[output] = self._open(output, plan, schemas)

    # --- life -------------------------------------------------------------------------

    def _open(self, output: str, plan: Plan, schemas: Mapping[str, Schema]) -> _Output:
        disk = FileDisk(self._directory / "logs" / output)
        log = SharedLog(disk, schemas[output], self._buckets)
        merged = MergedSchema(tuple(schemas[s] for s in plan.inputs), plan.reads_ids)
        checkpoint = self._directory / "checkpoints" / output
        shutil.rmtree(self._directory / "forks" / output, ignore_errors=True)
        state = decode_state(log.memo, log.schema)
        stable = self._query(output, plan, merged, log.schema, state, checkpoint, BEFORE_ALL)
        return _Output(plan, merged, log, disk, self._directory, stable)

    def _query(
        self,
        name: str,
        plan: Plan,
        merged: MergedSchema,
        schema: Schema,
        state: OutputState | None,
        checkpoint: Path,
        at: int,
    ) -> _Query:
        release = Release(
            name,
            self._buckets,
            rows_per_batch=ROWS_PER_BATCH,
            emits_on_watermark=plan.emits_on_watermark,
        )
        output = SOutput(schema, self._buckets, state)
        query = _Query(name, SUnion(merged, self._buckets), release, output, checkpoint, at, at)
        self.lanes[name] = query
        return query

    def log(self, output: str) -> SharedLog:
        return self._outputs[output].log

    def restore(self, output: str, base: int) -> LaneRestored:
        one = self._outputs[output]
        n = last_commit(one.stable.checkpoint)
        if n is None and one.log.boundary_us < self._buckets.end(base):
            one.log.restart_at(base)
        if not one.log.memo:
            empty = one.stable.output.row_schema.empty_table()
            one.stable.output.state = OutputState(-1, self._buckets.end(base), empty)
        one.batch = one.stable.output.state.batch_id
        upto = base if n is None else batch_offsets(one.stable.checkpoint, n).upto
        one.stable.at = one.stable.allowed = BEFORE_ALL if n is None else upto
        newest = last_offsets(one.stable.checkpoint)
        begun = None
        if newest is not None and newest != n:
            begun = batch_offsets(one.stable.checkpoint, newest).upto
        end = self._buckets.closed_by(one.log.boundary_us)
        again = begun if begun is not None and begun > upto else None
        return LaneRestored(output, upto, one.log.truncated_to, end, again)

    def start(self, report: Report) -> None:
        self._report = report
        self._thread.start()

    def _run(self) -> None:
        """Start the queries, then look after them."""
        try:
            self._spark = self._session()
            self._server = DataPathServer(self, self._on_error)
            for one in self._outputs.values():
                self._start(one, one.stable)
            while not self._wait(LOOK_EVERY_S):
                for one in self._outputs.values():
                    self._look_after(one)
        except BaseException as error:
            if not self._closed:
                self._on_error(error)

    def _wait(self, seconds: float) -> bool:
        with self._changed:
            if not self._closed:
                self._changed.wait(seconds)
            return self._closed

    def _start(self, one: _Output, query: _Query) -> None:
        assert self._spark is not None
        assert self._server is not None
        make_directory(query.checkpoint.parent)
        at = LaneAddress(query.name, FACTORY, self._server.address)
        query.lane = Lane(self._spark, one.plan, one.schema, at, query.checkpoint, self._base)

    def _look_after(self, one: _Output) -> None:
        if one.stable.lane is not None:
            one.stable.lane.check()
        warm = one.warm
        if warm is not None and warm.lane is not None and not warm.closed:
            try:
                warm.lane.check()
            except Stopped:
                self._discard(one)
        if self._keeps_warm and one.warm is None and one.fork is None and not one.warming:
            self._make_warm(one)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            for query in self.lanes.values():
                query.closed = True
            self._changed.notify_all()
        for query in list(self.lanes.values()):
            if query.lane is not None:
                with suppress(Exception):
                    query.lane.stop()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(30)
        if self._server is not None:
            self._server.shutdown()
        for one in self._outputs.values():
            one.disk.close()

    # --- the stable lane -----------------------------------------------------------------

    def run_stable(self, effect: RunStable, work: Work) -> None:
        with self._changed:
            one = self._outputs[effect.output]
            one.job = effect
            one.stable.work.update(work)
            one.stable.allowed = effect.upto
            if one.warm is not None and one.fork is None:
                one.warm.work.update(work)
                self._advance_warm(one.warm, effect.upto)
            self._changed.notify_all()

    def _advance_warm(self, warm: _Query, upto: int) -> None:
        behind = max(warm.work, default=warm.at) - warm.at
        if behind >= WARM_BUCKETS or warm.rows_between(warm.at, upto) >= WARM_ROWS:
            warm.allowed = upto

    def checkpoint(self, output: str) -> None:
        with self._changed:
            self._outputs[output].wants_checkpoint = True

    # --- the tentative lane ------------------------------------------------------------------

    def prepare(self, output: str) -> None:
        """Nothing: a warm query stands ready."""

    def fork(self, output: str, epoch: int) -> None:
        with self._changed:
            one = self._outputs[output]
            one.fork = _Fork(epoch)
            if one.warm is None and not one.warming:
                self._make_warm(one)

    def run_tentative(self, effect: RunTentative, work: Work) -> None:
        with self._changed:
            one = self._outputs[effect.output]
            if one.fork is None or one.fork.epoch != effect.epoch:
                return
            one.fork.asked[effect.bucket] = effect
            if one.warm is not None:
                one.warm.work.update(work)
                one.warm.allowed = max(one.warm.allowed, effect.bucket)
            else:
                one.later.update(work)
            self._changed.notify_all()

    def drop(self, output: str, epoch: int) -> None:
        with self._changed:
            one = self._outputs[output]
            if one.fork is None or one.fork.epoch != epoch:
                return
            one.fork = None
            one.later.clear()
            self._discard(one)

    def _discard(self, one: _Output) -> None:
        """End a warm query or fork; on another thread, since stopping one takes a while."""
        query, one.warm = one.warm, None
        if query is None:
            return
        query.closed = True
        self._changed.notify_all()

        def end() -> None:
            with suppress(Exception):
                if query.lane is not None:
                    query.lane.stop()
            self.lanes.pop(query.name, None)
            shutil.rmtree(query.checkpoint, ignore_errors=True)

        threading.Thread(target=end, name=f"end of {query.name}", daemon=True).start()

    def _make_warm(self, one: _Output) -> None:
        """Clone the stable query's checkpoint as it stands between two batches, and start it."""
        one.warming = True
        threading.Thread(
            target=self._clone, args=(one,), name=f"warm {one.stable.name}", daemon=True
        ).start()

    def _clone(self, one: _Output) -> None:
        try:
            query = self._cloned(one)
            if query is not None:
                self._start(one, query)
        except BaseException as error:
            if not self._closed:
                self._on_error(error)
        finally:
            one.warming = False

    def _cloned(self, one: _Output) -> _Query | None:
        with self._changed:
            while not self._quiet(one):
                self._changed.wait(0.05)
                if self._closed:
                    return None
            stable = one.stable
            name = f"{stable.name}~{next(self._names)}"
            checkpoint = self._directory / "forks" / stable.name / name
            n = last_commit(stable.checkpoint)
            if n is not None:
                clone(stable.checkpoint, checkpoint, n)
            query = self._query(
                name,
                one.plan,
                one.schema,
                one.log.schema,
                stable.output.state,
                checkpoint,
                stable.at,
            )
            query.work.update(one.later)
            one.later.clear()
            if one.fork is not None:
                query.allowed = max([query.at, *one.fork.asked])
            one.warm = query
            return query

    def _quiet(self, one: _Output) -> bool:
        """Whether the stable query stands between two batches, and its checkpoint says so."""
        if self._spark is None or self._server is None:
            return False
        n = last_commit(one.stable.checkpoint)
        committed = BEFORE_ALL if n is None else batch_offsets(one.stable.checkpoint, n).upto
        whole = one.batch == (-1 if n is None else n)
        return one.job is None and whole and committed == one.stable.at

    # --- what Spark asks (see `spark.port`) ---------------------------------------------------

    def latest(self, name: str, after: int, reader: str) -> int:
        """The last bucket a query may process next."""
        with self._changed:
            query = self._known(name)
            self._report_checkpoint(name)
            return query.release.latest(after, reader, query.allowed, query.rows_between, False)

    def _report_checkpoint(self, name: str) -> None:
        """When Spark asks for the next batch, the commit of the one before is on disk."""
        one = self._outputs.get(name)
        if one is None or not one.wants_checkpoint or one.job is not None:
            return
        if (one.stable.checkpoint / "commits" / str(one.batch)).exists():
            one.wants_checkpoint = False
            self._report(Checkpointed(name, one.stable.at))

    def rows(self, name: str, after: int, upto: int) -> int:
        """How many tuples the buckets (after, upto] hold."""
        with self._changed:
            self._await(name, upto)
            return self._known(name).rows_between(after, upto)

    def _await(self, name: str, upto: int) -> None:
        """A batch that was begun before a crash is repeated as soon as its inputs are here."""
        deadline = time.monotonic() + PATIENCE_S
        while self._known(name).allowed < upto:
            if time.monotonic() > deadline:
                raise Stopped(f"the inputs of '{name}' up to bucket {upto} did not come again")
            self._changed.wait(0.1)

    def read(
        self, name: str, after: int, upto: int, part: int, parts: int
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """One part of the merged buckets; a boundary row ends the last."""
        with self._changed:
            self._await(name, upto)
            query = self._known(name)
            low, high = share(after, upto, part, parts, query.rows_between)
            work = {n: w for n, w in query.work.items() if low < n <= high}
        boundary = upto if part == parts - 1 else None
        return query.union.schema.arrow, self._merged(query, work, low, high, boundary)

    def _merged(
        self, query: _Query, work: dict[int, Inputs], after: int, upto: int, boundary: int | None
    ) -> Iterator[pa.RecordBatch]:
        def rows_between(low: int, high: int) -> int:
            return sum(_rows(w) for n, w in work.items() if low < n <= high)

        while work and after < upto:
            end = bucket_at(after, upto, CHUNK_ROWS, rows_between)
            mine = [work.pop(n) for n in sorted(work) if n <= end]
            inputs = [
                [w[i] for w in mine if w[i] is not None] for i in range(len(mine[0]) if mine else 0)
            ]
            if mine:
                yield from query.union.merge(inputs).combine_chunks().to_batches()
            after = end
        if boundary is not None:
            yield query.union.boundary(self._buckets.end(boundary))

    def processed(self, name: str, upto: int) -> None:
        """Spark's own checkpoint says what is durable."""

    def stage(self, name: str, batches: Sequence[pa.RecordBatch]) -> str:
        """Keep one task's rows until its micro-batch is committed."""
        staged = f"{name}/{next(self._names)}"
        with self._changed:
            self._known(name).staged[staged] = list(batches)
        return staged

    def abort(self, name: str, staged: Sequence[str]) -> None:
        """Forget the rows of a micro-batch that failed."""
        with self._changed:
            query = self.lanes.get(name)
            for one in staged:
                if query is not None:
                    query.staged.pop(one, None)

    def commit(self, name: str, batch_id: int, staged: Sequence[str]) -> None:
        """A micro-batch is complete."""
        with self._changed:
            query = self._known(name)
            rows = [batch for one in staged for batch in query.staged[one]]
            query.staged.clear()
            batch = _batch(query, batch_id)
            step = query.output.commit(batch_id, rows, batch.frontier_us, (batch.after, batch.upto))
            buckets = [] if step is None else step.buckets
            if name in self._outputs:
                one = self._outputs[name]
                if step is not None:
                    one.log.append(buckets, step.state.frontier_us, encode_state(step.state))
                one.batch = batch_id
                self._took(query, batch.upto)
                self._stable_done(one)
            else:
                self._took(query, batch.upto)
                self._tentative_done(query, buckets)
            self._changed.notify_all()

    def _took(self, query: _Query, upto: int) -> None:
        query.at = max(query.at, upto)
        query.allowed = max(query.allowed, query.at)
        for number in [n for n in query.work if n <= query.at]:
            del query.work[number]

    def _stable_done(self, one: _Output) -> None:
        end = self._buckets.closed_by(one.log.boundary_us)
        job = one.job
        if job is None:
            if end == one.stable.at:  # an empty batch that closed the windows of one before a crash
                self._report(StableDone(one.stable.name, one.stable.at, end))
        elif one.stable.at >= job.upto and end >= job.upto:
            one.job = None
            self._report(StableDone(job.output, job.upto, end))

    def _tentative_done(self, query: _Query, buckets: list[tuple[int, pa.RecordBatch]]) -> None:
        one = next((o for o in self._outputs.values() if o.warm is query), None)
        if one is None or one.fork is None:
            return
        made = dict(buckets)
        closed = self._buckets.closed_by(query.output.state.frontier_us)
        for number in [n for n in sorted(one.fork.asked) if n <= closed]:
            e = one.fork.asked.pop(number)
            self._report(TentativeDone(e.output, e.epoch, number, e.entered_us, made.get(number)))

    def _known(self, name: str) -> _Query:
        query = self.lanes.get(name)
        if query is None or query.closed or self._closed:
            raise Dropped(f"the lane '{name}' has been dropped")
        return query

    # --- snapshots -----------------------------------------------------------------------

    def snapshot(self, output: str) -> tuple[int, dict[str, bytes]]:
        with self._changed:
            one = self._outputs[output]
            deadline = time.monotonic() + 10
            while not self._quiet(one):
                if time.monotonic() > deadline:
                    raise Stopped(f"'{output}' is too busy for a snapshot now")
                self._changed.wait(0.05)
            n = last_commit(one.stable.checkpoint)
            if n is None:
                raise Stopped(f"there is no checkpoint of '{output}' yet")
            copy = self._directory / "forks" / output / f"snapshot{next(self._names)}"
            clone(one.stable.checkpoint, copy, n)
            upto, memo = one.stable.at, encode_state(one.stable.output.state)
        files = {str(p.relative_to(copy)): p.read_bytes() for p in copy.rglob("*") if p.is_file()}
        shutil.rmtree(copy, ignore_errors=True)
        return upto, {MEMO: memo, **files}

    def install(self, output: str, upto: int, files: dict[str, bytes]) -> None:
        one = self._outputs[output]
        with self._changed:
            self._discard(one)
            one.fork = None
            one.stable.closed = True
            self._changed.notify_all()
        if one.stable.lane is not None:
            one.stable.lane.stop()
        with self._changed:
            shutil.rmtree(one.stable.checkpoint, ignore_errors=True)
            for name, data in files.items():
                if name != MEMO:
                    path = one.stable.checkpoint / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
            one.log.restart_at(upto, files[MEMO])
            state = decode_state(files[MEMO], one.log.schema)
            one.stable = self._query(
                output, one.plan, one.schema, one.log.schema, state, one.stable.checkpoint, upto
            )
            one.batch = one.stable.output.state.batch_id
            one.job = None
            if self._spark is not None and self._server is not None:
                self._start(one, one.stable)


def _rows(inputs: Inputs) -> int:
    return sum(batch.num_rows for batch in inputs if batch is not None)


def _batch(query: _Query, batch_id: int) -> Batch:
    """What Spark's checkpoint says of a micro-batch."""
    now = batch_offsets(query.checkpoint, batch_id)
    after = batch_offsets(query.checkpoint, batch_id - 1).upto if batch_id > 0 else BEFORE_ALL
    return query.release.batch(batch_id, after, now.upto, now.watermark_us)
