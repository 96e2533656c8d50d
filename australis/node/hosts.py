"""Hosts: the executors of the effects of a replica, a source or a client, by a world's ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from australis.kernel.errors import Damaged
from australis.kernel.machine import Effect, Machine, Send, SetTimer
from australis.node.ports import (
    ApplicationPort,
    EnginePort,
    LogPort,
    NodePort,
    SourceMemberPort,
    SourcePort,
)
from australis.protocols.dpc.effects import (
    AnnounceClock,
    AnnounceDifference,
    AnnounceLease,
    AnnounceLoss,
    AnnouncePhase,
    AnnounceWentBack,
    Checkpoint,
    Deliver,
    DropLane,
    ForkLane,
    InstallSnapshot,
    LimitSource,
    RememberSources,
    RunStable,
    RunTentative,
    SendHead,
    SendLog,
    ShipSnapshot,
    SkipAhead,
    Truncate,
)
from australis.protocols.dpc.messages import Bucket, StableData, TentativeData
from australis.protocols.dpc.proxies import ClientMachine, SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.source_pair import (
    AcknowledgeRows,
    FollowSource,
    LeadSource,
    SaveStanding,
    SendCopy,
    SourceMember,
    SourceWitness,
    StoreCopy,
)
from australis.protocols.dpc.spans import entry_times

Save = Callable[[SaveStanding], None]

HEAD_EPOCH = 0
"""The epoch of a log's head read as tentative; tentative lanes have higher ones."""
PIECE_BYTES = 4 << 20
"""The approximate size of a piece of a log in one message."""
PIECE_BUCKETS = 512
"""The largest number of buckets that a piece of a log lists in one message."""


class MachineHost:
    """One machine of a node, and the executor of its effects."""

    def __init__(self, name: str, machine: Machine, node: NodePort) -> None:
        self.name = name
        self.machine = machine
        self._node = node
        self.performers: dict[type, Callable[[Any], Any]] = {
            Send: self._send,
            SetTimer: self._set_timer,
            AnnounceDifference: self._announce_difference,
            AnnounceClock: self._announce_clock,
            AnnounceWentBack: self._announce_went_back,
        }

    def perform(self, effect: Effect) -> None:
        """Execute an effect."""
        self.performers[type(effect)](effect)

    def _send(self, e: Send) -> None:
        self._node.send(self.name, e.to, e.message)

    def _set_timer(self, e: SetTimer) -> None:
        self._node.set_timer(self.name, e)

    def _announce_difference(self, e: AnnounceDifference) -> None:
        self._node.logs_differ(self.name, e)

    def _announce_went_back(self, e: AnnounceWentBack) -> None:
        self._node.source_went_back(self.name, e)

    def _announce_clock(self, e: AnnounceClock) -> None:
        self._node.clock_is_off(self.name, e)


class LogHost(MachineHost):
    """A machine that serves logs."""

    machine: ReplicaMachine | SourceMachine

    def __init__(self, name: str, machine: Machine, node: NodePort) -> None:
        super().__init__(name, machine, node)
        self.performers |= {
            SendLog: self._send_log,
            SendHead: self._send_head,
            Truncate: self._truncate,
            AnnounceLease: self._announce_lease,
        }

    def log(self, stream: str) -> LogPort:
        """The log of a stream."""
        raise NotImplementedError

    def _shares_logs(self, reader: str) -> bool:
        return self._node.shares_logs(reader)

    def _send_log(self, e: SendLog) -> None:
        try:
            self._send_pieces(e)
        except Damaged as error:
            self._node.log_damaged(self.name, e.stream, error)

    def _send_pieces(self, e: SendLog) -> None:
        log = self.log(e.stream)
        if self._shares_logs(e.to):
            listed = tuple(log.entry_times(e.after, e.upto))
            self._send_piece(e, e.after, e.upto, listed, e.undo, in_log=True)
            return
        after, undo = e.after, e.undo
        for piece in _pieces(log.listed(e.after, e.upto)):
            last = piece[-1].number if piece else e.upto
            self._send_piece(e, after, last, tuple(piece), undo)
            after, undo = last, False

    def _send_piece(
        self,
        e: SendLog,
        after: int,
        upto: int,
        listed: tuple[Bucket, ...],
        undo: bool,
        in_log: bool = False,
    ) -> None:
        done = e.rec_done and upto == e.upto
        data = StableData(
            *(e.stream, after, upto, listed, undo, done, e.reader, in_log),
            digest=self.log(e.stream).digest(after),
            incarnation=self.machine.incarnation,
        )
        self._node.send(self.name, e.to, data)

    def _send_head(self, e: SendHead) -> None:
        try:
            (bucket,) = self.log(e.stream).listed(e.bucket - 1, e.bucket)
        except Damaged as error:
            self._node.log_damaged(self.name, e.stream, error)
            return
        data = TentativeData(e.stream, HEAD_EPOCH, bucket, e.reader, self.machine.incarnation)
        self._node.send(self.name, e.to, data)

    def _truncate(self, e: Truncate) -> None:
        self.log(e.stream).truncate(e.upto)

    def _announce_lease(self, e: AnnounceLease) -> None:
        self._node.lease_changed(self.name, e)


def _pieces(listed: Any) -> Iterator[list[Bucket]]:
    """A listing in pieces of limited size; at least one, maybe empty.

    Where a bucket is damaged, what lies before it is a piece.
    """
    piece: list[Bucket] = []
    size = 0
    try:
        for bucket in listed:
            more = getattr(bucket.batch, "nbytes", 0)
            if piece and (size + more > PIECE_BYTES or len(piece) >= PIECE_BUCKETS):
                yield piece
                piece, size = [], 0
            piece.append(bucket)
            size += more
    except Damaged:
        if piece:
            yield piece
        raise
    yield piece


class ReplicaHost(LogHost):
    """A replica of a fragment, with its lanes."""

    machine: ReplicaMachine

    def __init__(self, machine: ReplicaMachine, node: NodePort, engine: EnginePort) -> None:
        super().__init__(machine.config.name, machine, node)
        self.engine = engine
        self.performers |= {
            AnnouncePhase: self._announce,
            AnnounceLoss: self._announce_loss,
            RunStable: self._run_stable,
            RunTentative: engine.run_tentative,
            Checkpoint: engine.checkpoint,
            ForkLane: engine.fork,
            DropLane: engine.drop,
            SkipAhead: engine.skip_ahead,
            ShipSnapshot: self._ship,
            InstallSnapshot: engine.install,
            RememberSources: engine.remember,
        }

    def log(self, stream: str) -> LogPort:
        return self.engine.log(stream)

    def _announce(self, e: AnnouncePhase) -> None:
        self._node.phase_changed(self.name, e)

    def _announce_loss(self, e: AnnounceLoss) -> None:
        self._node.state_lost(self.name, e)

    def _run_stable(self, e: RunStable) -> None:
        self.log(e.output).note_entries(e.after, entry_times(e.inputs))
        self.engine.run_stable(e)

    def _ship(self, e: ShipSnapshot) -> None:
        try:
            self._node.send(self.name, e.to, self.engine.shipment(e))
        except Damaged as error:
            self._node.log_damaged(self.name, e.stream, error)


class SourceHost(LogHost):
    """The proxy of a source."""

    machine: SourceMachine

    def __init__(
        self, machine: SourceMachine, node: NodePort, source: SourcePort, name: str = ""
    ) -> None:
        super().__init__(name or machine.stream, machine, node)
        self._source = source
        self.performers |= {LimitSource: source.limit}

    def log(self, stream: str) -> LogPort:
        return self._source.log(stream)


class SourceMemberHost(SourceHost):
    """One of the two proxies of a source."""

    machine: SourceMember

    def __init__(self, machine: SourceMember, node: NodePort, source: SourceMemberPort) -> None:
        super().__init__(machine, node, source, machine.name)
        self.performers |= {
            SaveStanding: source.save,
            LeadSource: source.lead,
            FollowSource: source.follow,
            AcknowledgeRows: source.acknowledge,
            StoreCopy: source.store,
            SendCopy: self._send_copy,
        }
        self._copies = source.copies

    def _shares_logs(self, reader: str) -> bool:
        return False  # a follower's log may be replaced while a reader is at it

    def _send_copy(self, e: SendCopy) -> None:
        try:
            for copy in self._copies(e):
                self._node.send(self.name, e.to, copy)
        except Damaged as error:
            self._node.log_damaged(self.name, self.machine.stream, error)


class WitnessHost(MachineHost):
    """The witness of a source that has two proxies."""

    def __init__(self, name: str, machine: SourceWitness, node: NodePort, save: Save) -> None:
        super().__init__(name, machine, node)
        self.performers |= {SaveStanding: save}


class ClientHost(MachineHost):
    """The proxy of an application that reads a stream."""

    machine: ClientMachine

    def __init__(
        self, machine: ClientMachine, node: NodePort, application: ApplicationPort
    ) -> None:
        super().__init__(machine.name, machine, node)
        self._application = application
        self.performers |= {Deliver: self._deliver}

    def _deliver(self, e: Deliver) -> None:
        self._application.deliver(e.stream, e.what)
