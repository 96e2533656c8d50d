"""Lanes without Spark: the reference engine on one thread.

For tests, for small edge machines, and to rehearse a cluster in seconds. Tentative work
comes first, as everywhere.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from australis.diagram.fragments import Plan
from australis.kernel.errors import Stopped
from australis.live.datapath import SharedLog
from australis.live.files import FileDisk, make_directory, replace_file
from australis.live.node import excerpt
from australis.live.node.lanes import Report, Work
from australis.live.node.wire import WireError
from australis.protocols.dpc.effects import (
    Checkpointed,
    LaneRestored,
    RunStable,
    RunTentative,
    StableDone,
    TentativeDone,
)
from australis.reference import ReferenceEngine
from australis.streams.buckets import Buckets
from australis.streams.schema import Schema

CHECKPOINT = "state"


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint: the state after a bucket."""

    upto: int
    state: bytes


@dataclass
class _Lane:
    """One output: its engine, its log, and the states of its lanes."""

    engine: ReferenceEngine
    log: SharedLog
    disk: FileDisk
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
    ) -> None:
        self._buckets = buckets
        self._on_error = on_error
        self._report: Report = lambda event: None
        self._lanes: dict[str, _Lane] = {}
        for output, plan in plans.items():
            engine = ReferenceEngine(plan, schemas, buckets)
            disk = FileDisk(directory / "logs" / output)
            log = SharedLog(disk, schemas[output], buckets)
            path = directory / "checkpoints" / output / CHECKPOINT
            make_directory(path.parent)
            self._lanes[output] = _Lane(engine, log, disk, path, engine.initial)
        self._urgent: deque[Callable[[], None]] = deque()
        self._patient: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="lanes", daemon=True)

    # --- life -------------------------------------------------------------------------

    def log(self, output: str) -> SharedLog:
        return self._lanes[output].log

    def restore(self, output: str, base: int) -> LaneRestored:
        lane = self._lanes[output]
        upto = base
        if lane.checkpoint.exists():
            saved = msgspec.msgpack.decode(lane.checkpoint.read_bytes(), type=_Saved)
            lane.state, upto = lane.engine.decode(saved.state), saved.upto
        elif lane.log.boundary_us < self._buckets.end(base):
            lane.log.restart_at(base)
        end = self._buckets.closed_by(lane.log.boundary_us)
        return LaneRestored(output, upto, lane.log.begins, end)

    def start(self, report: Report) -> None:
        self._report = report
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()
        for lane in self._lanes.values():
            lane.disk.close()

    # --- work ---------------------------------------------------------------------------

    def run_stable(self, effect: RunStable, work: Work) -> None:
        self._queue(self._patient, lambda: self._stable(effect, work))

    def checkpoint(self, output: str) -> None:
        self._queue(self._patient, lambda: self._checkpoint(output))

    def fork(self, output: str, epoch: int) -> None:
        self._queue(self._urgent, lambda: self._fork(output, epoch))

    def run_tentative(self, effect: RunTentative, work: Work) -> None:
        self._queue(self._urgent, lambda: self._tentative(effect, work))

    def drop(self, output: str, epoch: int) -> None:
        self._queue(self._urgent, lambda: self._drop(output, epoch))

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

    def _stable(self, effect: RunStable, work: Work) -> None:
        lane = self._lanes[effect.output]
        made: list[tuple[int, pa.RecordBatch]] = []
        state = lane.state
        for number, inputs in work:
            state, buckets = lane.engine.step(state, _batches(inputs), number)
            made += [(n, batch) for n, batch in buckets if n > effect.keep_after]
        end = max(effect.upto, effect.keep_after)
        lane.log.append(made, max(self._buckets.end(end), lane.log.boundary_us))
        lane.state = state
        self._report(StableDone(effect.output, effect.upto, end))

    def _checkpoint(self, output: str) -> None:
        lane = self._lanes[output]
        state = lane.engine.encode(lane.state)
        replace_file(lane.checkpoint, msgspec.msgpack.encode(_Saved(lane.state.upto, state)))
        self._report(Checkpointed(output, lane.state.upto))

    def _fork(self, output: str, epoch: int) -> None:
        lane = self._lanes[output]
        lane.forks = {epoch: lane.state}

    def _tentative(self, effect: RunTentative, work: Work) -> None:
        lane = self._lanes[effect.output]
        if effect.epoch not in lane.forks:
            return
        batch = None
        for number, inputs in work:
            state, made = lane.engine.step(lane.forks[effect.epoch], _batches(inputs), number)
            lane.forks[effect.epoch] = state
            batch = dict(made).get(number)
        e = effect
        self._report(TentativeDone(e.output, e.epoch, e.bucket, e.entered_us, batch))

    def _drop(self, output: str, epoch: int) -> None:
        self._lanes[output].forks.pop(epoch, None)

    # --- snapshots -----------------------------------------------------------------------

    def snapshot(self, output: str, to: Path) -> int:
        lane = self._lanes[output]
        try:
            data = lane.checkpoint.read_bytes()
        except FileNotFoundError:
            raise Stopped(f"there is no checkpoint of '{output}' yet") from None
        upto = msgspec.msgpack.decode(data, type=_Saved).upto
        (to / CHECKPOINT).write_bytes(data)
        excerpt.pack(lane.log, upto, to / excerpt.LOG)
        return upto

    def install(self, output: str, upto: int, files: Path) -> int:
        lane = self._lanes[output]
        try:
            data = (files / CHECKPOINT).read_bytes()
            saved = msgspec.msgpack.decode(data, type=_Saved)
            state = lane.engine.decode(saved.state)
            log = excerpt.Excerpt(files / excerpt.LOG, lane.log, saved.upto)
        except WireError:
            raise
        except Exception as error:
            raise WireError(f"a snapshot of '{output}' that is none: {error!r}") from None
        log.replace(lane.log)
        replace_file(lane.checkpoint, data)
        lane.state = state
        lane.forks.clear()
        return log.begins


def _batches(inputs: tuple[pa.RecordBatch | None, ...]) -> list[list[pa.RecordBatch]]:
    return [[] if batch is None else [batch] for batch in inputs]
