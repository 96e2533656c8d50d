"""The two ends: a source proxy and a client proxy (thesis 4.10).

A source proxy logs every tuple durably before any consumer reads it, sets boundaries
and serves all replicas. It never stamps below its last boundary, whatever its clock
does. A client proxy follows all replicas of its stream and hands the application
one sequence of stable and tentative tuples, UNDO and REC_DONE.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from australis.kernel.machine import (
    Effect,
    Event,
    Message,
    MessageReceived,
    Send,
    SetTimer,
    TimerFired,
)
from australis.protocols.dpc.digests import Digests
from australis.protocols.dpc.effects import (
    AnnounceDifference,
    AnnounceWentBack,
    BucketClosed,
    Consumed,
    Deliver,
    LimitSource,
    LogDamaged,
    RestoredLog,
    Rewired,
    Started,
    Truncate,
)
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import (
    Bucket,
    Heartbeat,
    HeartbeatReply,
    LogDigest,
    StableData,
    StreamStatus,
    SubscriptionState,
    TentativeData,
    WentBack,
    reader_key,
)
from australis.protocols.dpc.monitor import Monitor
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.spans import Span
from australis.protocols.dpc.states import State
from australis.protocols.dpc.subscribers import ABSENT_US, GUEST, Subscribers

LEASES = "leases"
"""The timer of a source that looks at the leases of its consumers."""


class SourceMachine:
    """The proxy of one source, which closes its buckets itself and reports each one."""

    subscribers_class = Subscribers
    alone = True
    """Whether no other proxy has the source's log, so that it ends before no consumer's."""

    def __init__(self, stream: str, consumers: tuple[str, ...], options: DpcOptions) -> None:
        self.stream = stream
        self.options = options
        self.subscribers = self.subscribers_class.of(stream, consumers, options)
        self.incarnation = 0
        self.version = 0
        """The version of the deployment that it knows."""
        self.trimmed_upto = self.end = self.restored_upto = self.fits_after = -1
        self.digests = Digests()
        self.went_back: WentBack | None = None
        """What a consumer has read that is not in the log; then nobody may read it."""
        self._complete = False
        """Whether empty buckets that consumers have need not be in the log."""

    @property
    def state(self) -> State:
        """The state to advertise: a source that answers misses nothing."""
        return State.STABLE if self.went_back is None else State.FAILURE

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Process one event; returns the effects in order."""
        match event:
            case MessageReceived(sender=sender, message=Heartbeat() as heartbeat):
                return self._heartbeat(sender, heartbeat, now)
            case BucketClosed(upto=upto, digests=digests, fits_after=fits_after):
                self.end, self.fits_after = upto, fits_after
                self.digests.extend(digests, upto)
                return [*self._send(), *(self._truncate(now) if self.full else [])]
            case LogDamaged(bucket=bucket) if bucket > self.trimmed_upto:
                self.trimmed_upto = bucket
                return [Truncate(self.stream, bucket), *self._limit()]
            case TimerFired():
                return [*self._truncate(now), *self._watch(now)]
            case Rewired() if event.version > self.version:
                self.version = event.version
                self.subscribers.rewire(event.wiring, event.joining, event.leases, now)
                return [*self._truncate(now), *self._watch(now)]
            case Started(incarnation=incarnation, lanes=lanes):
                self.incarnation = incarnation
                self.subscribers.begin(now)
                for lane in lanes:
                    self.trimmed_upto, self.end = lane.trimmed_upto, lane.end
                    self.fits_after = lane.fits_after
                    self._restore_digests(lane)
                    self.restored_upto = lane.end
                    self._complete = lane.complete
                return [*self._limit(), *self._watch(now)]
        return []

    @property
    def full(self) -> bool:
        """Whether its log has no room, so that the source waits."""
        return self.trimmed_upto < self.subscribers.bounds.full_upto(self.end, self.fits_after)

    @property
    def waits_for(self) -> list[str]:
        """The consumers for which a full log waits."""
        upto = self.subscribers.bounds.full_upto(self.end, self.fits_after)
        return self.subscribers.waits_for(upto) if self.full else []

    def _watch(self, now: int) -> list[Effect]:
        """Look at the leases regularly, since nobody may be heard any more."""
        if not self.subscribers.watches:
            return []
        return [SetTimer(LEASES, now + self.options.stall_us)]

    def _limit(self) -> list[Effect]:
        """Limit the source where its log is bounded (back-pressure, thesis 4.9.4)."""
        most = self.subscribers.bounds.max_buckets
        return [] if most is None else [LimitSource(self.stream, self.trimmed_upto + most)]

    def _restore_digests(self, lane: RestoredLog) -> None:
        self.digests.restart(lane.digest)
        if lane.digest is not None and lane.digests:
            self.digests.restart(LogDigest(lane.digest.base, *lane.digests[0]))
            self.digests.extend(lane.digests, lane.end)

    def _truncate(self, now: int) -> list[Effect]:
        if self.went_back is not None:
            return []
        effects = self.subscribers.truncation(
            self.trimmed_upto,
            self.end,
            self.options.keep_log,
            fits_after=self.fits_after,
            now=now,
        )
        upto = max((e.upto for e in effects if isinstance(e, Truncate)), default=None)
        if upto is None:
            return effects
        self.trimmed_upto = upto
        return [*effects, *self._limit()]

    def _heartbeat(self, sender: str, heartbeat: Heartbeat, now: int) -> list[Effect]:
        digest, holds = None, True
        told: list[Effect] = []
        for want in heartbeat.wants:
            if want.stream != self.stream:
                continue  # it is not given away for another stream that the sender may read
            self.subscribers.heard(sender, want, heartbeat.incarnation, heartbeat.number, now)
            holds = self.subscribers.holds(sender, want.reader)
            told += self._compare(sender, want)
            digest = self.digests.point(min(want.have, self.end)) or digest
        sent = self._send(sender)
        truncations = self._truncate(now)
        status = StreamStatus(
            self.stream,
            self.state,
            self.trimmed_upto,
            self.end,
            overlay=True,
            digest=digest if self.went_back is None else None,
            restored_upto=self.restored_upto,
            went_back=self.went_back,
            holds=holds,
        )
        reply = HeartbeatReply(self.incarnation, heartbeat.number, (status,), now)
        return [*told, Send(sender, reply), *sent, *truncations]

    def _compare(self, sender: str, want: SubscriptionState) -> list[Effect]:
        """Compare the log with what a consumer has read of it.

        The log was durable before anybody read it, so it never ends before that, and never holds
        something else: then an old copy of it was put back, or its disk has lost a part.
        """
        name = reader_key(sender, want.reader)
        if not self.alone or self.went_back is not None or name not in self.subscribers.all:
            return []
        self.went_back = self._behind(name, want)
        if self.went_back is None:
            return []
        return [AnnounceWentBack(self.stream, "", self.went_back)]

    def _behind(self, name: str, want: SubscriptionState) -> WentBack | None:
        theirs = want.digest
        upto = max(want.have, -1 if theirs is None else theirs.bucket)
        if upto > self.end and not self._complete:
            return WentBack(name, upto, self.end, differs=False)
        mine = None if theirs is None else self.digests.point(theirs.bucket)
        if theirs is None or mine is None or mine == theirs:
            return None
        return WentBack(name, theirs.bucket, self.end, differs=True)

    def _send(self, only: str | None = None) -> list[Effect]:
        if self.went_back is not None:
            return []
        them, trimmed_upto, end = self.subscribers, self.trimmed_upto, self.end
        return [
            *them.due(trimmed_upto, end, settled=True, only=only),
            *them.head_due(trimmed_upto, end, self.options.input_window, only),
        ]


class Insertions(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The stable tuples of one bucket."""

    bucket: Bucket


class LoggedInsertions(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Stable tuples that the application reads from a log of its own node."""

    span: Span


class Tentatives(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The tentative tuples of one bucket."""

    bucket: Bucket


class Undo(Message, frozen=True, array_like=True, tag=True, gc=False):
    """All tentative tuples after this bucket are revoked."""

    upto: int


class Skipped(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The stable tuples of the buckets (after, upto] are truncated and will not arrive."""

    after: int
    upto: int


class RecDone(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The corrections are complete: what follows is stable, or a new failure."""


class ClientMachine:
    """The proxy of one application that reads one stream."""

    input_class = Input
    monitor_class = Monitor

    def __init__(
        self,
        name: str,
        stream: str,
        producers: tuple[str, ...],
        options: DpcOptions,
        *,
        hedge: bool = False,
        hold: bool = False,
        bounded: bool = False,
    ) -> None:
        """With `hedge` it follows the logs of two replicas at once, which are equal, so that
        losing one of them costs no time; it costs the network twice as much. With `hold` it
        acknowledges what its application has `Consumed`, not what it has received; if it is
        `bounded` too, it asks for no more than fits behind what the application has taken, and
        for nothing tentative."""
        self.name = name
        self.guest = name.startswith(GUEST)
        self.version = 0
        """The version of the deployment that it knows."""
        self.stream = stream
        self.options = options
        self.incarnation = 0
        self.monitors = {p: self.monitor_class(p, [stream], options.misses) for p in producers}
        self.input = self.input_class(stream, self.monitors, producers[0], options)
        self.input.hedged = hedge
        self.hold = hold
        self.bounded = bounded
        self._consumed = self._taken = -1
        self._told = -1
        """The last tentative bucket that was delivered to the application."""
        self._told_by: tuple[str, int] = ("", -1)
        """The replica and epoch of the overlay from which that bucket came."""
        self._correcting = False
        self._gap_us: int | None = None
        """The time since which no replica that answers has the next bucket."""

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Process one event; returns the effects in order."""
        match event:
            case MessageReceived(sender=sender, message=message):
                match message:
                    case StableData() | TentativeData():
                        return self._data(sender, message, now)
                    case HeartbeatReply():
                        return self._reply(sender, message, now)
            case TimerFired():
                return self._tick(now)
            case LogDamaged(bucket=bucket) if bucket <= self.input.have:
                # The application could not read it in the log of its own node.
                self.input.restart_after(bucket - 1)
                self._taken = min(self._taken, bucket - 1)
                return [self._ask(node, now) for node in self.monitors]
            case Rewired() if event.version > self.version:
                return self._rewired(event, now)
            case Consumed(upto=upto, taken=taken):
                self._consumed = max(self._consumed, upto)
                self._taken = max(self._taken, upto, taken)
                self._forget()
            case Started(incarnation=incarnation, lanes=lanes):
                self.incarnation = incarnation
                for lane in lanes:
                    self.input.restart_after(lane.upto)
                    self._consumed = self._taken = lane.upto
                return self._tick(now)
        return []

    def _tick(self, now: int) -> list[Effect]:
        effects: list[Effect] = [self._ask(node, now, regular=True) for node in self.monitors]
        effects += self._choose(now)
        effects += self._skip(now)
        effects += self._settle()
        effects.append(SetTimer("heartbeat", now + self.options.heartbeat_us))
        return effects

    def _rewired(self, event: Rewired, now: int) -> list[Effect]:
        """Read from the replicas of a newer deployment."""
        self.version = event.version
        known, misses = self.monitors, self.options.misses
        self.monitors = {
            p: known.get(p) or self.monitor_class(p, [self.stream], misses)
            for p in event.wiring.producers
        }
        repaired = self.input.rewire(self.monitors, event.leaving, now)
        new = [self._ask(node, now, regular=True) for node in self.monitors if node not in known]
        if self.input.choose(now) or repaired:
            new += [self._ask(node, now) for node in self.monitors]
        return [*new, *self._settle()]

    def _skip(self, now: int) -> list[Effect]:
        """Continue after buckets that no replica has any more (bounded logs, lost states)."""
        after, upto = self.input.have, self.input.gone_upto
        if upto is None:
            self._gap_us = None
            return []
        bounded = self.guest or self.options.keep_log is not None
        if not (bounded or self._all_answer or self._has_waited(now)):
            return []
        if self.guest:
            # No log waits for a guest: the next bucket may be truncated before it asks for it.
            upto = max(upto, self.input.head)
        effects: list[Effect] = []
        if self._told > after:
            # Also during corrections: tentative tuples since the last UNDO are revoked as well.
            effects.append(Deliver(self.stream, Undo(after)))
            self._correcting = True
        self.input.restart_after(upto)
        return [*effects, Deliver(self.stream, Skipped(after, upto))]

    @property
    def _all_answer(self) -> bool:
        return all(m.heard and not m.failed for m in self.monitors.values())

    def _has_waited(self, now: int) -> bool:
        """Whether replicas that are silent have had the time to answer, where they may be given up.

        A client with a lease may have been away for too long in the eyes of some of them only.
        """
        if self._gap_us is None:
            self._gap_us = now
        gives_up = self.name in self.options.leases or self.options.lets_replicas_go
        return gives_up and now - self._gap_us >= ABSENT_US

    def _choose(self, now: int) -> list[Effect]:
        if not self.input.choose(now):
            return []
        return [self._ask(node, now) for node in self.monitors]

    def _ask(self, node: str, now: int, *, regular: bool = False) -> Send:
        have = self.input.have
        want = self.input.want(node, min(have, self._consumed) if self.hold else have, now)
        if self.bounded:  # its application only takes what is stable
            want = replace(want, overlay=False, head=False)
        number = self.monitors[node].next_number(now, regular=regular)
        return Send(node, Heartbeat(self.incarnation, number, (want,)))

    def _reply(self, sender: str, reply: HeartbeatReply, now: int) -> list[Effect]:
        monitor = self.monitors.get(sender)
        if monitor is None:
            return []
        news = monitor.replied(reply, now)
        told = self._compare(sender, reply)
        told += monitor.clock_news(self.options.clock_bound_us, now)
        effects = self._skip(now) if self.guest else []
        if effects:
            effects += [self._ask(node, now) for node in self.monitors]
        elif not news and not told:
            return []
        return told + effects + self._choose(now) + self._settle()

    def _compare(self, sender: str, reply: HeartbeatReply) -> list[Effect]:
        """Compare what a producer says of its log with what has arrived of it."""
        effects: list[Effect] = []
        for status in reply.streams:
            if status.stream != self.stream:
                continue
            if self.input.went_back != status.went_back:
                self.input.went_back = status.went_back
                effects.append(AnnounceWentBack(self.stream, self.name, status.went_back))
            if status.digest is not None:
                self.input.comparison.compare(sender, status.digest)
        return effects + self._announce()

    def _announce(self) -> list[Effect]:
        news = self.input.comparison.news
        return [] if news is None else [AnnounceDifference(self.stream, self.name, *news)]

    def _data(self, sender: str, data: StableData | TentativeData, now: int) -> list[Effect]:
        monitor = self.monitors.get(sender)
        match None if monitor is None else monitor.in_own_clock(data, now):
            case StableData() as ours:
                return self._stable(sender, ours, now)
            case TentativeData() as ours:
                return self._tentative(sender, ours)
        return []

    def _stable(self, sender: str, data: StableData, now: int) -> list[Effect]:
        before = self.input.have
        effects: list[Effect] = []
        if self.input.take_stable(sender, data, now):
            if self._told > before and not self._correcting:
                effects.append(Deliver(self.stream, Undo(before)))
                self._correcting = True
            for span in self.input.stable.between(before, self.input.have):
                if span.log:
                    effects.append(Deliver(self.stream, LoggedInsertions(span)))
                else:
                    effects += self._insertions(span)
            self._forget()
            if self.input.waits_for_more:
                effects.append(self._ask(self.input.log_from, now))
        return effects + self._announce() + self._settle()

    def _insertions(self, span: Span) -> list[Effect]:
        """Deliver every bucket, also those that a span does not list; the input window bounds
        their number."""
        numbers = range(span.after + 1, span.upto + 1)
        buckets = (self.input.stable.get(number) for number in numbers)
        return [Deliver(self.stream, Insertions(b)) for b in buckets if b is not None]

    def _forget(self) -> None:
        have = self.input.have
        self.input.forget(min(have, self._taken) if self.bounded else have)

    def _settle(self) -> list[Effect]:
        """Deliver REC_DONE once nothing tentative is left."""
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
                return []  # another replica's version of a bucket that was delivered already
            # The producer began a new overlay after a longer log: revoke the old one.
            effects += [Deliver(self.stream, Undo(self.input.have))]
            effects += [Deliver(self.stream, RecDone())]
            self._correcting = False
        self._told, self._told_by = number, (sender, data.epoch)
        return [*effects, Deliver(self.stream, Tentatives(data.bucket))]
