"""What the machines of a node need beyond messages and timers: logs, lanes, applications."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from australis.kernel.errors import Stopped
from australis.kernel.machine import Effect, Message, Send
from australis.live.datapath import SharedLog
from australis.live.node.lane_work import LaneWork
from australis.live.node.lanes import Lanes, Work
from australis.protocols.dpc.effects import (
    Checkpoint,
    CloseBucket,
    Deliver,
    DropLane,
    ForkLane,
    InstallSnapshot,
    RunStable,
    RunTentative,
    SendHead,
    SendLog,
    ShipSnapshot,
    Truncate,
)
from australis.protocols.dpc.messages import Bucket, Snapshot, StableData, TentativeData
from australis.protocols.dpc.proxies import ClientMachine, SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine

HEAD_EPOCH = 0
"""The epoch of a log's head read as tentative; tentative lanes have higher ones."""
PIECE_BYTES = 4 << 20
"""A piece of a log is cut to about so many bytes a message."""
REMEMBERED = 4096
"""For so many buckets it is known when they entered; for older ones their end must do."""

Say = Callable[[str, Message], None]
"""Sends a message of one machine to another."""


class LogHost:
    """A machine that serves logs."""

    def __init__(self, name: str, say: Say) -> None:
        self.name = name
        self._say = say
        self._entered: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._performers: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            SendLog: self._send_log,
            SendHead: self._send_head,
            Truncate: self._truncate,
        }

    def log(self, stream: str) -> SharedLog:
        """The log of a stream."""
        raise NotImplementedError

    def perform(self, effect: Effect) -> None:
        """Carry out an effect."""
        self._performers[type(effect)](effect)

    def entered(self, stream: str, number: int, at_us: int) -> None:
        """Remember when a bucket entered the system."""
        self._entered[stream, number] = at_us
        if len(self._entered) > REMEMBERED:
            self._entered.popitem(last=False)

    def _send(self, e: Send) -> None:
        self._say(e.to, e.message)

    def _send_log(self, e: SendLog) -> None:
        after, undo = e.after, e.undo
        for piece in self._pieces(e):
            last = piece[-1].number if piece else e.upto
            done = e.rec_done and last == e.upto
            self._say(e.to, StableData(e.stream, after, last, tuple(piece), undo, done, e.reader))
            after, undo = last, False

    def _pieces(self, e: SendLog) -> Iterator[list[Bucket]]:
        """The buckets (after, upto], in pieces of a decent size; at least one, maybe empty."""
        piece: list[Bucket] = []
        size = 0
        for bucket in self._buckets(e.stream, e.after, e.upto):
            more = 0 if bucket.batch is None else bucket.batch.nbytes
            if piece and size + more > PIECE_BYTES:
                yield piece
                piece, size = [], 0
            piece.append(bucket)
            size += more
        yield piece

    def _buckets(self, stream: str, after: int, upto: int) -> Iterator[Bucket]:
        log = self.log(stream)
        there: dict[int, pa.RecordBatch] = {}
        reader = log.read(after, upto)
        ahead = next(reader, None)
        for number in range(after + 1, upto + 1):
            while ahead is not None and ahead[0] <= number:
                there[ahead[0]] = ahead[1]
                ahead = next(reader, None)
            at = self._entered.get((stream, number), log.buckets.end(number))
            yield Bucket(number, at, there.pop(number, None))

    def _send_head(self, e: SendHead) -> None:
        (bucket,) = self._buckets(e.stream, e.bucket - 1, e.bucket)
        self._say(e.to, TentativeData(e.stream, HEAD_EPOCH, bucket, e.reader))

    def _truncate(self, e: Truncate) -> None:
        self.log(e.stream).truncate(e.upto)


class ReplicaHost(LogHost):
    """A replica of a fragment, with its lanes."""

    def __init__(
        self,
        machine: ReplicaMachine,
        say: Say,
        lanes: Lanes,
        install: Callable[[InstallSnapshot], None],
        work: LaneWork,
    ) -> None:
        super().__init__(machine.config.name, say)
        self.machine = machine
        self.lanes = lanes
        self.work = work
        self._performers |= {
            RunStable: self._run_stable,
            RunTentative: self._run_tentative,
            Checkpoint: self._checkpoint,
            ForkLane: self._fork,
            DropLane: self._drop,
            ShipSnapshot: self._ship,
            InstallSnapshot: install,
        }

    def log(self, stream: str) -> SharedLog:
        return self.lanes.log(stream)

    def _run_stable(self, e: RunStable) -> None:
        for number in range(e.after + 1, e.upto + 1):
            buckets = (i.stable.get(number) for i in self.machine.outputs[e.output].inputs)
            known = [b.entered_us for b in buckets if b is not None]
            if known:
                self.entered(e.output, number, min(known))
        self.work.asked(e)
        self.lanes.run_stable(e, self._work(e.output, e.after, e.upto))

    def _checkpoint(self, e: Checkpoint) -> None:
        self.work.asked(e)
        self.lanes.checkpoint(e.output)

    def _fork(self, e: ForkLane) -> None:
        self.work.asked(e)
        self.lanes.fork(e.output, e.epoch)

    def _drop(self, e: DropLane) -> None:
        self.work.asked(e)
        self.lanes.drop(e.output, e.epoch)

    def _run_tentative(self, e: RunTentative) -> None:
        self.work.asked(e)
        self.lanes.run_tentative(e, self._work(e.output, e.bucket - 1, e.bucket))

    def _work(self, output: str, after: int, upto: int) -> Work:
        """What is there of the buckets (after, upto] on each input, stable or tentative."""
        inputs = self.machine.outputs[output].inputs
        return [
            (n, tuple(b.batch if (b := i.bucket(n)) is not None else None for i in inputs))
            for n in range(after + 1, upto + 1)
        ]

    def _ship(self, e: ShipSnapshot) -> None:
        """Say what there is; whoever needs it fetches the files, which may be large."""
        upto = self.machine.outputs[e.stream].checkpointed
        self._say(e.to, Snapshot(e.stream, upto, 0, self.name))


class SourceHost(LogHost):
    """A source proxy: its rows come from `live.proxy`, which closes the buckets."""

    def __init__(self, machine: SourceMachine, say: Say, log: SharedLog) -> None:
        super().__init__(machine.stream, say)
        self.machine = machine
        self._log = log
        self._performers |= {CloseBucket: self._ignore}

    def log(self, stream: str) -> SharedLog:
        return self._log

    def _ignore(self, effect: CloseBucket) -> None:
        """A live source closes its buckets itself, as its rows and the clock allow."""


class ClientHost:
    """A client proxy; the application hears through `deliver`."""

    def __init__(self, machine: ClientMachine, say: Say, deliver: Callable[[Any], None]) -> None:
        self.name = machine.name
        self.machine = machine
        self._say = say
        self._deliver = deliver

    def perform(self, effect: Effect) -> None:
        """Carry out an effect."""
        match effect:
            case Send(to=to, message=message):
                self._say(to, message)
            case Deliver(what=what):
                self._deliver(what)
            case _:
                raise Stopped(f"a client cannot {type(effect).__name__}")
