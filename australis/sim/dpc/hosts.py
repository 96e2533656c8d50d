"""The hosts of DPC's machines: disks, engines and a CPU in simulated time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from australis.kernel.errors import Damaged
from australis.kernel.machine import (
    Effect,
    Event,
    Machine,
    Message,
    MessageReceived,
    SetTimer,
    TimerFired,
)
from australis.node import hosts
from australis.node.hosts import MachineHost
from australis.node.machine import NodeMachine
from australis.protocols.dpc.effects import (
    AnnounceClock,
    AnnounceDifference,
    AnnounceLease,
    AnnounceLoss,
    AnnouncePhase,
    AnnounceWentBack,
    BucketClosed,
    Checkpoint,
    Checkpointed,
    DropLane,
    ForkLane,
    InstallSnapshot,
    LimitSource,
    LogDamaged,
    RememberSources,
    RestoredLog,
    Rewired,
    RunStable,
    RunTentative,
    ShipSnapshot,
    SkipAhead,
    SkippedAhead,
    SnapshotInstalled,
    StableDone,
    Started,
    TentativeDone,
)
from australis.protocols.dpc.messages import (
    Bucket,
    Snapshot,
    StableData,
    TentativeData,
)
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.proxies import ClientMachine, SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.spans import Spans, entry_times
from australis.sim.dpc.engine import Inputs, SharedEngine
from australis.sim.dpc.probes import Probe
from australis.sim.dpc.store import LaneStore, SimLog
from australis.sim.world import Clock, Host, World


@dataclass(frozen=True)
class Costs:
    """The durations of a node's work."""

    batch_us: int = 10_000
    bucket_us: int = 500
    row_us: float = 0.0
    fork_us: int = 5_000
    sync_us: int = 2_000

    def longest_us(self, buckets: int) -> int:
        """The longest wait of new work: a micro-batch of this number of buckets, and a sync."""
        return 2 * self.batch_us + self.bucket_us * (buckets + 1) + self.sync_us


class DpcHost(Host):
    """A node of the simulated world: it supplies the ports of the one machine that runs there."""

    def __init__(self, world: World, name: str, clock: Clock, probe: Probe) -> None:
        super().__init__(world, name, clock)
        self.probe = probe
        self.node = NodeMachine(name)
        self.wiring: Rewired | None = None
        """The newest deployment that it knows, which it remembers across crashes."""
        self.gone = False
        """Whether it has left the deployment for good."""

    def start(self, machine: Machine, event: Event) -> None:
        self.node.close(self.name)
        self.node.open(self._host_of(machine))
        super().start(machine, event)
        if self.wiring is not None:
            self.take(self.wiring)

    @property
    def known(self) -> int:
        """The version of the deployment that it knows."""
        return 0 if self.wiring is None else self.wiring.version

    def rewire(self, wiring: Rewired) -> None:
        """Learn of a newer deployment."""
        self.wiring = wiring
        self.take(wiring)

    def _host_of(self, machine: Any) -> MachineHost:
        raise NotImplementedError

    def _carried_out(self, machine: Machine, event: Event, now: int) -> Iterator[Effect]:
        return self.node.handle(self.name, event, now)

    def take(self, event: Event) -> None:
        takes = self.machine is not None and not self.paused
        if takes and type(event) is MessageReceived and type(event.message) is TentativeData:
            self.probe.received(self.name, self.machine, event.sender, event.message)
        super().take(event)

    def send(self, sender: str, to: str, message: Message) -> None:
        """Give a message to the network."""
        if isinstance(message, StableData | TentativeData):
            self.probe.sent(self.name, to, message.stream)
        self.world.send(self.name, to, message)

    def set_timer(self, machine: str, effect: SetTimer) -> None:
        """Plan a timer by this node's clock."""
        self._set_timer(effect)

    def shares_logs(self, machine: str) -> bool:
        """False, because every machine has a node of its own."""
        return False

    def phase_changed(self, machine: str, effect: AnnouncePhase) -> None:
        """Report a phase change to the checkers."""
        self.probe.phase_changed(self.name, effect)

    def logs_differ(self, machine: str, effect: AnnounceDifference) -> None:
        """Report to the checkers that logs differ, or agree again."""
        self.probe.differs(self.name, effect)

    def state_lost(self, machine: str, effect: AnnounceLoss) -> None:
        """Report to the checkers that an output cannot go on."""
        self.probe.lost(self.name, effect)

    def lease_changed(self, machine: str, effect: AnnounceLease) -> None:
        """Report to the checkers that a log no longer waits for a consumer, or does so again."""
        self.probe.leased(self.name, effect)

    def source_went_back(self, machine: str, effect: AnnounceWentBack) -> None:
        """Report to the checkers that a source has gone back."""
        self.probe.went_back(self.name, effect)

    def log_damaged(self, machine: str, stream: str, error: Damaged) -> None:
        """Report to the checkers that a bucket is damaged, and to the machine."""
        self.probe.damaged(self.name, stream, error)
        if error.bucket is not None:
            self.later(0, self.take, LogDamaged(stream, error.bucket))

    def clock_is_off(self, machine: str, effect: AnnounceClock) -> None:
        """Do nothing: no checker asks for it."""


class ReplicaHost(DpcHost):
    """A node with a CPU that does one thing at a time, tentative work first."""

    machine: ReplicaMachine
    store_class = LaneStore

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
        self.stores = {stream: self.store_class(e.initial) for stream, e in engines.items()}
        self._states: dict[str, Any] = {}
        self._forks: dict[str, tuple[int, Any]] = {}
        self._urgent: list[tuple[int, int, int, RunTentative]] = []
        """Tentative work, the oldest bucket first."""
        self._asked = 0
        self._patient: deque[tuple[int, RunStable]] = deque()
        self._working = False
        self._committed: dict[str, tuple[Any, int]] = {}
        self._options: DpcOptions | None = None

    def _host_of(self, machine: ReplicaMachine) -> MachineHost:
        return hosts.ReplicaHost(machine, self, self)

    def log(self, stream: str) -> SimLog:
        """The log of an output."""
        return self.stores[stream].log

    # --- lifecycle -------------------------------------------------------------------------

    def boot(self, *, fresh: bool = False) -> None:
        """Start with the content of the disk."""
        if self.gone:
            return
        for stream, store in self.stores.items():
            if not store.lost:
                self._refuse_damage(stream, store)
        self._states = {stream: store.state for stream, store in self.stores.items()}
        self._committed = {s: (store.state, store.upto) for s, store in self.stores.items()}
        self._forks.clear()
        self._urgent.clear()
        self._patient.clear()
        self._working = False
        whole = {s: store for s, store in self.stores.items() if not store.lost}
        machine = self._make()
        self._options = machine.options
        lanes = tuple(store.restored(s, self._max_bytes(s)) for s, store in whole.items())
        lost = tuple(s for s in self.stores if s not in whole)
        self.start(machine, Started(self.incarnation + 1, lanes, lost, fresh))

    def _refuse_damage(self, stream: str, store: LaneStore) -> None:
        try:
            store.refuse_damage()
        except Damaged as error:
            self.probe.damaged(self.name, stream, error)
            store.begin_as_new(self._engines[stream].initial)

    def _fits_after(self, stream: str) -> int:
        return self.log(stream).fits_after(self._max_bytes(stream))

    def _max_bytes(self, stream: str) -> int | None:
        return None if self._options is None else self._options.bounds_of(stream).max_bytes

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
        if type(event) is TentativeDone:
            self.probe.computed(self.name, event)
        elif type(event) is SnapshotInstalled:
            self.probe.installed(self.name, self.machine, event.stream)
        super().take(event)
        if type(event) is not MessageReceived and self.machine is not None:
            self.probe.looked(self.name, self.machine)

    # --- work ---------------------------------------------------------------------------

    def run_stable(self, effect: RunStable) -> None:
        """Queue stable work for the CPU."""
        self._patient.append((self.world.cause, effect))
        self._work()

    def run_tentative(self, effect: RunTentative) -> None:
        """Queue tentative work for the CPU, before all stable work."""
        self.probe.released(self.name, self.machine, effect)
        self._asked += 1
        heapq.heappush(self._urgent, (effect.bucket, self._asked, self.world.cause, effect))
        self._work()

    def _work(self) -> None:
        if self._working or not (self._urgent or self._patient):
            return
        self._working = True
        cause = self.world.cause
        if self._urgent:
            jobs = self._tentative_batch()
            rows = [row for _, _, row in jobs]
            self._spend(len(jobs), rows, self._tentatives, jobs)
        else:
            self.world.cause, job = self._patient.popleft()
            inputs = rows_of(job.inputs, job.after, job.upto)
            self._spend(job.upto - job.after, inputs, self._stable, job, inputs)
        self.world.cause = cause

    def _tentative_batch(self) -> list[tuple[int, RunTentative, tuple[int, Inputs]]]:
        """The oldest tentative work of one output, with its causes.

        A micro-batch takes as many buckets as cost no more than a micro-batch does by itself.
        """
        output = self._urgent[0][-1].output
        taken: list[tuple[int, RunTentative, tuple[int, Inputs]]] = []
        spent = 0
        for job in sorted(job for job in self._urgent if job[-1].output == output):
            *_, cause, effect = job
            row = rows_of(effect.inputs, effect.bucket - 1, effect.bucket)[0]
            spent += self._cost_us(1, [row])
            if taken and spent > self._costs.batch_us:
                break
            taken.append((cause, effect, row))
            self._urgent.remove(job)
        heapq.heapify(self._urgent)
        self.world.cause = taken[0][0]
        return taken

    def _spend(self, buckets: int, inputs: Any, call: Callable[..., None], *args: Any) -> None:
        spent = self._costs.batch_us + self._cost_us(buckets, inputs)
        self.later(spent * self.slowness, call, *args)

    def _cost_us(self, buckets: int, inputs: Any) -> int:
        """What the content of a micro-batch costs."""
        costs, rows = self._costs, 0
        if costs.row_us:
            rows = sum(b.num_rows for _, batches in inputs for b in batches if b is not None)
        return costs.bucket_us * buckets + int(costs.row_us * rows)

    def _stable(self, job: RunStable, inputs: Any) -> None:
        self._working = False
        state, batches = self._engines[job.output].run(self._states[job.output], inputs)
        self._states[job.output] = state
        log = self.stores[job.output].log
        new = [Bucket(n, at, batches[n]) for n, at in _entries(job) if n > job.keep_after]
        self.probe.appended(self.name, job.output, log.end, new)
        log.append(new)
        self.later(self._costs.sync_us, self._synced, job, state)
        self._work()

    def _synced(self, job: RunStable, state: Any) -> None:
        store = self.stores[job.output]
        store.log.sync()
        self._committed[job.output] = (state, job.upto)
        log = store.log
        new = log.digests(max(job.keep_after, log.trimmed_upto), log.end)
        fits_after = self._fits_after(job.output)
        self.take(StableDone(job.output, job.upto, log.end, new, fits_after))

    def checkpoint(self, e: Checkpoint) -> None:
        """Write the committed state."""
        self.later(self._costs.sync_us, self._checkpointed, e.output, *self._committed[e.output])

    def _checkpointed(self, output: str, state: Any, upto: int) -> None:
        self.stores[output].checkpoint(state, upto)
        self.take(Checkpointed(output, upto))

    # --- forks ------------------------------------------------------------------------------

    def fork(self, e: ForkLane) -> None:
        """Copy the committed state."""
        self.probe.forked(self.name, self.machine, e)
        state, _ = self._committed[e.output]
        self._forks[e.output] = (e.epoch, state)

    def drop(self, e: DropLane) -> None:
        """Drop the copy, and the work queued on it."""
        self._forks.pop(e.output, None)
        self._urgent = [job for job in self._urgent if job[-1].output != e.output]
        heapq.heapify(self._urgent)

    def _tentatives(self, jobs: list[tuple[int, RunTentative, tuple[int, Inputs]]]) -> None:
        for self.world.cause, effect, row in jobs:
            self._tentative(effect, [row])
        self._working = False
        self._work()

    def _tentative(self, e: RunTentative, inputs: Any) -> None:
        epoch, state = self._forks.get(e.output, (-1, None))
        if epoch == e.epoch:
            state, made = self._engines[e.output].run(state, inputs)
            self._forks[e.output] = (epoch, state)
            batch = made[e.bucket]
            self.take(TentativeDone(e.output, epoch, e.bucket, e.entered_us, batch))

    # --- snapshots -----------------------------------------------------------------------------

    def shipment(self, e: ShipSnapshot) -> Snapshot:
        """The checkpoint as it is on the disk, with the log."""
        store = self.stores[e.stream]
        return Snapshot(e.stream, store.upto, e.at_us, store.snapshot())

    def remember(self, e: RememberSources) -> None:
        """Keep with the log what was read of sources."""
        self.stores[e.output].read = e.read

    def install(self, e: InstallSnapshot) -> None:
        """Make a replica's checkpoint this disk's own."""
        self.probe.installed(self.name, self.machine, e.stream)
        store = self.stores[e.stream]
        store.install(e.state, e.upto, e.ahead_us)
        self._states[e.stream] = store.state
        self._committed[e.stream] = (store.state, e.upto)
        log = store.log
        installed = SnapshotInstalled(
            *(e.stream, e.upto, log.trimmed_upto, log.digest(log.end)), self._fits_after(e.stream)
        )
        self.later(self._costs.sync_us, self.take, installed)

    def skip_ahead(self, e: SkipAhead) -> None:
        """Begin anew with an empty state."""
        self.probe.skipped(self.name, e)
        state = self._engines[e.output].initial
        store = self.stores[e.output]
        store.checkpoint(state, e.after)
        store.log.begin_at(e.trimmed_upto)
        self._states[e.output] = state
        self._committed[e.output] = (state, e.after)
        self.later(self._costs.sync_us, self.take, SkippedAhead(e.output))


def rows_of(inputs: Sequence[Spans], after: int, upto: int) -> list[tuple[int, Inputs]]:
    """The rows of each input in the buckets (after, upto], bucket by bucket."""
    held = [{b.number: b.batch for span in spans for b in span.buckets} for spans in inputs]
    return [(n, tuple(one.get(n) for one in held)) for n in range(after + 1, upto + 1)]


def _entries(job: RunStable) -> Iterator[tuple[int, int]]:
    """The buckets of a job, each with the time at which it entered the system."""
    number = job.after
    for last, at in entry_times(job.inputs):
        while number < last:
            number += 1
            yield number, at


class SourceHost(DpcHost):
    """A source proxy with its data source, which logs each bucket when its time is over."""

    machine: SourceMachine
    phase_us = 0
    """The delay from the end of a bucket until it is closed."""

    def __init__(
        self,
        world: World,
        name: str,
        clock: Clock,
        probe: Probe,
        make: Callable[[], SourceMachine],
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
        self._bucket_us = 1
        self._limit: int | None = None
        self._max_bytes: int | None = None
        self._closing = False
        self._down_upto = -1
        self.dropped = -1
        """The last bucket whose tuples were dropped because the log was full."""

    def _host_of(self, machine: SourceMachine) -> MachineHost:
        return hosts.SourceHost(machine, self, self)

    def log(self, stream: str = "") -> SimLog:
        """The log of the source."""
        return self._log

    def put_back(self, log: SimLog) -> None:
        """Have another log on the disk from now on."""
        self._log = log

    def limit(self, effect: LimitSource) -> None:
        """Take no tuples beyond this bucket for now."""
        self._limit = effect.upto

    def boot(self, bucket_us: int) -> None:
        """Start; tuples that the source sent while the proxy was down are lost."""
        self._bucket_us = bucket_us
        now = self.clock.local(self.world.now)
        self._down_upto = now // bucket_us if self.incarnation else -1
        self._closing = False
        log = self._log
        try:
            log.refuse_damage()
        except Damaged as error:  # it stays down: nobody can give it back
            self.probe.damaged(self.name, self.name, error)
            return
        # What reached the disk before a crash is logged, whether or not it was synced.
        self.probe.entered(self.name, log.read(log.trimmed_upto, log.end), self.world.now)
        digest = log.digest(log.end)
        machine = self._make()
        self._max_bytes = machine.options.bounds_of(self.name).max_bytes
        lane = RestoredLog(
            *(self.name, log.end, log.trimmed_upto, log.end),
            digest=digest,
            fits_after=log.fits_after(self._max_bytes),
            digests=log.digests(log.trimmed_upto, log.end),
        )
        self.start(machine, Started(self.incarnation + 1, (lane,)))
        self._tick()

    @property
    def full(self) -> bool:
        """Whether the log has no room for more buckets."""
        log = self._log
        limited = self._limit is not None and log.end >= self._limit
        return limited or log.trimmed_upto < log.fits_after(self._max_bytes)

    def take(self, event: Event) -> None:
        closes = isinstance(event, TimerFired) and event.name == "close"
        if closes and self.machine is not None and not self.paused:
            self.world.note(self.name, event)
            self._tick()
        else:
            super().take(event)

    def crash(self) -> None:
        super().crash()
        self._log.crash(self._rng)

    def _tick(self) -> None:
        """Log the buckets whose time is over; never one that a boundary has passed."""
        now = self.clock.local(self.world.now)
        over, end = now // self._bucket_us - 1, self._log.end
        self._set_timer(SetTimer("close", (max(over, end) + 2) * self._bucket_us + self.phase_us))
        if self.full:
            self.dropped = over  # back-pressure ends here (thesis 4.9.4)
        elif over > end and not self._closing:
            self._closing = True
            self._close(end, over, now)

    def _new(self, after: int, upto: int, now: int) -> list[Bucket]:
        missed = max(self._down_upto, self.dropped)
        return [
            Bucket(n, now, None if n <= missed else self._rows(n))
            for n in range(after + 1, upto + 1)
        ]

    def _close(self, after: int, upto: int, now: int) -> None:
        new = self._new(after, upto, now)
        self._log.append(new)
        self.later(self._costs.sync_us, self._closed, upto, new)

    def _closed(self, upto: int, new: list[Bucket]) -> None:
        self._closing = False
        self._log.sync()
        self.probe.entered(self.name, new, self.world.now)
        log = self._log
        digests = log.digests(upto - len(new), upto)
        self.take(BucketClosed(self.name, upto, digests, log.fits_after(self._max_bytes)))


class ClientHost(DpcHost):
    """A client proxy; the probe acts as its application."""

    def __init__(
        self, world: World, name: str, clock: Clock, probe: Probe, make: Callable[[], Machine]
    ) -> None:
        super().__init__(world, name, clock, probe)
        self._make = make

    def _host_of(self, machine: ClientMachine) -> MachineHost:
        return hosts.ClientHost(machine, self, self)

    def boot(self) -> None:
        """Start."""
        self.start(self._make(), Started(self.incarnation + 1, fresh=True))

    def deliver(self, stream: str, what: Any) -> None:
        """Report to the checkers what the application receives."""
        self.probe.delivered(self.name, what, self.world.now)
