"""Lanes on Spark: Structured Streaming queries whose micro-batches the machine triggers.

Each output has a stable query. It polls for the bucket up to which it may read; the answer
is the end of the micro-batch that the machine has requested, if there is one. The results
of a batch enter the log with the commit of the batch, exactly once, and the machine gets
its completion once the log has reached the batch's last bucket: where windows close with
the watermark, Spark needs a second, empty batch for that.

A tentative lane must answer within the accepted delay, and starting a query takes seconds.
So a *warm* query stands by for each stable one: it processes the same buckets, but in few
large batches. When a fork is needed it processes the buckets it has not seen yet together
with the first tentative one, in one batch. When the fork is dropped, a new warm query is
cloned from the stable query's checkpoint. While the stable query is far behind and catches
up in large batches, there is no warm query: the two would share the machine's cores, and
tentative results would be too late anyway.

If the plan raises on some of its rows alone (`spark.poison`), those are left out, written to
`rejected/` and told, and the query repeats its micro-batch without them.
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
from typing import Any

from australis.diagram.fragments import Plan
from australis.kernel.errors import Damaged, OperatorFailed, Stopped
from australis.protocols.dpc.effects import (
    Checkpoint,
    Checkpointed,
    DropLane,
    ForkLane,
    RestoredLog,
    RunStable,
    RunTentative,
    SkipAhead,
    SkippedAhead,
    StableDone,
    TentativeDone,
)
from australis.runtime.files import (
    FileDisk,
    make_directory,
    replace_file,
    sync_directory,
    write_private,
)
from australis.runtime.flight import LaneServer
from australis.runtime.flight_port import FACTORY
from australis.runtime.logs import SharedLog, decode_state, encode_state
from australis.runtime.node import excerpt
from australis.runtime.node.damaged import OutputFiles
from australis.runtime.node.events import WARNING
from australis.runtime.node.held import FindLog, HeldInputs
from australis.runtime.node.lanes import LaneSettings, Report
from australis.runtime.node.manifest import Manifest
from australis.runtime.node.quarantine import MAX_ROWS, Quarantine
from australis.runtime.node.spark_work import Finished, Query, Work
from australis.runtime.node.stalls import StallWatch
from australis.runtime.node.wire import WireError
from australis.spark.checkpoint import batch_offsets, clone, last_commit, last_offsets
from australis.spark.lane import BUSY, Lane, LaneAddress
from australis.spark.poison import PoisonSearch
from australis.spark.session import SparkSession, use_here
from australis.streams.buckets import Buckets
from australis.streams.release import BEFORE_ALL
from australis.streams.schema import Schema
from australis.streams.soutput import OutputState
from australis.streams.sunion import MergedSchema

WARM_BUCKETS = 16
"""The lag in buckets at which a warm query takes all that it has missed in one batch."""
WARM_ROWS = 50_000
"""The lag in tuples at which a warm query takes all that it has missed in one batch."""
CATCHING_UP_ROWS = 200_000
"""The number of tuples in one micro-batch beyond which a stable query is catching up."""
CAUGHT_UP_AFTER_S = 1.0
"""The idle time after which a stable query has caught up."""
WARM_DELAY_AFTER_FORK_S = 2.0
"""The delay after a fork before the next warm query is started, which takes all of a core for a
second, since results are still being corrected here or downstream."""
SNAPSHOT_WAIT_S = 10.0
"""The longest time that a snapshot waits for the end of a micro-batch."""
CHECK_INTERVAL_S = 0.2
MEMO = "output-state"
"""The file of a snapshot that is not Spark's."""


@dataclass
class _Fork:
    """A tentative lane, and the work that was requested of it."""

    epoch: int
    asked: dict[int, RunTentative] = field(default_factory=dict)


@dataclass
class _Output:
    """One output of a fragment, with its queries."""

    plan: Plan
    merged: MergedSchema
    log: SharedLog
    disk: FileDisk
    files: OutputFiles
    quarantine: Quarantine
    stable: Query
    later: HeldInputs
    """The buckets that a warm query which is still being started has to process."""
    job: RunStable | None = None
    wants_checkpoint: bool = False
    warm: Query | None = None
    warming: bool = False
    cloned_at: int = BEFORE_ALL
    """The last bucket in the checkpoint from which the warm query was cloned."""
    took_much: bool = False
    """Whether the last micro-batch of the stable query was one to catch up."""
    done_at: float = 0.0
    """The time at which the last micro-batch of the stable query completed."""
    fork: _Fork | None = None
    dropped_at: float = -WARM_DELAY_AFTER_FORK_S
    stalls: StallWatch = field(default_factory=StallWatch)

    @property
    def catching_up(self) -> bool:
        """Whether the stable query is so far behind that it should not share the machine."""
        rests = self.job is None and time.monotonic() - self.done_at > CAUGHT_UP_AFTER_S
        return self.took_much and not rests

    @property
    def progress(self) -> tuple[int, int] | None:
        """The last micro-batch begun and the last committed by a stable query that has work."""
        stable = self.stable
        if self.job is None or stable.lane is None or stable.closed:
            return None
        begun = last_offsets(stable.checkpoint)
        return -1 if begun is None else begun, stable.batch_id

    @property
    def checkpointed(self) -> bool:
        """Whether the last batch the stable query has committed is in its checkpoint.

        Another batch may have begun: the checkpoint is then as after a crash.
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
        find_log: FindLog,
        settings: LaneSettings,
    ) -> None:
        self._find_log = find_log
        self._settings = settings
        self._tell = settings.tell
        self._buckets = buckets
        self._directory = directory
        self._session = session
        self._base = base
        self._on_error = on_error
        self._report: Report = lambda event: None
        self._work = Work(self._asked, self._committed)
        self._changed = self._work.changed
        self._spark: SparkSession | None = None
        self._server: LaneServer | None = None
        self._names = itertools.count()
        self._changing = threading.Lock()
        """Held while a stable query is started or replaced."""
        self._closed = False
        self._started = False
        self._schemas = schemas
        self._outputs = {output: self._open(output, plan) for output, plan in plans.items()}
        self._thread = threading.Thread(target=self._run, name="lanes", daemon=True)

    # --- lifecycle -------------------------------------------------------------------------

    def _open(self, output: str, plan: Plan) -> _Output:
        shutil.rmtree(self._directory / "forks" / output, ignore_errors=True)
        settings, schemas = self._settings, self._schemas
        size, damaged = settings.segment_bytes(output), settings.on_damaged
        files = OutputFiles(self._directory, output, schemas[output], self._buckets, size, damaged)
        disk, log = files.open_log()
        merged = MergedSchema(tuple(schemas[s] for s in plan.inputs), plan.reads_ids)
        checkpoint = files.checkpoint
        state = decode_state(log.memo, log.schema)
        kept = Quarantine(self._directory, output, plan.inputs)
        stable = self._query(output, plan, merged, log, state, checkpoint, BEFORE_ALL, kept)
        self._work.lanes[output] = stable
        held = HeldInputs(plan.inputs, self._find_log)
        return _Output(plan, merged, log, disk, files, kept, stable, held)

    def _query(
        self,
        name: str,
        plan: Plan,
        merged: MergedSchema,
        log: SharedLog,
        state: OutputState | None,
        checkpoint: Path,
        at: int,
        quarantine: Quarantine,
    ) -> Query:
        rows = self._settings.rows_per_batch
        return Query.of(
            name, plan, merged, log.schema, self._buckets, state, checkpoint, at,
            self._find_log, quarantine, rows,
        )  # fmt: skip

    def log(self, output: str) -> SharedLog:
        return self._outputs[output].log

    def restore(self, output: str, base: int) -> RestoredLog:
        try:
            return self._restored(output, base)
        except Damaged as error:
            one = self._outputs[output]
            one.disk.close()
            one.files.set_aside(error)
            self._outputs[output] = self._open(output, one.plan)
            return self._restored(output, base)

    def _restored(self, output: str, base: int) -> RestoredLog:
        one = self._outputs[output]
        stable, log = one.stable, one.log
        installing = _installing(stable.checkpoint)
        if installing.exists():  # an incomplete snapshot is useless
            shutil.rmtree(stable.checkpoint, ignore_errors=True)
            log.restart_at(base)
            stable.batch_id = -1
            installing.unlink()
        stable.files.verify()
        n = last_commit(stable.checkpoint)
        if n is None and log.boundary_us < self._buckets.end(base):
            log.restart_at(base)
        if n is not None and stable.output.state.batch_id < n:
            # Spark commits a micro-batch behind the log: its results would be missing in there.
            raise Damaged(
                f"the log of '{output}' ends with micro-batch {stable.output.state.batch_id},"
                f" before its checkpoint, which has {n}"
            )
        if n is not None and stable.output.state.batch_id > n + 1 and not self._settings.alone:
            raise Damaged(
                f"the checkpoint of '{output}' ends with micro-batch {n}, long before its log, which"
                f" has {stable.output.state.batch_id}"
            )
        if not log.memo:
            empty = stable.output.row_schema.empty_table()
            stable.output.state = OutputState(-1, self._buckets.end(base), empty)
        if n is None and (batch := stable.output.state.batch_id) > 0 and self._settings.alone:
            raise Stopped(
                f"the checkpoint does not fit the log: that of '{output}' is gone, and its log has"
                f" micro-batch {batch}"
            )
        began = max(base, stable.output.state.began)
        upto = began if n is None else batch_offsets(stable.checkpoint, n).upto
        upto = min(upto, self._buckets.last)
        stable.at = stable.allowed = BEFORE_ALL if n is None else upto
        newest = last_offsets(stable.checkpoint)
        begun = None
        if newest is not None and newest != n:
            begun = min(batch_offsets(stable.checkpoint, newest).upto, self._buckets.last)
        end = log.closed
        again = begun if begun is not None and begun > upto else None
        return RestoredLog(output, upto, log.trimmed_upto, end, again, log.digest(end))

    def start(self, report: Report) -> None:
        self._report = report
        self._thread.start()

    def _run(self) -> None:
        """Start the queries, then supervise them."""
        try:
            self._spark = self._session()
            self._server = LaneServer(self._work, self._on_error, self._settings.host)
            for one in self._outputs.values():
                with self._changing:
                    if self._closed:
                        return
                    if one.stable.lane is None and not one.stable.ended:
                        self._settings.on_step(f"starting the lane of {one.stable.name}")
                        self._start(one, one.stable)
            self._started = True
            self._settings.on_append()
            while not self._wait(CHECK_INTERVAL_S):
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
        with self._settings.settled():
            lane = Lane(self._spark, one.plan, one.merged, at, query.checkpoint, self._base)
            query.release.emits_on_watermark = lane.emits_on_watermark
            lane.start()
        query.lane = lane

    def _look_after(self, one: _Output) -> None:
        self._check_stable(one)
        warm = one.warm
        if warm is not None and warm.lane is not None:
            try:
                warm.lane.check(warm.at)
            except Stopped as error:
                if not self._leaves_out(one, warm, error):
                    self._tell_of(one, "warm_lane_failed", why=str(error))
                self._discard(one)
        settled = time.monotonic() - one.dropped_at > WARM_DELAY_AFTER_FORK_S
        begun = one.stable.batch_id >= 0
        wanted = self._settings.warm and begun and settled and not one.catching_up
        needed = one.fork is not None or wanted
        if needed and one.warm is None and not one.warming:
            self._make_warm(one)

    def _check_stable(self, one: _Output) -> None:
        """Raise what has ended the stable query; record one that was restarted or is stalled."""
        stable = one.stable
        if stable.lane is None or stable.closed or stable.ended:
            return
        try:
            restarted = stable.lane.check(stable.at)
        except OperatorFailed as error:
            if not self._leaves_out(one, stable, error):
                raise
            stable.lane.restart()
        else:
            if restarted:
                self._settings.on_restarted()
                self._tell_of(one, "lane_restarted", why=BUSY)
        since_s = one.stalls.stalled_s
        if not one.stalls.look(one.progress):
            return
        if one.stalls.stalled:
            asked = None if one.job is None else one.job.upto
            spark = stable.lane.query.status["message"]
            self._tell_of(one, "stalled", upto=stable.at, asked=asked, spark=spark)
        else:
            self._tell_of(one, "stall_ended", seconds=since_s)

    def _leaves_out(self, one: _Output, query: Query, error: Stopped) -> bool:
        """Leave out the rows on which a query has failed from now on; False if none is to blame."""
        newest = last_offsets(query.checkpoint)
        if not isinstance(error, OperatorFailed) or newest is None:
            return False
        assert self._spark is not None
        after = query.at
        upto = min(batch_offsets(query.checkpoint, newest).upto, self._buckets.last)
        with self._changed:
            work = query.work.between(after, upto)
        rows = one.quarantine.without(query.union.merge(work.read(after, upto)))
        use_here(self._spark)
        room = MAX_ROWS - len(one.quarantine)
        found = PoisonSearch(self._spark, one.plan, one.merged, self._base).find(rows, room)
        if not found or len(found) > room:
            return False
        refused = [one.quarantine.refused(rows, row.index, row.why) for row in found]
        one.quarantine.add(refused, self._buckets, durable=query is one.stable)
        self._tell_of(
            one,
            "rows_rejected",
            operators=list(error.operators),
            rows=len(found),
            why=found[0].why,
            file=str(one.quarantine.path),
        )
        return True

    def rejected(self, output: str) -> int:
        return self._outputs[output].quarantine.rows

    def _tell_of(self, one: _Output, event: str, **fields: Any) -> None:
        replica = self._directory.name
        self._tell(
            event,
            level=WARNING,
            kind=one.plan.output,
            replica=replica,
            output=one.plan.output,
            **fields,
        )

    def stalled_s(self, output: str) -> float | None:
        return self._outputs[output].stalls.stalled_s

    def _stop_lanes(self) -> None:
        for query in list(self._work.lanes.values()):
            if query.lane is not None:
                with suppress(Exception):
                    query.lane.stop()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            for query in self._work.lanes.values():
                query.closed = True
            self._changed.notify_all()
        self._stop_lanes()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(30)
            self._stop_lanes()  # one may have been starting
        if self._server is not None:
            self._server.shutdown()
        for one in self._outputs.values():
            with suppress(Stopped):
                one.stable.files.add_commit(one.stable.batch_id)
            one.disk.close()

    # --- the stable lane -----------------------------------------------------------------

    def run_stable(self, effect: RunStable) -> None:
        with self._changed:
            one = self._outputs[effect.output]
            if one.stable.at >= effect.upto and one.log.closed >= effect.upto:
                # It went on with the rest of an earlier job before that was reported.
                self._report(_done(one.log, effect.output, effect.upto, effect.keep_after))
                return
            one.job = effect
            one.stable.work.add(effect.inputs)
            one.stable.allowed = effect.upto
            rows = one.stable.rows_between(effect.after, effect.upto)
            one.took_much = rows > CATCHING_UP_ROWS
            if one.warm is not None and one.fork is None:
                if one.catching_up:
                    self._discard(one)
                else:
                    one.warm.work.add(effect.inputs)
            self._changed.notify_all()

    def _advance(self, warm: Query, upto: int, fresh: bool) -> None:
        """Let a warm query catch up once that is worth a batch, while the stable one is idle.

        Its first batch takes longer than any other, so a fresh query runs it as soon as it can.
        """
        many = upto - warm.at >= WARM_BUCKETS or warm.rows_between(warm.at, upto) >= WARM_ROWS
        if many or fresh:
            warm.allowed = upto

    def checkpoint(self, effect: Checkpoint) -> None:
        with self._changed:
            self._outputs[effect.output].wants_checkpoint = True

    def _asked(self, query: Query) -> None:
        """Report the last batch's checkpoint, whose commit is on disk once Spark asks again."""
        one = self._outputs.get(query.name)
        if one is None:
            return
        query.files.add_commit(query.batch_id)
        if not one.wants_checkpoint:
            return
        if (query.checkpoint / "commits" / str(query.batch_id)).exists():
            one.wants_checkpoint = False
            self._report(Checkpointed(query.name, query.at))

    def _committed(self, query: Query, finished: Finished, state: OutputState | None) -> None:
        one = self._outputs.get(query.name)
        if one is None:
            self._tentative_done(query, finished)
            return
        query.files.add_new()  # before the log has results that rest on them
        if state is not None:
            # A lane that has begun behind what is gone computes buckets before those of its log.
            new = [(number, batch) for number, batch in finished if number > one.log.closed]
            boundary_us = max(state.frontier_us, one.log.boundary_us)
            one.log.append(new, boundary_us, encode_state(state))
        end, job = one.log.closed, one.job
        self._settings.on_append()
        if job is None:
            last = self._buckets.last
            if end == min(
                query.at, last
            ):  # the empty batch after one that was committed before a crash
                self._report(_done(one.log, query.name, end))
        elif query.at >= job.upto and end >= job.upto:
            one.job = None
            self._report(_done(one.log, job.output, job.upto, job.keep_after))
            one.done_at = time.monotonic()
            if one.warm is not None and one.fork is None:
                self._advance(one.warm, job.upto, fresh=one.warm.at == one.cloned_at)
        elif job.after < query.at < job.upto:  # the number of tuples in a micro-batch is limited
            self._report(_done(one.log, job.output, query.at, job.keep_after))

    # --- the tentative lane ------------------------------------------------------------------

    def fork(self, effect: ForkLane) -> None:
        with self._changed:
            one = self._outputs[effect.output]
            one.fork = _Fork(effect.epoch)
            if one.warm is None and not one.warming:
                self._make_warm(one)

    def run_tentative(self, effect: RunTentative) -> None:
        with self._changed:
            one = self._outputs[effect.output]
            if one.fork is None or one.fork.epoch != effect.epoch:
                return
            one.fork.asked[effect.bucket] = effect
            if one.warm is None:
                one.later.add(effect.inputs)
            else:
                one.warm.work.add(effect.inputs)
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

    def drop(self, effect: DropLane) -> None:
        with self._changed:
            one = self._outputs[effect.output]
            if one.fork is not None and one.fork.epoch == effect.epoch:
                one.fork = None
                one.dropped_at = time.monotonic()
                one.later = HeldInputs(one.plan.inputs, self._find_log)
                self._discard(one)

    def _discard(self, one: _Output) -> None:
        """End a warm query or fork; on another thread, since stopping one takes a while."""
        with self._changed:
            query, one.warm = one.warm, None
            if query is None:
                return
            query.closed = True
            if one.fork is not None:  # the next warm query repeats what this one had processed
                query.work.update(one.later)
                one.later = query.work
                asked = one.fork.asked.items()
                one.fork.asked = {n: effect for n, effect in asked if n in one.later}
            self._changed.notify_all()
            if one.warming:
                return  # the thread that starts it ends it

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
            query = self._query(
                name, one.plan, one.merged, one.log, stable.output.state, checkpoint, stable.at,
                one.quarantine,
            )  # fmt: skip
            query.work.update(stable.work)
            query.work.update(one.later)
            one.later = HeldInputs(one.plan.inputs, self._find_log)
            if one.fork is not None:
                query.allowed = max([query.at, *one.fork.asked])
            one.cloned_at = query.at
            self._work.lanes[name] = one.warm = query
            return query

    # --- what a node asks ---------------------------------------------------------------

    @property
    def started(self) -> bool:
        return self._started

    def unread(self, stream: str, log: SharedLog) -> int:
        """The number of tuples of an input that the slowest of its lanes has not processed."""
        at = [
            one.stable.at
            for one in self._outputs.values()
            if stream in one.plan.inputs and not one.stable.ended
        ]
        return log.rows_between(min(at), self._buckets.last) if at else 0

    @property
    def queries(self) -> list[Query]:
        """The stable queries that run."""
        return [one.stable for one in self._outputs.values() if one.stable.lane is not None]

    # --- snapshots -----------------------------------------------------------------------

    def snapshot(self, output: str, to: Path) -> int:
        one = self._outputs[output]
        with self._changed:
            stable = one.stable
            stable.held = True  # until the log has the results of all that it has read
            try:
                deadline = time.monotonic() + SNAPSHOT_WAIT_S
                while not one.checkpointed or not stable.complete:
                    if time.monotonic() > deadline or one.stable is not stable:
                        raise Stopped(f"'{output}' is too busy for a snapshot now")
                    self._changed.wait(0.05)
                n = last_commit(stable.checkpoint)
                if n is None:
                    raise Stopped(f"there is no checkpoint of '{output}' yet")
                clone(stable.checkpoint, to, n)
                stable.files.copy_to(to)
            finally:
                stable.held = False
            upto, memo = stable.at, encode_state(stable.output.state)
        write_private(to / MEMO, memo)
        excerpt.pack(one.log, upto, to / excerpt.LOG)
        return upto

    def install(self, output: str, upto: int, files: Path, ahead_us: int = 0) -> int:
        one = self._outputs[output]
        if not all((files / name).is_file() for name in (MEMO, excerpt.LOG, "metadata")):
            raise WireError(f"a snapshot of '{output}' that is not one of Spark's")
        log = excerpt.Excerpt(files / excerpt.LOG, one.log, upto)
        memo = (files / MEMO).read_bytes()
        try:
            state = decode_state(memo, one.log.schema)
            Manifest(files).verify()
        except Exception as error:
            raise WireError(f"a snapshot of '{output}' that is none: {error!r}") from None
        with self._changed:
            one.fork = None

        def install() -> OutputState | None:
            for name in (MEMO, excerpt.LOG):
                (files / name).unlink()
            files.rename(one.stable.checkpoint)
            sync_directory(one.stable.checkpoint.parent)
            log.replace(one.log, memo, ahead_us)
            return state

        self._restart(output, upto, install)
        return log.trimmed_upto

    # --- another state ---------------------------------------------------------------------

    def skip(self, effect: SkipAhead) -> None:
        threading.Thread(
            target=self._skip, args=(effect,), name=f"skip of {effect.output}", daemon=True
        ).start()

    def _skip(self, effect: SkipAhead) -> None:
        one, after = self._outputs[effect.output], effect.after

        def begin() -> OutputState:
            empty = one.stable.output.row_schema.empty_table()
            state = OutputState(-1, self._buckets.end(after), empty, began=after)
            one.log.restart_at(effect.trimmed_upto, encode_state(state))
            return state

        try:
            self._restart(effect.output, BEFORE_ALL, begin)
            self._report(SkippedAhead(effect.output))
        except BaseException as error:
            if not self._closed:
                self._on_error(error)

    def _restart(self, output: str, at: int, change: Callable[[], OutputState | None]) -> None:
        """Stop the stable query, change the checkpoint and the log, and start another one.

        If there is a crash meanwhile, the output is as new afterwards.
        """
        one = self._outputs[output]
        with self._changing:
            old = one.stable
            with self._changed:
                if one.fork is None:
                    self._discard(one)
                old.closed = True
                self._changed.notify_all()
            if old.lane is not None:
                old.lane.stop()
            installing = _installing(old.checkpoint)
            make_directory(installing.parent)
            replace_file(installing, b"")
            shutil.rmtree(old.checkpoint, ignore_errors=True)
            state = change()
            installing.unlink()
            with self._changed:
                one.job = None
                one.stable = self._query(
                    output, one.plan, one.merged, one.log, state, old.checkpoint, at, one.quarantine
                )
                one.stable.files.verify()
                self._work.lanes[output] = one.stable
            if self._server is not None:
                self._start(one, one.stable)


def _done(log: SharedLog, output: str, upto: int, keep_after: int = -1) -> StableDone:
    """The event that buckets are processed, with the digests of those that are new in the log."""
    end = log.closed
    return StableDone(output, upto, end, log.recent_digests(keep_after, end))


def _installing(checkpoint: Path) -> Path:
    """The marker file that exists while a replica's state is being written to this checkpoint."""
    return checkpoint.with_name(f"{checkpoint.name}.installing")
