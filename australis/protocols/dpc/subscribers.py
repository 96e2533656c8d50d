"""The outgoing half of the DataPath: who reads a stream, and what each is to be sent.

For each consumer the producer keeps the last stable bucket it received and whether
tentative tuples followed it, so that it can replay, correct, or go on (thesis 4.6.1,
5.1.2). Consumers say so in every heartbeat; what was lost on the way is sent again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Send
from australis.protocols.dpc.effects import SendHead, SendLog, Truncate
from australis.protocols.dpc.messages import Bucket, TentativeData, Want, reader_key

GUEST = "guest "
"""How the names of consumers begin that no configuration knows: they read along while they
like, and no log is kept for them."""
GUEST_US = 10 * SECOND
"""A guest that has been silent for so long has left."""
GUESTS = 64
"""No more than this at a time."""


@dataclass
class Subscriber:
    """One consumer of a stream."""

    node: str = ""
    reader: str = ""
    life: int = -1
    number: int = 0
    log: bool = False
    overlay: bool = False
    head: bool = False
    have: int = -1
    room: int = -1
    sent: int = -1
    """The last stable bucket sent to it,"""
    sent_before: int = -1
    """and what that was at its previous heartbeat."""
    tentative: bool = False
    """Whether it has tentative tuples beyond its last stable bucket."""
    overlay_sent: int = -1
    """The last bucket sent to it tentatively,"""
    overlay_before: int = -1
    """and what that was at its previous heartbeat."""
    correcting: bool = False
    """Whether corrections have begun and no REC_DONE has followed."""
    acknowledged: int = -1
    heard_us: int = 0


@dataclass
class Overlay:
    """The recent buckets of a tentative lane, in memory only."""

    epoch: int
    buckets: dict[int, Bucket]


class Subscribers:
    """All consumers of one stream."""

    def __init__(self, stream: str, consumers: Iterable[str], send_window: int) -> None:
        self.stream = stream
        self._window = send_window
        self.all: dict[str, Subscriber] = {}
        """Every consumer that may ever read it holds truncation back, heard of or not."""
        for name in consumers:
            node, _, reader = name.partition(" for ")
            self.all[name] = Subscriber(node, reader)
        self.guests: dict[str, Subscriber] = {}

    def heard(self, node: str, want: Want, life: int, number: int, now: int = 0) -> None:
        """Take in what a consumer says in a heartbeat; old ones do not count."""
        one = self.all.get(reader_key(node, want.reader)) or self._guest(node, now)
        if one is None or (life, number) <= (one.life, one.number):
            return
        one.heard_us = now
        restarted = life != one.life
        one.life, one.number = life, number
        one.have, one.room = want.have, want.room
        # A consumer that comes back without its disk needs again what it once acknowledged.
        one.acknowledged = max(-1 if restarted else one.acknowledged, want.acknowledged)
        lost = one.have < one.sent_before and want.log
        if restarted or not one.log or lost or one.sent < one.have:
            one.sent = one.have
            one.tentative = want.tentative > want.have
        if restarted or not one.overlay or want.tentative < one.overlay_before:
            one.overlay_sent = want.tentative
        one.log, one.overlay, one.head = want.log, want.overlay, want.head
        one.sent_before, one.overlay_before = one.sent, one.overlay_sent

    def _guest(self, node: str, now: int) -> Subscriber | None:
        """The guest of this name, if it is one and there is room."""
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
        """Whether some consumer counts on it for new tuples."""
        return any(one.overlay for one in self._everyone)

    def _those(self, only: str | None) -> Iterable[Subscriber]:
        if only is None:
            return self._everyone
        return [one for one in self._everyone if one.node == only]

    def due(self, begins: int, end: int, *, settled: bool, only: str | None = None) -> list[Effect]:
        """What of the log (begins, end] is to be sent now.

        It is `settled` if nothing tentative lies beyond its end.
        """
        effects: list[Effect] = []
        for one in self._those(only):
            if not one.log or one.sent < begins:
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
        one.sent = upto
        one.tentative = False
        one.correcting = correcting and not done
        return effect

    def overlay_due(self, overlay: Overlay, only: str | None = None) -> list[Effect]:
        """What of the overlay is to be sent now."""
        effects: list[Effect] = []
        for one in self._those(only):
            if not one.overlay:
                continue
            for number, bucket in overlay.buckets.items():
                if number > one.overlay_sent and number > one.sent:
                    data = TentativeData(self.stream, overlay.epoch, bucket, one.reader)
                    effects.append(Send(one.node, data))
                    one.overlay_sent = number
                    one.tentative = True
        return effects

    def overlay_anew(self, after: int) -> None:
        """A new overlay begins behind this bucket: whoever had the old one needs it again."""
        for one in self._everyone:
            one.overlay_sent = min(one.overlay_sent, after)

    def head_due(self, begins: int, end: int, recent: int, only: str | None = None) -> list[Effect]:
        """The head of the log, as tentative, for those who are still reading older parts."""
        effects: list[Effect] = []
        for one in self._those(only):
            if one.head and max(one.sent, one.overlay_sent) < end:
                first = max(one.sent, one.overlay_sent, begins, end - recent) + 1
                effects += [
                    SendHead(one.node, self.stream, b, one.reader) for b in range(first, end + 1)
                ]
                one.overlay_sent = end
                one.tentative = True
        return effects

    @property
    def acknowledged(self) -> int:
        """The last bucket that every consumer has made durable."""
        return min((one.acknowledged for one in self.all.values()), default=-1)

    def truncation(self, begins: int, end: int, keep: int | None = None) -> list[Effect]:
        """What of the log nobody can ask for any more.

        With `keep`, exactly so many buckets stay, acknowledged or not: enough for a consumer
        that has lost everything to find its state again.
        """
        upto = min(self.acknowledged, end) if keep is None else end - keep
        return [Truncate(self.stream, upto)] if upto > begins else []
