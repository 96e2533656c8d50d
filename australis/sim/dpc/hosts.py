"""The hosts of DPC's machines: disks, engines and a CPU in simulated time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from australis.kernel.machine import Event, Machine, MessageReceived
from australis.protocols.dpc.effects import (
    BucketClosed,
    Checkpoint,
    Checkpointed,
    CloseBucket,
    Deliver,
    DropLane,
    ForkLane,
    InstallSnapshot,
    LaneRestored,
    RunStable,
    RunTentative,
    SendHead,
    SendLog,
    ShipSnapshot,
    SkipAhead,
    SnapshotInstalled,
    StableDone,
    Started,
    TentativeDone,
    Truncate,
)
from australis.protocols.dpc.messages import (
    Bucket,
    Snapshot,
    StableData,
    TentativeData,
)
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.replica import ReplicaMachine
from australis.sim.dpc.engine import Inputs, SharedEngine
from australis.sim.dpc.probes import Probe
from australis.sim.dpc.store import LaneStore, SimLog
from australis.sim.world import Clock, Host, World

HEAD_EPOCH = 0
"""The epoch of a log's head read as tentative; tentative lanes have higher ones."""


@dataclass(frozen=True)
class Costs:
    """How long work takes."""

    batch_us: int = 10_000
    bucket_us: int = 500
    row_us: float = 0.0
    fork_us: int = 5_000
    sync_us: int = 2_000

    def longest_us(self, buckets: int) -> int:
        """What new work may have to wait for: a micro-batch of so many buckets, and a sync."""
        return 2 * self.batch_us + self.bucket_us * (buckets + 1) + self.sync_us


class LogHost(Host):
    """A host that serves logs."""

    def __init__(self, world: World, name: str, clock: Clock, probe: Probe) -> None:
        super().__init__(world, name, clock)
        self.probe = probe
        self._performers |= {
            SendLog: self._send_log,
            SendHead: self._send_head,
            Truncate: self._truncate,
        }

    def log(self, stream: str) -> SimLog:
        """The log of a stream."""
        raise NotImplementedError

    def _send_log(self, e: SendLog) -> None:
        buckets = self.log(e.stream).read(e.after, e.upto)
        data = StableData(e.stream, e.after, e.upto, buckets, e.undo, e.rec_done, e.reader)
        self.probe.sent(self.name, e.to, e.stream)
        self.world.send(self.name, e.to, data)

    def _send_head(self, e: SendHead) -> None:
        (bucket,) = self.log(e.stream).read(e.bucket - 1, e.bucket)
        self.probe.sent(self.name, e.to, e.stream)
        self.world.send(self.name, e.to, TentativeData(e.stream, HEAD_EPOCH, bucket, e.reader))

    def _truncate(self, e: Truncate) -> None:
        self.log(e.stream).truncate(e.upto)


class ReplicaHost(LogHost):
    """A node with a CPU that does one thing at a time, tentative work first."""

    machine: ReplicaMachine

    def __init__(
        self,
        world: World,
        name: str,
        clock: Clock,
        probe: Probe,
        make: Callable[[], ReplicaMachine],
        engines: Mapping[str, SharedEngine],
        costs: Costs,
        rng: Random,
    ) -> None:
        super().__init__(world, name, clock, probe)
        self._make = make
        self._engines = engines
        self._costs = costs
        self._rng = rng
        self.slowness = 1
        self.stores = {stream: LaneStore(e.initial) for stream, e in engines.items()}
        self._states: dict[str, Any] = {}
        self._forks: dict[str, tuple[int, Any]] = {}
        self._urgent: list[tuple[int, int, int, RunTentative]] = []
        """Tentative work, the oldest bucket first."""
        self._asked = 0
        self._patient: deque[tuple[int, RunStable]] = deque()
        self._working = False
        self._committed: dict[str, tuple[Any, int]] = {}
        self._performers |= {
            RunStable: self._queue_stable,
            RunTentative: self._queue_tentative,
            Checkpoint: self._checkpoint,
            ForkLane: self._fork,
            DropLane: self._drop,
            ShipSnapshot: self._ship,
            InstallSnapshot: self._install,
            SkipAhead: self._skip,
        }

    def log(self, stream: str) -> SimLog:
        return self.stores[stream].log

    # --- life -------------------------------------------------------------------------

    def boot(self, *, fresh: bool = False) -> None:
        """Start with what is on the disk."""
        self._states = {stream: store.state for stream, store in self.stores.items()}
        self._committed = {s: (store.state, store.upto) for s, store in self.stores.items()}
        self._forks.clear()
        self._urgent.clear()
        self._patient.clear()
        self._working = False
        whole = {s: store for s, store in self.stores.items() if not store.lost}
        lanes = tuple(store.restored(s) for s, store in whole.items())
        lost = tuple(s for s in self.stores if s not in whole)
        self.start(self._make(), Started(self.life + 1, lanes, lost, fresh))

    def crash(self) -> None:
        if self.machine is not None:
            self.probe.gone(self.machine)
        super().crash()
        for store in self.stores.values():
            store.log.crash(self._rng)

    def wipe(self) -> None:
        """Lose the disk too."""
        for stream, store in self.stores.items():
            store.wipe(self._engines[stream].initial)

    def take(self, event: Event) -> None:
        super().take(event)
        if type(event) is not MessageReceived and self.machine is not None:
            self.probe.looked(self.name, self.machine)

    # --- work ---------------------------------------------------------------------------

    def _queue_stable(self, effect: RunStable) -> None:
        self._patient.append((self.world.cause, effect))
        self._work()

    def _queue_tentative(self, effect: RunTentative) -> None:
        self._asked += 1
        heapq.heappush(self._urgent, (effect.bucket, self._asked, self.world.cause, effect))
        self._work()

    def _work(self) -> None:
        if self._working or not (self._urgent or self._patient):
            return
        self._working = True
        cause = self.world.cause
        if self._urgent:
            _, _, self.world.cause, effect = heapq.heappop(self._urgent)
            inputs = self._inputs(effect.output, effect.bucket - 1, effect.bucket)
            self._spend(1, inputs, self._tentative, effect, inputs)
        else:
            self.world.cause, job = self._patient.popleft()
            inputs = self._inputs(job.output, job.after, job.upto)
            self._spend(job.upto - job.after, inputs, self._stable, job, inputs)
        self.world.cause = cause

    def _inputs(self, output: str, after: int, upto: int) -> list[tuple[int, Inputs]]:
        """What is there of the buckets (after, upto] on each input, stable or tentative."""
        inputs = self._output(output).inputs
        return [
            (n, tuple(b.batch if (b := i.bucket(n)) is not None else None for i in inputs))
            for n in range(after + 1, upto + 1)
        ]

    def _output(self, stream: str) -> Output:
        return self.machine.outputs[stream]

    def _spend(self, buckets: int, inputs: Any, call: Callable[..., None], *args: Any) -> None:
        costs = self._costs
        rows = 0
        if costs.row_us:
            rows = sum(b.num_rows for _, batches in inputs for b in batches if b is not None)
        spent = costs.batch_us + costs.bucket_us * buckets + int(costs.row_us * rows)
        self.later(spent * self.slowness, call, *args)

    def _stable(self, job: RunStable, inputs: Any) -> None:
        self._working = False
        entered = [self._entered(job.output, n) for n in range(job.after + 1, job.upto + 1)]
        state, batches = self._engines[job.output].run(self._states[job.output], inputs)
        self._states[job.output] = state
        log = self.stores[job.output].log
        numbers = range(job.after + 1, job.upto + 1)
        new = [
            Bucket(n, at, batches[n])
            for n, at in zip(numbers, entered, strict=True)
            if n > job.keep_after
        ]
        self.probe.appended(self.name, job.output, log.end, new)
        log.append(new)
        self.later(self._costs.sync_us, self._synced, job, state)
        self._work()

    def _entered(self, output: str, number: int) -> int:
        buckets = (i.stable.get(number) for i in self._output(output).inputs)
        return min(b.entered_us for b in buckets if b is not None)

    def _synced(self, job: RunStable, state: Any) -> None:
        store = self.stores[job.output]
        store.log.sync()
        self._committed[job.output] = (state, job.upto)
        self.take(StableDone(job.output, job.upto, store.log.end))

    def _checkpoint(self, e: Checkpoint) -> None:
        self.later(self._costs.sync_us, self._checkpointed, e.output, *self._committed[e.output])

    def _checkpointed(self, output: str, state: Any, upto: int) -> None:
        self.stores[output].checkpoint(state, upto)
        self.take(Checkpointed(output, upto))

    # --- forks ------------------------------------------------------------------------------

    def _fork(self, e: ForkLane) -> None:
        state, _ = self._committed[e.output]
        self._forks[e.output] = (e.epoch, state)

    def _drop(self, e: DropLane) -> None:
        self._forks.pop(e.output, None)
        self._urgent = [job for job in self._urgent if job[-1].output != e.output]
        heapq.heapify(self._urgent)

    def _tentative(self, e: RunTentative, inputs: Any) -> None:
        self._working = False
        epoch, state = self._forks.get(e.output, (-1, None))
        if epoch == e.epoch:
            state, made = self._engines[e.output].run(state, inputs)
            self._forks[e.output] = (epoch, state)
            batch = made[e.bucket]
            self.take(TentativeDone(e.output, epoch, e.bucket, e.entered_us, batch))
        self._work()

    # --- snapshots -----------------------------------------------------------------------------

    def _ship(self, e: ShipSnapshot) -> None:
        store = self.stores[e.stream]
        self.world.send(self.name, e.to, Snapshot(e.stream, store.upto, 0, store.snapshot()))

    def _install(self, e: InstallSnapshot) -> None:
        store = self.stores[e.stream]
        store.install(e.state, e.upto)
        self._states[e.stream] = store.state
        self._committed[e.stream] = (store.state, e.upto)
        installed = SnapshotInstalled(e.stream, e.upto, store.log.begins)
        self.later(self._costs.sync_us, self.take, installed)

    def _skip(self, e: SkipAhead) -> None:
        state = self._engines[e.output].initial
        store = self.stores[e.output]
        store.checkpoint(state, e.after)
        store.log.begin_at(e.begins)
        self._states[e.output] = state
        self._committed[e.output] = (state, e.after)


class SourceHost(LogHost):
    """A source proxy with its data source."""

    def __init__(
        self,
        world: World,
        name: str,
        clock: Clock,
        probe: Probe,
        make: Callable[[], Machine],
        rows: Callable[[int], Any],
        costs: Costs,
        rng: Random,
    ) -> None:
        super().__init__(world, name, clock, probe)
        self._make = make
        self._rows = rows
        self._costs = costs
        self._rng = rng
        self._log = SimLog()
        self._down_upto = -1
        self._performers |= {CloseBucket: self._close}

    def log(self, stream: str) -> SimLog:
        return self._log

    def boot(self, bucket_us: int) -> None:
        """Start; what the source said while the proxy was down was never taken."""
        now = self.clock.local(self.world.now)
        self._down_upto = now // bucket_us if self.life else -1
        log = self._log
        # What reached the disk before a crash is logged, whether or not it was synced.
        self.probe.entered(self.name, log.read(log.begins, log.end), self.world.now)
        lane = LaneRestored(self.name, log.end, log.begins, log.end)
        self.start(self._make(), Started(self.life + 1, (lane,)))

    def crash(self) -> None:
        super().crash()
        self._log.crash(self._rng)

    def _new(self, e: CloseBucket) -> list[Bucket]:
        missed = max(self._down_upto, e.dropped)
        return [
            Bucket(n, e.entered_us, None if n <= missed else self._rows(n))
            for n in range(e.after + 1, e.upto + 1)
        ]

    def _close(self, e: CloseBucket) -> None:
        new = self._new(e)
        self._log.append(new)
        self.later(self._costs.sync_us, self._closed, e, new)

    def _closed(self, e: CloseBucket, new: list[Bucket]) -> None:
        self._log.sync()
        self.probe.entered(self.name, new, self.world.now)
        self.take(BucketClosed(e.stream, e.upto))


class ClientHost(Host):
    """A client proxy; its application is the probe."""

    def __init__(
        self, world: World, name: str, clock: Clock, probe: Probe, make: Callable[[], Machine]
    ) -> None:
        super().__init__(world, name, clock)
        self.probe = probe
        self._make = make
        self._performers |= {Deliver: self._deliver}

    def boot(self) -> None:
        """Start."""
        self.start(self._make(), Started(self.life + 1, fresh=True))

    def _deliver(self, e: Deliver) -> None:
        self.probe.delivered(self.name, e.what, self.world.now)
