"""A node in the simulated world: its mover, the components it runs, and its disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from australis.kernel.durations import MILLISECOND
from australis.kernel.machine import Event, MessageReceived
from australis.protocols.movement.events import (
    Advanced,
    DropReplica,
    Entry,
    InstallReplica,
    LetGo,
    MovementOptions,
    ReadersChanged,
    Redirected,
    ReplicaInstalled,
    Resubscribe,
    Resubscribed,
    SnapshotTaken,
    Started,
    TakeSnapshot,
    TellMoved,
    Write,
)
from australis.protocols.movement.mover import MoverMachine
from australis.sim.movement.flow import (
    FLOW,
    Data,
    Fetch,
    Moved,
    Replica,
    Snapshot,
    Stop,
    Stopped,
)
from australis.sim.world import Host, World

POLL_US = 100 * MILLISECOND
EMIT_US = 150 * MILLISECOND
BATCH = 20
DISK_US = 5 * MILLISECOND
_TO_BYTES = msgspec.msgpack.Encoder()
_FROM_BYTES = msgspec.msgpack.Decoder(Snapshot)


@dataclass
class Disk:
    """What survives a crash."""

    replicas: dict[str, Replica] = field(default_factory=dict)
    reading: dict[str, tuple[str, int]] = field(default_factory=dict)
    journal: list[Entry] = field(default_factory=list)
    stopping: set[tuple[str, str, str]] = field(default_factory=set)
    """The node, component and reader of each subscription that is still to be ended."""


class FlowHost(Host):
    """A node that moves tuples and performs the effects of its mover."""

    mover_class: type[MoverMachine] = MoverMachine

    def __init__(
        self, world: World, name: str, rng: Random, options: MovementOptions, emit_until: int
    ) -> None:
        super().__init__(world, name)
        self.disk = Disk()
        self.begins_with: tuple[str, ...] = ()
        self.gaps: list[str] = []
        """Readers that asked for truncated tuples, which is allowed only for a replica that is
        given up.
        """
        self.moves: list[TellMoved] = []
        self._rng = rng
        self._options = options
        self._emit_until = emit_until
        self._taken: dict[tuple[str, str], list[int]] = {}
        """Tuples received and not yet processed, by component and input."""
        self._performers |= {
            Write: lambda e: self.disk.journal.append(e.entry),
            TakeSnapshot: self._take_snapshot,
            LetGo: self._let_go,
            InstallReplica: self._install,
            DropReplica: self._drop,
            Resubscribe: self._resubscribe,
            TellMoved: self.moves.append,
        }

    # --- lifecycle --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin an incarnation with the content of the disk."""
        self._taken.clear()
        disk = self.disk
        machine = self.mover_class(self.name, self._options)
        reading = tuple((c, host, epoch) for c, (host, epoch) in disk.reading.items())
        running = tuple(name for name, replica in disk.replicas.items() if replica.registered)
        started = Started(
            self.incarnation + 1, self.begins_with, running, reading, tuple(disk.journal)
        )
        self.start(machine, started)
        for name, replica in disk.replicas.items():
            replica.held = replica.held if name in machine.moving else None
            self.take(Advanced(name, replica.position))
            self._say_readers(name)
        self.later(self._rng.randrange(POLL_US), self._poll)
        self.later(self._rng.randrange(EMIT_US), self._emit)

    def lose_guests(self, owned: set[str]) -> None:
        """Lose all replicas that this node does not own."""
        for name, replica in list(self.disk.replicas.items()):
            if name not in owned and not replica.kind.client:
                self._drop(DropReplica(name))

    @property
    def mover(self) -> MoverMachine | None:
        """The mover of the present incarnation."""
        machine = self.machine
        assert machine is None or isinstance(machine, MoverMachine)
        return machine

    def take(self, event: Event) -> None:
        """Handle messages about tuples here, and hand all other events to the mover."""
        if isinstance(event, MessageReceived) and isinstance(event.message, FLOW):
            if self.machine is not None:
                self._flow(event.sender, event.message)
            return
        super().take(event)

    # --- tuples --------------------------------------------------------------------------------

    def _poll(self) -> None:
        for name, replica in self.disk.replicas.items():
            for stream in replica.kind.inputs:
                self._fetch(name, replica, stream)
        for node, component, reader in sorted(self.disk.stopping):
            self.world.send(self.name, node, Stop(component, reader))
        self.later(POLL_US, self._poll)

    def _fetch(self, name: str, replica: Replica, stream: str) -> None:
        after = replica.position + len(self._taken.get((name, stream), ()))
        fetch = Fetch(stream, replica.reader, after, replica.acknowledged)
        self.world.send(self.name, self.disk.reading[stream][0], fetch)

    def _emit(self) -> None:
        for name, replica in self.disk.replicas.items():
            if not replica.kind.inputs and self.world.now < self._emit_until:
                replica.advance((replica.position,))
                self.take(Advanced(name, replica.position))
        self.later(EMIT_US, self._emit)

    def _flow(self, sender: str, message: Any) -> None:
        mover = self.mover
        assert mover is not None
        match message:
            case Fetch(component, reader, after, ack):
                self._serve(mover, sender, component, reader, after, ack)
            case Data(component, reader, after, values):
                self._receive(component, reader, after, values)
            case Moved(component, host, epoch):
                self.take(Redirected(component, host, epoch))
            case Stop(component, reader):
                replica = self.disk.replicas.get(component)
                if replica is not None and replica.acks.pop((sender, reader), None) is not None:
                    self._say_readers(component)
                self.world.send(self.name, sender, Stopped(component, reader))
            case Stopped(component, reader):
                self.disk.stopping.discard((sender, component, reader))

    def _serve(
        self,
        mover: MoverMachine,
        sender: str,
        component: str,
        reader: str,
        after: int,
        ack: int,
    ) -> None:
        if not mover.runs(component):
            there = mover.elsewhere(component)
            if there is not None:
                self.world.send(self.name, sender, Moved(component, *there))
            return
        replica = self.disk.replicas.get(component)
        if replica is None:
            return
        key = sender, reader
        new = key not in replica.acks
        if new and not mover.takes_readers(component):
            return
        replica.acknowledge(key, ack)
        if new:
            self._say_readers(component)
        values = replica.read(after, BATCH)
        if values is None:
            self.gaps.append(f"{sender}'s {reader} needs {component} after {after}")
        else:
            self.world.send(self.name, sender, Data(component, reader, after, tuple(values)))

    def _receive(self, stream: str, reader: str, after: int, values: tuple[int, ...]) -> None:
        name = reader.partition("#")[0]
        replica = self.disk.replicas.get(name)
        if replica is None or replica.reader != reader:
            return
        if not replica.registered:
            replica.known_to.add(stream)
            if replica.registered:
                self.take(Advanced(name, replica.position))
                self.take(ReplicaInstalled(replica.incarnation))
        taken = self._taken.setdefault((name, stream), [])
        have = replica.position + len(taken)
        if after > have:
            return
        taken.extend(values[have - after :])
        inputs = [self._taken.setdefault((name, s), []) for s in replica.kind.inputs]
        ready = min(map(len, inputs))
        for row in range(ready):
            replica.advance(tuple(column[row] for column in inputs))
        for column in inputs:
            del column[:ready]
        if ready:
            self.take(Advanced(name, replica.position))

    def _say_readers(self, component: str) -> None:
        nodes = sorted({node for node, _ in self.disk.replicas[component].acks})
        self.take(ReadersChanged(component, tuple(nodes)))

    # --- effects of the mover ------------------------------------------------------------------

    def _take_snapshot(self, effect: TakeSnapshot) -> None:
        replica = self.disk.replicas[effect.component]
        replica.held = replica.position
        snapshot = self.snapshot(replica)
        event = SnapshotTaken(effect.move, _TO_BYTES.encode(snapshot), replica.position)
        self.later(DISK_US, self.take, event)

    def snapshot(self, replica: Replica) -> Snapshot:
        """A snapshot of everything a second replica needs."""
        reading = [(s, *self.disk.reading[s]) for s in replica.kind.inputs]
        acks = [(node, reader, upto) for (node, reader), upto in replica.acks.items()]
        return Snapshot(
            replica.kind,
            replica.position,
            replica.state,
            replica.base,
            list(replica.log),
            acks,
            reading,
        )

    def _let_go(self, effect: LetGo) -> None:
        replica = self.disk.replicas.get(effect.component)
        if replica is not None:
            replica.held = None

    def _install(self, effect: InstallReplica) -> None:
        snapshot = _FROM_BYTES.decode(effect.snapshot)
        self.later(DISK_US * (1 + self._rng.randrange(40)), self._installed, effect, snapshot)

    def _installed(self, effect: InstallReplica, snapshot: Snapshot) -> None:
        mover = self.mover
        assert mover is not None
        if not mover.awaits(effect.move):
            return
        if effect.component not in self.disk.replicas:
            replica = Replica(
                snapshot.kind, snapshot.position, snapshot.state, snapshot.base, snapshot.log
            )
            replica.incarnation = effect.move
            replica.acks = {(node, reader): upto for node, reader, upto in snapshot.acks}
            for stream, host, epoch in snapshot.reading:
                if stream not in self.disk.reading or self.disk.reading[stream][1] < epoch:
                    self.disk.reading[stream] = host, epoch
                    self.take(Redirected(stream, host, epoch))
            self.disk.replicas[effect.component] = replica
        self._say_readers(effect.component)

    def _drop(self, effect: DropReplica) -> None:
        replica = self.disk.replicas.pop(effect.component, None)
        if replica is None:
            return
        for stream in replica.kind.inputs:
            self._taken.pop((effect.component, stream), None)
            self.disk.stopping.add((self.disk.reading[stream][0], stream, replica.reader))

    def _resubscribe(self, effect: Resubscribe) -> None:
        self.disk.reading[effect.component] = effect.host, effect.epoch
        mine = [r for r in self.disk.replicas.values() if effect.component in r.kind.inputs]
        last = min((replica.position for replica in mine), default=0)
        event = Resubscribed(effect.move, effect.component, effect.epoch, last)
        self.later(DISK_US, self.take, event)
