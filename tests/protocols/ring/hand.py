"""A peer of a ring driven by hand, and names in the order of their places."""

from __future__ import annotations

from random import Random
from typing import Any

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Event, Message, MessageReceived, Send, TimerFired
from australis.protocols.ring.events import RingOptions
from australis.protocols.ring.keys import between, key_of
from australis.protocols.ring.peer import RingMachine

RING = sorted((f"p{i}" for i in range(8)), key=key_of)
"""Eight peers, clockwise."""


def name_at(peer: str, among: list[str] | None = None, number: int = 0) -> str:
    """A name for whose place this peer is responsible, if these are the ring."""
    peers = sorted(among or RING, key=key_of)
    before = peers[peers.index(peer) - 1]
    names = (f"name{i}" for i in range(100_000))
    found = (n for n in names if between(key_of(n), key_of(before), key_of(peer)))
    return next(name for i, name in enumerate(found) if i == number)


class Peer:
    """One peer: what is said to it, and what it does about that."""

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self.now = SECOND
        self.machine = RingMachine(name, Random(1), RingOptions(**options))

    @classmethod
    def within(cls, name: str, among: list[str] | None = None, **options: Any) -> Peer:
        """A peer that knows its neighbours in a ring of these, and no fingers."""
        peers = sorted(among or RING, key=key_of)
        at = peers.index(name)
        found = cls(name, **options)
        after = [*peers[at + 1 :], *peers[:at]][: found.machine.options.successors]
        found.machine.assemble(peers[at - 1], after, {}, found.now)
        return found

    def take(self, event: Event, after_s: float = 0.0) -> list[Effect]:
        """Something happens, some seconds later."""
        self.now += int(after_s * SECOND)
        return self.machine.handle(event, self.now)

    def hears(self, sender: str, message: Message, after_s: float = 0.0) -> list[Effect]:
        """A message comes."""
        return self.take(MessageReceived(sender, message), after_s)

    def fires(self, timer: str, after_s: float = 0.0) -> list[Effect]:
        """A timer fires."""
        return self.take(TimerFired(timer), after_s)

    def unanswered(self) -> list[Effect]:
        """All that was asked stays unanswered."""
        return self.fires("answers", self.machine.options.answer_us / SECOND)


def sent(effects: list[Effect]) -> list[tuple[str, Any]]:
    """The messages among effects, with whom they are for."""
    return [(e.to, e.message) for e in effects if isinstance(e, Send)]


def only(effects: list[Effect]) -> tuple[str, Any]:
    """The one message among effects."""
    (found,) = sent(effects)
    return found


def told(effects: list[Effect], kind: type) -> list[Any]:
    """The effects of one kind."""
    return [e for e in effects if isinstance(e, kind)]
