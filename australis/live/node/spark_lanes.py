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
the fork is dropped, a new one is cloned from the stable query's checkpoint. While the
stable query takes in a great deal at once, since it is far behind, there is none: the two
would share what the machine can do, and nothing could be in time anyway.
"""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from australis.diagram.fragments import Plan
from australis.kernel.errors import Stopped
from australis.live.datapath import SharedLog, decode_state, encode_state
from australis.live.files import FileDisk, make_directory, replace_file, sync_directory
from australis.live.flight import DataPathServer
from australis.live.flight_port import FACTORY
from australis.live.node import excerpt, lanes
from australis.live.node.lanes import Inputs, Report
from australis.live.node.spark_work import Finished, Query, Work
from australis.live.node.wire import WireError
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
from australis.spark.session import SparkSession, use_here
from australis.streams.buckets import Buckets
from australis.streams.release import BEFORE_ALL
from australis.streams.schema import Schema
from australis.streams.soutput import OutputState
from australis.streams.sunion import MergedSchema

WARM_BUCKETS = 16
"""A warm query falls behind by at most so many buckets, or"""
WARM_ROWS = 50_000
"""so many tuples; then it takes them all in one batch."""
CATCHING_UP_ROWS = 200_000
"""A stable query that takes in more than this at once is catching up."""
REST_S = 1.0
"""It has caught up when it has had nothing to do for so long."""
AFTER_FORK_S = 2.0
"""So long after a fork its results are still being corrected, here or further on: starting the
next warm query, which takes all of a core for a second, can wait."""
QUIET_S = 10.0
"""So long a snapshot waits for the end of a micro-batch."""
LOOK_EVERY_S = 0.2
MEMO = "output-state"
"""The file of a snapshot that is not Spark's."""


@dataclass
class _Fork:
    """A tentative lane: what was asked of it."""

    epoch: int
    asked: dict[int, RunTentative] = field(default_factory=dict)


@dataclass
class _Output:
    """One output of a fragment, with its queries."""

    plan: Plan
    merged: MergedSchema
    log: SharedLog
    disk: FileDisk
    stable: Query
    job: RunStable | None = None
    wants_checkpoint: bool = False
    warm: Query | None = None
    warming: bool = False
    cloned_at: int = BEFORE_ALL
    """The last bucket that the warm query had with its checkpoint."""
    took_much: bool = False
    """Whether its last micro-batch was one to catch up,"""
    done_at: float = 0.0
    """and when that was done."""
    fork: _Fork | None = None
    dropped_at: float = -AFTER_FORK_S
    later: dict[int, Inputs] = field(default_factory=dict)
    """What a warm query that is still being made will have to work on."""

    @property
    def catching_up(self) -> bool:
        """Whether the stable query is so far behind that it should have everything for itself."""
        rests = self.job is None and time.monotonic() - self.done_at > REST_S
        return self.took_much and not rests

    @property
    def checkpointed(self) -> bool:
        """Whether the last batch the stable query has committed is in its checkpoint.

        Another one may have begun: what it leaves behind is what a crash would leave.
        """
        n = last_commit(self.stable.checkpoint)
        if n is None:
            return self.stable.batch_id < 0
        committed = batch_offsets(self.stable.checkpoint, n).upto
        return self.stable.batch_id == n and committed == self.stable.at


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
        self._work = Work(self._asked, self._committed)
        self._changed = self._work.changed
        self._spark: SparkSession | None = None
        self._server: DataPathServer | None = None
        self._names = itertools.count()
        self._changing = threading.Lock()
        """Held while a stable query is started or replaced."""
        self._closed = False
        self._outputs = {
            output: self._open(output, plan, schemas) for output, plan in plans.items()
        }
        self._thread = threading.Thread(target=self._run, name="lanes", daemon=True)

    # --- life -------------------------------------------------------------------------

    def _open(self, output: str, plan: Plan, schemas: Mapping[str, Schema]) -> _Output:
        shutil.rmtree(self._directory / "forks" / output, ignore_errors=True)
        disk = FileDisk(self._directory / "logs" / output)
        log = SharedLog(disk, schemas[output], self._buckets)
        merged = MergedSchema(tuple(schemas[s] for s in plan.inputs), plan.reads_ids)
        checkpoint = self._directory / "checkpoints" / output
        state = decode_state(log.memo, log.schema)
        stable = Query.of(
            output, plan, merged, log.schema, self._buckets, state, checkpoint, BEFORE_ALL
        )
        self._work.lanes[output] = stable
        return _Output(plan, merged, log, disk, stable)

    def log(self, output: str) -> SharedLog:
        return self._outputs[output].log

    def restore(self, output: str, base: int) -> LaneRestored:
        one = self._outputs[output]
        stable, log = one.stable, one.log
        installing = _installing(stable.checkpoint)
        if installing.exists():  # half of a replica's state is no state
            shutil.rmtree(stable.checkpoint, ignore_errors=True)
            log.restart_at(base)
            stable.batch_id = -1
            installing.unlink()
        n = last_commit(stable.checkpoint)
        if n is None and log.boundary_us < self._buckets.end(base):
            log.restart_at(base)
        if not log.memo:
            empty = stable.output.row_schema.empty_table()
            stable.output.state = OutputState(-1, self._buckets.end(base), empty)
        upto = base if n is None else batch_offsets(stable.checkpoint, n).upto
        stable.at = stable.allowed = BEFORE_ALL if n is None else upto
        newest = last_offsets(stable.checkpoint)
        begun = None
        if newest is not None and newest != n:
            begun = batch_offsets(stable.checkpoint, newest).upto
        end = self._buckets.closed_by(log.boundary_us)
        again = begun if begun is not None and begun > upto else None
        return LaneRestored(output, upto, log.begins, end, again)

    def start(self, report: Report) -> None:
        self._report = report
        self._thread.start()

    def _run(self) -> None:
        """Start the queries, then look after them."""
        try:
            self._spark = self._session()
            self._server = DataPathServer(self._work, self._on_error)
            for one in self._outputs.values():
                with self._changing:
                    if one.stable.lane is None:
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

    def _start(self, one: _Output, query: Query) -> None:
        assert self._spark is not None
        assert self._server is not None
        make_directory(query.checkpoint.parent)
        use_here(self._spark)
        at = LaneAddress(query.name, FACTORY, self._server.address)
        query.lane = Lane(self._spark, one.plan, one.merged, at, query.checkpoint, self._base)

    def _look_after(self, one: _Output) -> None:
        if one.stable.lane is not None and not one.stable.closed:
            one.stable.lane.check()
        warm = one.warm
        if warm is not None and warm.lane is not None:
            try:
                warm.lane.check()
            except Stopped:
                self._discard(one)
        settled = time.monotonic() - one.dropped_at > AFTER_FORK_S
        begun = one.stable.batch_id >= 0
        wanted = self._keeps_warm and begun and settled and not one.catching_up
        needed = one.fork is not None or wanted
        if needed and one.warm is None and not one.warming:
            self._make_warm(one)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            queries = list(self._work.lanes.values())
            for query in queries:
                query.closed = True
            self._changed.notify_all()
        for query in queries:
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

    def run_stable(self, effect: RunStable, work: lanes.Work) -> None:
        with self._changed:
            one = self._outputs[effect.output]
            one.job = effect
            one.stable.work.update(work)
            one.stable.allowed = effect.upto
            rows = one.stable.rows_between(effect.after, effect.upto)
            one.took_much = rows > CATCHING_UP_ROWS
            if one.warm is not None and one.fork is None:
                if one.catching_up:
                    self._discard(one)
                else:
                    one.warm.work.update(work)
            self._changed.notify_all()

    def _advance(self, warm: Query, upto: int, fresh: bool) -> None:
        """Let a warm query catch up once it is worth a batch, while the stable one rests.

        Its first batch takes longer than any other: a fresh one has it behind it as soon as it can.
        """
        many = upto - warm.at >= WARM_BUCKETS or warm.rows_between(warm.at, upto) >= WARM_ROWS
        if many or fresh:
            warm.allowed = upto

    def checkpoint(self, output: str) -> None:
        with self._changed:
            self._outputs[output].wants_checkpoint = True

    def _asked(self, query: Query) -> None:
        """When Spark asks for the next batch, the commit of the one before is on disk."""
        one = self._outputs.get(query.name)
        if one is None or not one.wants_checkpoint:
            return
        if (query.checkpoint / "commits" / str(query.batch_id)).exists():
            one.wants_checkpoint = False
            self._report(Checkpointed(query.name, query.at))

    def _committed(self, query: Query, finished: Finished, state: OutputState | None) -> None:
        one = self._outputs.get(query.name)
        if one is None:
            self._tentative_done(query, finished)
            return
        if state is not None:
            one.log.append(finished, state.frontier_us, encode_state(state))
        end = self._buckets.closed_by(one.log.boundary_us)
        job = one.job
        if job is None:
            if end == query.at:  # the empty batch after one that was committed before a crash
                self._report(StableDone(query.name, query.at, end))
        elif query.at >= job.upto and end >= job.upto:
            one.job = None
            self._report(StableDone(job.output, job.upto, end))
            one.done_at = time.monotonic()
            if one.warm is not None and one.fork is None:
                self._advance(one.warm, job.upto, fresh=one.warm.at == one.cloned_at)

    # --- the tentative lane ------------------------------------------------------------------

    def fork(self, output: str, epoch: int) -> None:
        with self._changed:
            one = self._outputs[output]
            one.fork = _Fork(epoch)
            if one.warm is None and not one.warming:
                self._make_warm(one)

    def run_tentative(self, effect: RunTentative, work: lanes.Work) -> None:
        with self._changed:
            one = self._outputs[effect.output]
            if one.fork is None or one.fork.epoch != effect.epoch:
                return
            one.fork.asked[effect.bucket] = effect
            if one.warm is None:
                one.later.update(work)
            else:
                one.warm.work.update(work)
                one.warm.allowed = max(one.warm.allowed, effect.bucket)
            self._changed.notify_all()

    def _tentative_done(self, query: Query, finished: Finished) -> None:
        one = next((o for o in self._outputs.values() if o.warm is query), None)
        if one is None or one.fork is None:
            return
        made = dict(finished)
        for number in [n for n in sorted(one.fork.asked) if n <= query.closed_upto]:
            e = one.fork.asked.pop(number)
            self._report(TentativeDone(e.output, e.epoch, number, e.entered_us, made.get(number)))

    def drop(self, output: str, epoch: int) -> None:
        with self._changed:
            one = self._outputs[output]
            if one.fork is not None and one.fork.epoch == epoch:
                one.fork = None
                one.dropped_at = time.monotonic()
                one.later.clear()
                self._discard(one)

    def _discard(self, one: _Output) -> None:
        """End a warm query or fork; on another thread, since stopping one takes a while."""
        with self._changed:
            query, one.warm = one.warm, None
            if query is None:
                return
            query.closed = True
            if one.fork is not None:  # the next one goes on; what this one had taken in is lost
                one.later = query.work | one.later
                asked = one.fork.asked.items()
                one.fork.asked = {n: effect for n, effect in asked if n in one.later}
            self._changed.notify_all()
            if one.warming:
                return  # whoever starts it ends it

        threading.Thread(
            target=self._end, args=(query,), name=f"end of {query.name}", daemon=True
        ).start()

    def _end(self, query: Query) -> None:
        with suppress(Exception):
            if query.lane is not None:
                query.lane.stop()
        self._work.lanes.pop(query.name, None)
        shutil.rmtree(query.checkpoint, ignore_errors=True)

    def _make_warm(self, one: _Output) -> None:
        """Clone the stable query's checkpoint after its last batch, and start it."""
        one.warming = True

        def make() -> None:
            query = None
            try:
                query = self._cloned(one)
                if query is not None:
                    self._start(one, query)
            except BaseException as error:
                dropped = query is not None and query.closed
                if not self._closed and not dropped:
                    self._on_error(error)
            finally:
                one.warming = False
                if query is not None and query.closed:  # dropped while it was starting
                    self._end(query)

        threading.Thread(target=make, name=f"warm {one.stable.name}", daemon=True).start()

    def _cloned(self, one: _Output) -> Query | None:
        with self._changed:
            while self._server is None or not one.checkpointed:
                if self._closed:
                    return None
                self._changed.wait(0.05)
            stable = one.stable
            name = f"{stable.name}~{next(self._names)}"
            checkpoint = self._directory / "forks" / stable.name / name
            n = last_commit(stable.checkpoint)
            if n is not None:
                clone(stable.checkpoint, checkpoint, n)
            query = Query.of(
                name,
                one.plan,
                one.merged,
                one.log.schema,
                self._buckets,
                stable.output.state,
                checkpoint,
                stable.at,
            )
            query.work.update(stable.work)
            query.work.update(one.later)
            one.later.clear()
            if one.fork is not None:
                query.allowed = max([query.at, *one.fork.asked])
            one.cloned_at = query.at
            self._work.lanes[name] = one.warm = query
            return query

    # --- snapshots -----------------------------------------------------------------------

    def snapshot(self, output: str, to: Path) -> int:
        one = self._outputs[output]
        with self._changed:
            stable = one.stable
            stable.held = True  # until the log has all of what it has taken in
            try:
                deadline = time.monotonic() + QUIET_S
                while not one.checkpointed or not stable.complete:
                    if time.monotonic() > deadline or one.stable is not stable:
                        raise Stopped(f"'{output}' is too busy for a snapshot now")
                    self._changed.wait(0.05)
                n = last_commit(stable.checkpoint)
                if n is None:
                    raise Stopped(f"there is no checkpoint of '{output}' yet")
                clone(stable.checkpoint, to, n)
            finally:
                stable.held = False
            upto, memo = stable.at, encode_state(stable.output.state)
        (to / MEMO).write_bytes(memo)
        excerpt.pack(one.log, upto, to / excerpt.LOG)
        return upto

    def install(self, output: str, upto: int, files: Path) -> int:
        one = self._outputs[output]
        old = one.stable
        if not all((files / name).is_file() for name in (MEMO, excerpt.LOG, "metadata")):
            raise WireError(f"a snapshot of '{output}' that is not one of Spark's")
        log = excerpt.Excerpt(files / excerpt.LOG, one.log, upto)
        memo = (files / MEMO).read_bytes()
        try:
            state = decode_state(memo, one.log.schema)
        except Exception as error:
            raise WireError(f"a snapshot of '{output}' that is none: {error!r}") from None
        with self._changing:
            with self._changed:
                self._discard(one)
                one.fork = None
                old.closed = True
                self._changed.notify_all()
            if old.lane is not None:
                old.lane.stop()
            installing = _installing(old.checkpoint)
            make_directory(installing.parent)
            replace_file(installing, b"")
            shutil.rmtree(old.checkpoint, ignore_errors=True)
            for name in (MEMO, excerpt.LOG):
                (files / name).unlink()
            files.rename(old.checkpoint)
            sync_directory(old.checkpoint.parent)
            log.replace(one.log, memo)
            installing.unlink()
            with self._changed:
                one.job = None
                one.stable = Query.of(
                    output,
                    one.plan,
                    one.merged,
                    one.log.schema,
                    self._buckets,
                    state,
                    old.checkpoint,
                    upto,
                )
                self._work.lanes[output] = one.stable
            if self._server is not None:
                self._start(one, one.stable)
        return log.begins


def _installing(checkpoint: Path) -> Path:
    """It exists while a replica's state is being written where this checkpoint is."""
    return checkpoint.with_name(f"{checkpoint.name}.installing")
