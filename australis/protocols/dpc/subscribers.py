"""The consumers of a stream, and what each is to be sent.

For each consumer the producer keeps the last stable bucket it received and whether
tentative tuples followed it, so that it can replay, correct, or continue (thesis 4.6.1,
5.1.2). Consumers report both in every heartbeat; what was lost in transit is sent again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Send
from australis.protocols.dpc.effects import AnnounceLease, SendHead, SendLog, Truncate
from australis.protocols.dpc.messages import (
    Bucket,
    ConsumerHeard,
    SubscriptionState,
    TentativeData,
    reader_key,
)
from australis.protocols.dpc.options import DpcOptions, Lease, LogBounds, WhenFull

GUEST = "guest "
"""The prefix in the names of consumers that are in no configuration: they may read at any time,
but no log is kept for them."""
GUEST_US = 10 * SECOND
"""The silence after which a guest counts as gone."""
ABSENT_US = GUEST_US
"""The silence after which any consumer counts as absent, so that a full log may skip it."""
GUESTS = 64
"""No more than this at a time."""
NO_BUCKET_NEEDED = 1 << 62
"""What a log's consumers have acknowledged if it waits for none of them."""
EPOCH_BITS = 20
"""A node has fewer overlays than 2 to the power of this in one incarnation."""
MAX_HEAD = 1024
"""The head of a log that is read as tentative has no more buckets than this."""


@dataclass
class Subscriber:
    """One consumer of a stream."""

    node: str = ""
    reader: str = ""
    incarnation: int = -1
    number: int = 0
    log: bool = False
    overlay: bool = False
    head: bool = False
    have: int = -1
    room: int = -1
    sent: int = -1
    """The last stable bucket sent to the consumer."""
    given: int = -1
    """The last stable bucket that it has from here, and may yet read in this log."""
    sent_before: int = -1
    """The value of `sent` at the consumer's previous heartbeat."""
    tentative: bool = False
    """Whether it has tentative tuples beyond its last stable bucket."""
    overlay_sent: int = -1
    """The last bucket sent to the consumer tentatively."""
    overlay_before: int = -1
    """The value of `overlay_sent` at the consumer's previous heartbeat."""
    correcting: bool = False
    """Whether corrections have begun and no REC_DONE has followed."""
    acknowledged: int = -1
    heard_us: int = 0
    """When it was last heard, or else when this incarnation of the producer began."""
    lapsed: bool = False
    """Whether the log no longer waits for it, since it has been silent for too long."""
    joining: bool = False
    """Whether it is joining: then a full log does not wait for it, since it can begin anew."""


@dataclass
class Overlay:
    """The recent buckets of a tentative lane, in memory only."""

    epoch: int
    buckets: dict[int, Bucket]

    @classmethod
    def before_any(cls, incarnation: int) -> Overlay:
        """No overlay yet: those of an incarnation have higher epochs than all earlier ones."""
        return cls(incarnation << EPOCH_BITS, {})

    @property
    def incarnation(self) -> int:
        """The incarnation of the node to which it belongs."""
        return self.epoch >> EPOCH_BITS


class Subscribers:
    """All consumers of one stream."""

    def __init__(
        self,
        stream: str,
        consumers: Iterable[str],
        send_window: int,
        bounds: LogBounds = LogBounds(),  # noqa: B008
        leases: Mapping[str, Lease] | None = None,
        bucket_us: int = SECOND,
    ) -> None:
        self.stream = stream
        self.bounds = bounds
        self.leases = leases or {}
        self._window = send_window
        self._keep = -(-bounds.keep_us // bucket_us)
        self._returned: list[AnnounceLease] = []
        self.all: dict[str, Subscriber] = {}
        """All configured consumers: each holds truncation back, even before its first heartbeat."""
        for name in consumers:
            self._add(name, 0)
        self.guests: dict[str, Subscriber] = {}

    @classmethod
    def of(cls, stream: str, consumers: Iterable[str], options: DpcOptions) -> Self:
        """The consumers of a stream, with the leases and bounds of the application."""
        bounds = options.bounds_of(stream)
        return cls(
            stream, consumers, options.send_window, bounds, options.leases, options.bucket_us
        )

    def _add(self, name: str, now: int) -> Subscriber:
        node, _, reader = name.partition(" for ")
        self.all[name] = Subscriber(node, reader, heard_us=now)
        return self.all[name]

    def rewire(
        self,
        consumers: Iterable[str],
        joining: Container[str],
        leases: Mapping[str, Lease],
        now: int,
    ) -> None:
        """Serve these consumers from now on: no log is kept for others any more."""
        self.leases = leases
        wanted = dict.fromkeys(consumers)
        for name in [name for name in self.all if name not in wanted]:
            del self.all[name]
        for name in wanted:
            one = self.all.get(name) or self._add(name, now)
            one.joining = one.node in joining

    @property
    def watches(self) -> bool:
        """Whether the log may have to be trimmed though nobody is heard."""
        return self.bounds.bounded or any(
            self.silence_us(one) is not None for one in self.all.values()
        )

    def holds(self, node: str, reader: str) -> bool:
        """Whether the log is kept for a consumer."""
        one = self.all.get(reader_key(node, reader))
        return one is not None and not one.lapsed

    def begin(self, now: int) -> None:
        """Begin all leases: the time for which the producer was down does not count."""
        for one in self.all.values():
            one.heard_us = now

    def heard(
        self, node: str, want: SubscriptionState, incarnation: int, number: int, now: int = 0
    ) -> None:
        """Update a consumer from one of its heartbeats, unless a later one has been processed."""
        one = self.all.get(reader_key(node, want.reader)) or self._guest(node, now)
        if one is None or (incarnation, number) <= (one.incarnation, one.number):
            return
        self._is_back(one, now)
        one.heard_us = now
        restarted = incarnation != one.incarnation
        one.incarnation, one.number = incarnation, number
        one.have, one.room = want.have, want.room
        # A consumer that restarts without its disk needs again what it once acknowledged.
        one.acknowledged = max(-1 if restarted else one.acknowledged, want.acknowledged)
        lost = one.have < one.sent_before and want.log
        if restarted or not one.log or lost or one.sent < one.have:
            one.sent = one.have
            one.tentative = want.tentative > want.have
        if restarted or not one.overlay or want.tentative < one.overlay_before:
            one.overlay_sent = want.tentative
        one.log, one.overlay, one.head = want.log, want.overlay, want.head
        one.sent_before, one.overlay_before = one.sent, one.overlay_sent

    def heard_here(self, now: int) -> tuple[ConsumerHeard, ...]:
        """What has been heard from each configured consumer, for the other proxy of a source."""
        return tuple(
            ConsumerHeard(name, one.incarnation, one.acknowledged, now - one.heard_us)
            for name, one in self.all.items()
            if one.incarnation >= 0
        )

    def heard_elsewhere(self, consumers: Iterable[ConsumerHeard], now: int) -> None:
        """Take into account what the other proxy of the source has heard."""
        for heard in consumers:
            one = self.all.get(heard.name)
            if one is None or heard.incarnation < one.incarnation:
                continue
            if heard.incarnation > one.incarnation:  # it may have lost its disk meanwhile
                one.acknowledged = -1
            one.acknowledged = max(one.acknowledged, heard.acknowledged)
            if now - heard.silent_us > one.heard_us:
                one.heard_us = now - heard.silent_us
                self._is_back(one, now)

    def _is_back(self, one: Subscriber, now: int) -> None:
        if one.lapsed:
            one.lapsed = False
            self._returned.append(self._announced(one, now))

    def _guest(self, node: str, now: int) -> Subscriber | None:
        """The guest of this name, if the node is a guest and there is room for it."""
        for name in [n for n, g in self.guests.items() if now - g.heard_us > GUEST_US]:
            del self.guests[name]
        if node not in self.guests and node.startswith(GUEST) and len(self.guests) < GUESTS:
            self.guests[node] = Subscriber(node, heard_us=now)
        return self.guests.get(node)

    @property
    def _everyone(self) -> Iterable[Subscriber]:
        return [*self.all.values(), *self.guests.values()] if self.guests else self.all.values()

    @property
    def want_overlay(self) -> bool:
        """Whether some consumer counts on this producer for new tuples."""
        return any(one.overlay for one in self._everyone)

    def read_on(self, end: int, now: int, silent_us: int) -> bool:
        """Whether a consumer that was heard of lately is still reading the log up to its end."""
        return any(
            one.log and one.have < end and now - one.heard_us <= silent_us for one in self._everyone
        )

    def _those(self, only: str | None) -> Iterable[Subscriber]:
        if only is None:
            return self._everyone
        return [one for one in self._everyone if one.node == only]

    def due(
        self, trimmed_upto: int, end: int, *, settled: bool, only: str | None = None
    ) -> list[Effect]:
        """The pieces of the log (trimmed_upto, end] that are to be sent now.

        The log is `settled` if nothing tentative lies beyond its end.
        """
        effects: list[Effect] = []
        for one in self._those(only):
            if not one.log or one.sent < trimmed_upto:
                continue
            upto = min(end, one.room, one.have + self._window)
            done = settled and max(upto, one.sent) >= end
            if upto > one.sent or (done and one.correcting):
                effects.append(self._send(one, max(upto, one.sent), done))
        return effects

    def _send(self, one: Subscriber, upto: int, done: bool) -> SendLog:
        undo = one.tentative
        correcting = one.correcting or undo
        rec_done = correcting and done
        effect = SendLog(one.node, self.stream, one.sent, upto, undo, rec_done, one.reader)
        one.sent = one.given = upto
        one.tentative = False
        one.correcting = correcting and not done
        return effect

    def overlay_due(self, overlay: Overlay, only: str | None = None) -> list[Effect]:
        """The buckets of the overlay that are to be sent now."""
        effects: list[Effect] = []
        for one in self._those(only):
            if not one.overlay:
                continue
            for number, bucket in overlay.buckets.items():
                if number > one.overlay_sent and number > one.sent:
                    data = TentativeData(
                        self.stream, overlay.epoch, bucket, one.reader, overlay.incarnation
                    )
                    effects.append(Send(one.node, data))
                    one.overlay_sent = number
                    one.tentative = True
        return effects

    def overlay_anew(self, after: int) -> None:
        """A new overlay begins after this bucket: consumers that had the old one need it again."""
        for one in self._everyone:
            one.overlay_sent = min(one.overlay_sent, after)

    def head_due(
        self, trimmed_upto: int, end: int, recent: int, only: str | None = None
    ) -> list[Effect]:
        """The head of the log, as tentative, for consumers that are still reading older parts."""
        effects: list[Effect] = []
        recent = min(recent, MAX_HEAD)
        for one in self._those(only):
            if one.head and max(one.sent, one.overlay_sent) < end:
                first = max(one.sent, one.overlay_sent, trimmed_upto, end - recent) + 1
                effects += [
                    SendHead(one.node, self.stream, b, one.reader) for b in range(first, end + 1)
                ]
                one.overlay_sent = end
                one.tentative = True
        return effects

    # --- truncation -----------------------------------------------------------------------

    @property
    def acknowledged(self) -> int:
        """The last bucket that every consumer has made durable for which the log waits."""
        waits = (one.acknowledged for one in self.all.values() if not one.lapsed)
        return min(waits, default=NO_BUCKET_NEEDED)

    def truncation(
        self,
        trimmed_upto: int,
        end: int,
        keep: int | None = None,
        *,
        fits_after: int = -1,
        now: int = 0,
    ) -> list[Effect]:
        """Truncate the buckets of the log that no consumer can ask for any more.

        With `keep`, exactly this number of buckets stays, acknowledged or not: enough for a
        consumer that has lost everything to rebuild its state. The buckets after `fits_after` are
        those that fit the log's bytes.
        """
        effects: list[Effect] = [*self._returned, *self._lapses(now)]
        self._returned.clear()
        if keep is not None:
            upto = end - keep
        else:
            full_upto = self.bounds.full_upto(end, fits_after)
            upto = self._unneeded(end, full_upto)
            if max(upto, trimmed_upto) < full_upto:
                effects += self._yield(full_upto, now)
                if self.bounds.full is WhenFull.SKIP:
                    effects += self._let_go(full_upto, now)
                upto = self._unneeded(end, full_upto)
        if upto > trimmed_upto:
            effects.append(Truncate(self.stream, upto))
        return effects

    def _unneeded(self, end: int, full_upto: int) -> int:
        """The last bucket that need not be kept."""
        if not self.all:  # whoever may want to read it is in no configuration
            return max(full_upto, end - self._keep if self._keep else -1)
        return min(self.acknowledged, end, max(end - self._keep, full_upto))

    def waits_for(self, upto: int) -> list[str]:
        """The consumers for which the log keeps buckets up to this one."""
        return [n for n, one in self.all.items() if not one.lapsed and one.acknowledged < upto]

    def silence_us(self, one: Subscriber) -> int | None:
        """The silence after which the lease of a consumer is over; None: never."""
        lease = self.leases.get(one.node)
        return None if lease is None else lease.silence_us

    def _lapses(self, now: int) -> list[Effect]:
        """The leases that are over now."""
        effects: list[Effect] = []
        for one in self.all.values():
            silence_us = self.silence_us(one)
            if silence_us is None or one.lapsed:
                continue
            if self._is_gone(one, silence_us, now):
                effects.append(self._lapse(one, now))
        return effects

    def _yield(self, upto: int, now: int) -> list[Effect]:
        """No longer wait for joining consumers that need buckets up to this one."""
        need = [self.all[name] for name in self.waits_for(upto)]
        return [self._lapse(one, now) for one in need if one.joining]

    def _let_go(self, upto: int, now: int) -> list[Effect]:
        """End the leases of the absent consumers that need buckets up to this one."""
        need = [self.all[name] for name in self.waits_for(upto)]
        return [self._lapse(one, now) for one in need if self._is_gone(one, ABSENT_US, now)]

    def _is_gone(self, one: Subscriber, silence_us: int, now: int) -> bool:
        """Whether a consumer has been silent for longer than this, and need not find the log."""
        lease = self.leases.get(one.node)
        if lease is None or now - one.heard_us <= silence_us:
            return False
        if lease.peers is None:
            return True
        peers = (self.all.get(reader_key(peer, one.reader)) for peer in lease.peers)
        return any(peer is not None and now - peer.heard_us <= ABSENT_US for peer in peers)

    def _lapse(self, one: Subscriber, now: int) -> AnnounceLease:
        one.lapsed = True
        return self._announced(one, now)

    def _announced(self, one: Subscriber, now: int) -> AnnounceLease:
        name = reader_key(one.node, one.reader)
        return AnnounceLease(self.stream, name, now - one.heard_us, one.lapsed, one.acknowledged)
