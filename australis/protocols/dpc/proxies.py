"""The two ends: a source proxy and a client proxy (thesis 4.10).

A source proxy logs every tuple durably before anyone sees it, sets boundaries and
serves all replicas. It never stamps below its last boundary, whatever its clock
does. A client proxy follows all replicas of its stream and hands the application
one sequence of stable and tentative tuples, UNDO and REC_DONE.
"""

from __future__ import annotations

from collections.abc import Sequence

from australis.kernel.machine import (
    Effect,
    Event,
    Message,
    MessageReceived,
    Send,
    SetTimer,
    TimerFired,
)
from australis.protocols.dpc.effects import (
    BucketClosed,
    CloseBucket,
    Consumed,
    Deliver,
    Started,
    Truncate,
)
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import (
    Bucket,
    Heartbeat,
    HeartbeatReply,
    StableData,
    StreamStatus,
    TentativeData,
)
from australis.protocols.dpc.monitor import Monitor
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.states import State
from australis.protocols.dpc.subscribers import GUEST, Subscribers


class SourceMachine:
    """The proxy of one source."""

    def __init__(self, stream: str, consumers: tuple[str, ...], options: DpcOptions) -> None:
        self.stream = stream
        self.options = options
        self.subscribers = Subscribers(stream, consumers, options.send_window)
        self.life = 0
        self.begins = self.end = -1
        self.closing = False
        self.dropped = -1
        """The last bucket whose tuples were not taken because the log was full."""

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Take in what happened; what is to be done about it, in order."""
        match event:
            case MessageReceived(sender=sender, message=Heartbeat() as heartbeat):
                return self._heartbeat(sender, heartbeat, now)
            case BucketClosed(upto=upto):
                self.closing = False
                self.end = upto
                return self._send()
            case TimerFired():
                return self._close(now)
            case Started(life=life, lanes=lanes):
                self.life = life
                for lane in lanes:
                    self.begins, self.end = lane.begins, lane.end
                return self._close(now)
        return []

    def _close(self, now: int) -> list[Effect]:
        """Log the buckets that are over; never one that a boundary has passed."""
        size = self.options.bucket_us
        over = now // size - 1
        effects: list[Effect] = [SetTimer("close", (max(over, self.end) + 2) * size)]
        full = self.options.max_log is not None and self.end - self.begins >= self.options.max_log
        if full:
            self.dropped = over  # back-pressure ends here (thesis 4.9.4)
        elif over > self.end and not self.closing:
            self.closing = True
            effects.append(CloseBucket(self.stream, self.end, over, now, self.dropped))
        return effects

    def _heartbeat(self, sender: str, heartbeat: Heartbeat, now: int) -> list[Effect]:
        for want in heartbeat.wants:
            self.subscribers.heard(sender, want, heartbeat.life, heartbeat.number, now)
        status = StreamStatus(self.stream, State.STABLE, self.begins, self.end, True)
        reply = HeartbeatReply(self.life, heartbeat.number, (status,))
        truncations = self.subscribers.truncation(self.begins, self.end, self.options.keep_log)
        for truncation in truncations:
            assert isinstance(truncation, Truncate)
            self.begins = truncation.upto
        return [Send(sender, reply), *self._send(sender), *truncations]

    def _send(self, only: str | None = None) -> list[Effect]:
        them, begins, end = self.subscribers, self.begins, self.end
        return [
            *them.due(begins, end, settled=True, only=only),
            *them.head_due(begins, end, self.options.input_window, only),
        ]


class Insertions(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Stable tuples of one bucket."""

    bucket: Bucket


class Tentatives(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Tentative tuples of one bucket."""

    bucket: Bucket


class Undo(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Everything after the tuples of this bucket is taken back."""

    upto: int


class Skipped(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The stable tuples of the buckets (after, upto] are gone and will not come."""

    after: int
    upto: int


class RecDone(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The corrections are complete: what follows is stable, or a new failure."""


class ClientMachine:
    """The proxy of one application that reads one stream."""

    input_class = Input

    def __init__(
        self,
        name: str,
        stream: str,
        producers: tuple[str, ...],
        options: DpcOptions,
        *,
        hedge: bool = False,
        hold: bool = False,
    ) -> None:
        """With `hedge` it follows the logs of two replicas at once, which are equal, so that
        losing one of them costs no time; it costs the network twice as much. With `hold` it
        acknowledges what its application has `Consumed`, not what it has received."""
        self.name = name
        self.guest = name.startswith(GUEST)
        self.stream = stream
        self.options = options
        self.life = 0
        self.monitors = {p: Monitor(p, [stream], options.misses) for p in producers}
        self.input = self.input_class(stream, self.monitors, producers[0], options)
        self.input.hedged = hedge
        self.hold = hold
        self._consumed = -1
        self._told = -1
        """The last bucket the application was told tentatively,"""
        self._told_by: tuple[str, int] = ("", -1)
        """and whose overlay said so."""
        self._correcting = False
        self._joined_at: int | None = None
        """Where it began to read; what was forgotten before that it never asked for."""

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Take in what happened; what is to be done about it, in order."""
        match event:
            case MessageReceived(sender=sender, message=message):
                match message:
                    case StableData():
                        return self._stable(sender, message, now)
                    case TentativeData():
                        return self._tentative(sender, message)
                    case HeartbeatReply():
                        return self._reply(sender, message, now)
            case TimerFired():
                return self._tick(now)
            case Consumed(upto=upto):
                self._consumed = max(self._consumed, upto)
            case Started(life=life, lanes=lanes):
                self.life = life
                for lane in lanes:
                    self.input.restart_after(lane.upto)
                    self._joined_at = self._consumed = lane.upto
                return self._tick(now)
        return []

    def _tick(self, now: int) -> list[Effect]:
        effects: list[Effect] = [self._ask(node, now, regular=True) for node in self.monitors]
        effects += self._choose(now)
        effects += self._skip()
        effects += self._settle()
        effects.append(SetTimer("heartbeat", now + self.options.heartbeat_us))
        return effects

    def _skip(self) -> list[Effect]:
        """Go on behind what no replica has any more (bounded logs, thesis 4.9.4)."""
        after, upto = self.input.have, self.input.gone_upto
        joins = after == self._joined_at and self.input.forgotten
        if upto is None or not (joins or self.guest or self.options.keep_log is not None):
            return []
        if self.guest:
            # No log waits for it: what follows next may be gone by the time it asks for it.
            upto = max(upto, self.input.head)
        effects: list[Effect] = []
        if self._told > after:
            # Also while corrections run: what was said since the last UNDO is gone as well.
            effects.append(Deliver(self.stream, Undo(after)))
            self._correcting = True
        self.input.restart_after(upto)
        return [*effects, Deliver(self.stream, Skipped(after, upto))]

    def _choose(self, now: int) -> list[Effect]:
        if not self.input.choose(now):
            return []
        return [self._ask(node, now) for node in self.monitors]

    def _ask(self, node: str, now: int, *, regular: bool = False) -> Send:
        have = self.input.have
        want = self.input.want(node, min(have, self._consumed) if self.hold else have, now)
        number = self.monitors[node].next_number(regular=regular)
        return Send(node, Heartbeat(self.life, number, (want,)))

    def _reply(self, sender: str, reply: HeartbeatReply, now: int) -> list[Effect]:
        monitor = self.monitors.get(sender)
        if monitor is None:
            return []
        news = monitor.replied(reply)
        effects = self._skip() if self.guest else []
        if effects:
            effects += [self._ask(node, now) for node in self.monitors]
        elif not news:
            return []
        return effects + self._choose(now) + self._settle()

    def _stable(self, sender: str, data: StableData, now: int) -> list[Effect]:
        before = self.input.have
        effects: list[Effect] = []
        if self.input.take_stable(sender, data, now):
            if self._told > before and not self._correcting:
                effects.append(Deliver(self.stream, Undo(before)))
                self._correcting = True
            for number in range(before + 1, self.input.have + 1):
                effects.append(Deliver(self.stream, Insertions(self.input.stable[number])))
            self.input.forget(self.input.have)
            if self.input.waits_for_more:
                effects.append(self._ask(self.input.log_from, now))
        return effects + self._settle()

    def _settle(self) -> list[Effect]:
        """Say REC_DONE once nothing tentative is left."""
        if not self._correcting or self._told > self.input.have:
            return []
        self._correcting = False
        return [Deliver(self.stream, RecDone())]

    def _tentative(self, sender: str, data: TentativeData) -> list[Effect]:
        number = data.bucket.number
        if not self.input.take_tentative(sender, data):
            return []
        effects: list[Effect] = []
        if number <= self._told:
            said_by, epoch = self._told_by
            if said_by != sender or epoch >= data.epoch:
                return []  # another replica's view of what was said already
            # The producer began its overlay anew behind a longer log: so does this one.
            effects += [Deliver(self.stream, Undo(self.input.have))]
            effects += [Deliver(self.stream, RecDone())]
            self._correcting = False
        self._told, self._told_by = number, (sender, data.epoch)
        return [*effects, Deliver(self.stream, Tentatives(data.bucket))]
