"""Lanes without Spark: the reference engine on one thread.

For tests, for small edge machines, and to try out a cluster in seconds. Tentative work
comes first, as with every engine.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

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
from australis.reference import ReferenceEngine
from australis.runtime.files import FileDisk, make_directory
from australis.runtime.logs import SharedLog
from australis.runtime.node import excerpt
from australis.runtime.node.damaged import OutputFiles
from australis.runtime.node.held import FindLog, HeldInputs, read_spans
from australis.runtime.node.lanes import LaneSettings, Report
from australis.runtime.node.wire import WireError
from australis.runtime.sealed import read_sealed, unseal, write_sealed
from australis.streams.buckets import END_OF_STREAM_US, Buckets
from australis.streams.schema import Schema

CHECKPOINT = "state"


def _what(output: str) -> str:
    return f"checkpoint of {output}"


def read_checkpoint(path: Path, output: str) -> bytes | None:
    """The checkpoint of an output as it was written; None before the first."""
    return read_sealed(path, _what(output), "its replica begins anew at its next start")


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint: the state after a bucket."""

    upto: int
    state: bytes


@dataclass
class _Lane:
    """One output: its engine, its log, and the states of its lanes."""

    plan: Plan
    engine: ReferenceEngine
    log: SharedLog
    disk: FileDisk
    files: OutputFiles
    checkpoint: Path
    state: Any
    forks: dict[int, Any] = field(default_factory=dict)


class ReferenceLanes:
    """The lanes of one replica on the reference engine."""

    def __init__(
        self,
        plans: Mapping[str, Plan],
        schemas: Mapping[str, Schema],
        buckets: Buckets,
        directory: Path,
        on_error: Callable[[BaseException], None],
        find_log: FindLog,
        settings: LaneSettings,
    ) -> None:
        self._find_log = find_log
        self._settings = settings
        self._buckets = buckets
        self._on_error = on_error
        self._report: Report = lambda event: None
        self._lanes: dict[str, _Lane] = {}
        for output, plan in plans.items():
            engine = ReferenceEngine(plan, schemas, buckets)
            size = settings.segment_bytes(output)
            schema, damaged = schemas[output], settings.on_damaged
            files = OutputFiles(directory, output, schema, buckets, size, damaged)
            self._open(output, plan, engine, files)
        self._urgent: deque[Callable[[], None]] = deque()
        self._patient: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="lanes", daemon=True)

    # --- lifecycle -------------------------------------------------------------------------

    def _open(self, output: str, plan: Plan, engine: ReferenceEngine, files: OutputFiles) -> None:
        disk, log = files.open_log()
        path = files.checkpoint / CHECKPOINT
        make_directory(path.parent)
        self._lanes[output] = _Lane(plan, engine, log, disk, files, path, engine.initial)

    def log(self, output: str) -> SharedLog:
        return self._lanes[output].log

    def restore(self, output: str, base: int) -> RestoredLog:
        try:
            return self._restored(output, base)
        except Damaged as error:
            lane = self._lanes[output]
            lane.disk.close()
            lane.files.set_aside(error)
            self._open(output, lane.plan, lane.engine, lane.files)
            return self._restored(output, base)

    def _restored(self, output: str, base: int) -> RestoredLog:
        lane = self._lanes[output]
        upto = base
        saved = self._saved(lane)
        if saved is not None:
            lane.state, upto = lane.engine.decode(saved.state), saved.upto
            if upto > lane.log.closed:  # what lies between would be missing in the log
                raise Damaged(
                    f"the log of '{output}' ends with bucket {lane.log.closed}, before its"
                    f" checkpoint, which covers bucket {upto}"
                )
        elif lane.log.boundary_us < self._buckets.end(base):
            lane.log.restart_at(base)
        log = lane.log
        digest = log.digest(log.closed)
        return RestoredLog(output, upto, log.trimmed_upto, log.closed, digest=digest)

    def _saved(self, lane: _Lane) -> _Saved | None:
        """The checkpoint of a lane; None before the first."""
        data = read_checkpoint(lane.checkpoint, lane.plan.output)
        return None if data is None else msgspec.msgpack.decode(data, type=_Saved)

    def start(self, report: Report) -> None:
        self._report = report
        self._thread.start()

    def rejected(self, output: str) -> int:
        return 0  # expressions have a value for every row

    def stalled_s(self, output: str) -> float | None:
        return None  # its thread is working, or has failed

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()
        for lane in self._lanes.values():
            lane.disk.close()

    # --- work ---------------------------------------------------------------------------

    def run_stable(self, effect: RunStable) -> None:
        self._queue(self._patient, lambda: self._stable(effect))

    def checkpoint(self, effect: Checkpoint) -> None:
        self._queue(self._patient, lambda: self._checkpoint(effect.output))

    def fork(self, effect: ForkLane) -> None:
        self._queue(self._urgent, lambda: self._fork(effect.output, effect.epoch))

    def run_tentative(self, effect: RunTentative) -> None:
        self._queue(self._urgent, lambda: self._tentative(effect))

    def drop(self, effect: DropLane) -> None:
        self._queue(self._urgent, lambda: self._drop(effect.output, effect.epoch))

    def skip(self, effect: SkipAhead) -> None:
        self._queue(self._patient, lambda: self._skip(effect))

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    def unread(self, stream: str, log: SharedLog) -> int:
        readers = [one for one in self._lanes.values() if stream in one.plan.inputs]
        at = [one.state.upto for one in readers if one.log.boundary_us < END_OF_STREAM_US]
        return log.rows_between(min(at), self._buckets.last) if at else 0

    def _queue(self, queue: deque[Callable[[], None]], job: Callable[[], None]) -> None:
        with self._changed:
            queue.append(job)
            self._changed.notify()

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    while not (self._urgent or self._patient or self._closed):
                        self._changed.wait()
                    if self._closed:
                        return
                    job = (self._urgent or self._patient).popleft()
                job()
        except BaseException as error:
            self._on_error(error)

    def _stable(self, effect: RunStable) -> None:
        lane = self._lanes[effect.output]
        work = read_spans(effect.inputs, lane.plan.inputs, self._find_log)
        upto, end = effect.upto, max(effect.upto, effect.keep_after)
        # One step over the whole batch: the engine's state is that after the last bucket.
        try:
            state, buckets = lane.engine.step(lane.state, work.read(effect.after, upto), upto)
        except OperatorFailed:
            self._find_failure(lane, work, effect.after, upto)
            raise
        made = [(n, batch) for n, batch in buckets if n > effect.keep_after]
        lane.log.append(made, max(self._buckets.end(end), lane.log.boundary_us))
        lane.state = state
        self._settings.on_append()
        digests = lane.log.recent_digests(effect.keep_after, end)
        self._report(StableDone(effect.output, upto, end, digests))

    def _find_failure(self, lane: _Lane, work: HeldInputs, after: int, upto: int) -> None:
        """Raise the failure of some buckets again, with the one bucket in which it occurs."""
        state = lane.state
        for bucket in range(after + 1, upto + 1):
            state, _ = lane.engine.step(state, work.read(bucket - 1, bucket), bucket)

    def _checkpoint(self, output: str) -> None:
        lane = self._lanes[output]
        self._save(lane)
        self._report(Checkpointed(output, lane.state.upto))

    def _save(self, lane: _Lane) -> None:
        state = lane.engine.encode(lane.state)
        data = msgspec.msgpack.encode(_Saved(lane.state.upto, state))
        write_sealed(lane.checkpoint, _what(lane.plan.output), data)

    def _skip(self, effect: SkipAhead) -> None:
        lane = self._lanes[effect.output]
        # The log first: with the old checkpoint it only begins late, but with the new one the old
        # log would go on with results of a state that is not right yet.
        lane.log.restart_at(effect.trimmed_upto)
        lane.state = replace(lane.engine.initial, upto=effect.after)
        self._save(lane)
        self._report(SkippedAhead(effect.output))

    def _fork(self, output: str, epoch: int) -> None:
        lane = self._lanes[output]
        lane.forks = {epoch: lane.state}

    def _tentative(self, effect: RunTentative) -> None:
        lane = self._lanes[effect.output]
        if effect.epoch not in lane.forks:
            return
        e, work = effect, read_spans(effect.inputs, lane.plan.inputs, self._find_log)
        batches = work.read(e.bucket - 1, e.bucket)
        lane.forks[e.epoch], made = lane.engine.step(lane.forks[e.epoch], batches, e.bucket)
        batch = dict(made).get(e.bucket)
        self._report(TentativeDone(e.output, e.epoch, e.bucket, e.entered_us, batch))

    def _drop(self, output: str, epoch: int) -> None:
        self._lanes[output].forks.pop(epoch, None)

    # --- snapshots -----------------------------------------------------------------------

    def snapshot(self, output: str, to: Path) -> int:
        lane = self._lanes[output]
        saved = self._saved(lane)
        if saved is None:
            raise Stopped(f"there is no checkpoint of '{output}' yet")
        write_sealed(to / CHECKPOINT, _what(output), msgspec.msgpack.encode(saved))
        excerpt.pack(lane.log, saved.upto, to / excerpt.LOG)
        return saved.upto

    def install(self, output: str, upto: int, files: Path, ahead_us: int = 0) -> int:
        lane = self._lanes[output]
        try:
            data = unseal(_what(output), (files / CHECKPOINT).read_bytes())
            saved = msgspec.msgpack.decode(data or b"", type=_Saved)
            state = lane.engine.decode(saved.state)
            log = excerpt.Excerpt(files / excerpt.LOG, lane.log, saved.upto)
        except WireError:
            raise
        except Exception as error:
            raise WireError(f"a snapshot of '{output}' that is none: {error!r}") from None
        log.replace(lane.log, ahead_us=ahead_us)
        lane.state = state
        self._save(lane)
        lane.forks.clear()
        return log.trimmed_upto
