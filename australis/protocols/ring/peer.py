"""A peer of the ring: it joins, checks its neighbours, answers questions and keeps entries."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from australis.kernel.machine import Effect, Event, MessageReceived, Send, SetTimer, TimerFired
from australis.protocols.ring.events import (
    Departed,
    Fetched,
    LookedUp,
    Registered,
    RingOptions,
    Started,
    TellFound,
    TellKept,
    Withdrawn,
)
from australis.protocols.ring.keys import between, key_of
from australis.protocols.ring.lookup import Done, Lookup
from australis.protocols.ring.messages import (
    Ask,
    Beside,
    Closer,
    Copies,
    Entry,
    Get,
    Got,
    Kept,
    Leave,
    Neighbours,
    Put,
)
from australis.protocols.ring.questions import ANSWERS, Questions, Silent
from australis.protocols.ring.store import Store
from australis.protocols.ring.table import Table

STABILISE = "stabilise"
FINGERS = "fingers"
MEET = "meet"
KEEP_ALIVE = "keep-alive"
UNKEPT = "unkept"
SILENT_TICKS = 3
"""The predecessor is taken to have failed after this number of stabilisation rounds in silence."""


class RingMachine:
    """The state machine of one peer of the ring."""

    def __init__(self, name: str, rng: Random, options: RingOptions | None = None) -> None:
        self.name = name
        self.options = options or RingOptions()
        self.table = Table(name, self.options.successors)
        self.store = Store()
        self._rng = rng
        self._questions = Questions(self.options.answer_us)
        self._contacts: tuple[str, ...] = ()
        self._mine: dict[str, Entry] = {}
        """Entries this peer has registered, by name."""
        self._responsible: dict[str, str] = {}
        """The peer that keeps each entry of this one, as far as it is known."""
        self._unkept: set[str] = set()
        """Names whose entries no peer has accepted, as the ring has yet to detect a failure."""
        self._heard_before_us = 0
        self._finger = 0
        self._copied: tuple[str | None, tuple[str, ...]] = (None, ())
        """The predecessor and the copy holders at the time of the last full copy."""
        self._messages: dict[type, Callable[[str, Any, int], list[Effect]]] = {
            Ask: self._asked,
            Neighbours: self._neighbour,
            Put: self._put_here,
            Get: self._get_here,
            Copies: self._copied_here,
            Leave: self._left,
        }
        self._timers = {
            ANSWERS: self._questions.fired,
            STABILISE: self._stabilise,
            FINGERS: self._fix_finger,
            MEET: self._meet,
            KEEP_ALIVE: self._say_alive,
            UNKEPT: self._put_unkept,
        }

    # --- events --------------------------------------------------------------------------

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event and return its effects in order."""
        match event:
            case MessageReceived(sender, message):
                return self._received(sender, message, now)
            case TimerFired(name):
                return self._timers[name](now)
            case Started(incarnation, contacts):
                return self._start(incarnation, contacts, now)
            case LookedUp(tag, name):
                return self._find(tag, name, now)
            case Registered(under, value):
                return self.register(under, value, now)
            case Withdrawn(under):
                return self.register(under, b"", now)
            case Fetched(tag, under):
                return self._fetch(tag, under, self.options.tries, now)
            case Departed():
                return self._depart(now)
        raise AssertionError(f"unknown event {event}")

    def _received(self, sender: str, message: Any, now: int) -> list[Effect]:
        self.table.heard(sender)
        answer = self._messages.get(type(message))
        if answer is None:
            return self._questions.answer(sender, message.number, message, now)
        return answer(sender, message, now)

    def _asked(self, sender: str, message: Ask, now: int) -> list[Effect]:
        found, peers = self.table.closer(message.key)
        return [Send(sender, Closer(message.number, peers, found))]

    def _neighbour(self, sender: str, message: Neighbours, now: int) -> list[Effect]:
        effects: list[Effect] = self._preceded(sender, now)
        beside = Beside(message.number, self.table.before, tuple(self.table.after))
        return [*effects, Send(sender, beside)]

    def _get_here(self, sender: str, message: Get, now: int) -> list[Effect]:
        responsible = self.table.responsible(key_of(message.under))
        entries = self.store.under(message.under, now)
        return [Send(sender, Got(message.number, entries, responsible))]

    def _copied_here(self, sender: str, message: Copies, now: int) -> list[Effect]:
        self.store.keep(message.entries)
        return []

    # --- coming and going ------------------------------------------------------------------

    def _start(self, incarnation: int, contacts: tuple[str, ...], now: int) -> list[Effect]:
        self._questions.start(incarnation)
        self._contacts = tuple(c for c in contacts if c != self.name)
        effects: list[Effect] = [
            SetTimer(timer, now + self._rng.randrange(1, every))
            for timer, every in (
                (FINGERS, self.options.fingers_us),
                (MEET, self.options.meet_us),
                (KEEP_ALIVE, self.options.keep_alive_us),
            )
        ]
        return [*effects, *self._join(now)]

    def _join(self, now: int) -> list[Effect]:
        """Find the successors through the contacts; repeated while this peer is alone."""
        effects: list[Effect] = [SetTimer(STABILISE, now + self.options.stabilise_us)]
        if not self._contacts or not self.table.alone:
            return effects

        def joined(peers: tuple[str, ...], hops: int, at: int) -> list[Effect]:
            others = [p for p in peers if p != self.name]
            if not others:
                return []
            self.table.follow(others)
            return [*self._stabilise(at), *self._fill_fingers(at)]

        contacts = self._rng.sample(self._contacts, len(self._contacts))
        lookup = Lookup(self.table, self._questions, self.table.key, joined, self.options.tries)
        return [*effects, *lookup.start(now, tuple(contacts))]

    def assemble(self, before: str, after: list[str], fingers: dict[int, str], now: int) -> None:
        """Take a place in a complete ring, as simulations do at their start."""
        self.table.before, self._heard_before_us = before, now
        self.table.follow(after)
        self.table.point_all(fingers)

    def _depart(self, now: int) -> list[Effect]:
        """Copy this peer's entries to its successors and tell its neighbours that it leaves."""
        table = self.table
        leave = Leave(table.before, tuple(table.after))
        neighbours = {table.before, *table.after[:1]} - {None}
        entries = self.store.where(table.responsible)
        effects: list[Effect] = [
            Send(peer, Copies(entries)) for peer in table.after[: self.options.copies + 1]
        ]
        return [*effects, *(Send(str(peer), leave) for peer in sorted(map(str, neighbours)))]

    def _left(self, sender: str, message: Leave, now: int) -> list[Effect]:
        before, after = message.before, message.after
        was_before = self.table.before == sender
        was_next = self.table.after[:1] == [sender]
        self.table.failed(sender)
        if was_before and before != self.name:
            self.table.before = before
        if was_next:
            self.table.follow(after)
        return []

    # --- neighbours ------------------------------------------------------------------------

    def _stabilise(self, now: int) -> list[Effect]:
        """Ask the successor for its neighbours, and check which peers have been silent."""
        self.store.expire(now)
        silent_us = SILENT_TICKS * self.options.stabilise_us + self.options.answer_us
        if self.table.before is not None and now - self._heard_before_us > silent_us:
            self.table.before = None
        if self.table.alone:
            return self._join(now)
        peer = self.table.after[0]

        def silent(at: int) -> list[Effect]:
            self.table.silent(peer)
            return self._stabilise(at) if not self.table.alone else []

        return [
            SetTimer(STABILISE, now + self.options.stabilise_us),
            *self._ask_neighbours(peer, silent, now),
            *self._copy(),
        ]

    def _ask_neighbours(self, peer: str, silent: Silent, now: int) -> list[Effect]:
        def answered(message: Beside, at: int) -> list[Effect]:
            if self.table.after[:1] != [peer]:
                return []
            self.table.follow([peer, *message.after])
            closer = message.before
            if closer is None or not self.table.meet(closer):
                return []

            def unmet(then: int) -> list[Effect]:
                self.table.failed(closer)  # another peer knows it, but it has not answered this one
                return []

            return self._ask_neighbours(closer, unmet, at)

        return self._questions.ask(peer, Neighbours, answered, silent, now)

    def _preceded(self, peer: str, now: int) -> list[Effect]:
        """Handle a peer that takes this one for its successor."""
        was = self.table.before
        if self.table.alone:
            self.table.follow([peer])
        if peer == was:
            self._heard_before_us = now
            return []
        if not self.table.preceded(peer):
            return []
        self._heard_before_us = now
        # Places up to the new predecessor are its own from now on.
        place = key_of(peer)
        after = self.table.key if was is None else key_of(was)
        entries = self.store.where(lambda key: between(key, after, place))
        return [Send(peer, Copies(entries))] if entries else []

    def _copy(self) -> list[Effect]:
        """Copy all entries of this peer to its copy holders after a change of neighbours."""
        keepers = tuple(self.table.after[: self.options.copies])
        before, known = self._copied
        if (self.table.before, keepers) == (before, known):
            return []
        fresh = keepers if before != self.table.before else [k for k in keepers if k not in known]
        self._copied = self.table.before, keepers
        entries = self.store.where(self.table.responsible) if self.table.before else ()
        return [Send(peer, Copies(entries)) for peer in fresh] if entries else []

    def _meet(self, now: int) -> list[Effect]:
        """Look this peer up through a contact, so that two separated rings become one again."""
        effects: list[Effect] = [SetTimer(MEET, now + self.options.meet_us)]
        if not self._contacts or self.table.alone:
            return effects

        def found(peers: tuple[str, ...], hops: int, at: int) -> list[Effect]:
            for peer in peers:
                self.table.meet(peer)
            return []

        contact = self._rng.choice(self._contacts)
        lookup = Lookup(self.table, self._questions, self.table.key, found, self.options.tries)
        return [*effects, *lookup.start(now, (contact,))]

    # --- fingers ---------------------------------------------------------------------------

    def _fix_finger(self, now: int) -> list[Effect]:
        """Look up the next finger, one after the other."""
        effects: list[Effect] = [SetTimer(FINGERS, now + self.options.fingers_us)]
        missing = self.table.missing_fingers()
        if not missing:
            return effects
        self._finger += 1
        return [*effects, *self._point(missing[self._finger % len(missing)], now)]

    def _fill_fingers(self, now: int) -> list[Effect]:
        """Look up all fingers once."""
        effects: list[Effect] = []
        for exponent in self.table.missing_fingers():
            effects += self._point(exponent, now)
        return effects

    def _point(self, exponent: int, now: int) -> list[Effect]:
        def found(peers: tuple[str, ...], hops: int, at: int) -> list[Effect]:
            if peers:
                self.table.point(exponent, peers[0])
            return []

        return self._look_up(self.table.finger_place(exponent), found, now)

    def _look_up(self, key: bytes, done: Done, now: int, sure: bool = False) -> list[Effect]:
        tries = self.options.tries
        return Lookup(self.table, self._questions, key, done, tries, sure).start(now)

    def _find(self, tag: str, name: str, now: int) -> list[Effect]:
        def found(peers: tuple[str, ...], hops: int, at: int) -> list[Effect]:
            return [TellFound(tag, peers, hops)]

        return self._look_up(key_of(name), found, now, sure=True)

    # --- entries -----------------------------------------------------------------------------

    def register(self, under: str, value: bytes, now: int) -> list[Effect]:
        """Register a value under a name; an empty value withdraws it."""
        known = self._mine.get(under)
        version = max(now, known.version + 1 if known is not None else 0)
        entry = Entry(under, self.name, value, version, now + self.options.lasts_us)
        self._mine[under] = entry
        return self._put(under, self.options.tries, now)

    def refresh(self, under: str, value: bytes) -> None:
        """Set the value that the next keep-alive sends, without sending anything now."""
        known = self._mine.get(under)
        if known is not None:
            self._mine[under] = msgspec.structs.replace(known, value=value)

    def _say_alive(self, now: int) -> list[Effect]:
        """Register all entries again."""
        effects: list[Effect] = [SetTimer(KEEP_ALIVE, now + self.options.keep_alive_us)]
        for under, entry in list(self._mine.items()):
            if entry.value:
                effects += self.register(under, entry.value, now)
            elif entry.until_us <= now:
                del self._mine[under]
        return effects

    def _put(self, under: str, tries: int, now: int) -> list[Effect]:
        """Send an entry to the peer responsible for it: the known one, or one that is looked up."""
        peer = self._responsible.get(under)
        if peer is not None:
            return self._put_at(peer, under, tries, now)

        def found(peers: tuple[str, ...], hops: int, at: int) -> list[Effect]:
            if not peers:
                return self._put_later(under, at)
            self._responsible[under] = peers[0]
            return self._put_at(peers[0], under, tries, at)

        return self._look_up(key_of(under), found, now)

    def _put_at(self, peer: str, under: str, tries: int, now: int) -> list[Effect]:
        if peer == self.name:
            if self.table.responsible(key_of(under)):
                return self._keep((self._mine[under],))
            return self._put_again(under, tries, now)

        def kept(message: Kept, at: int) -> list[Effect]:
            return [] if message.responsible else self._put_again(under, tries, at)

        return self._questions.ask(
            peer,
            lambda number: Put(number, (self._mine[under],)),
            kept,
            lambda at: self._put_again(under, tries, at),
            now,
        )

    def _put_again(self, under: str, tries: int, now: int) -> list[Effect]:
        self._responsible.pop(under, None)
        if under not in self._mine:
            return []
        return self._put(under, tries - 1, now) if tries > 1 else self._put_later(under, now)

    def _put_later(self, under: str, now: int) -> list[Effect]:
        """Try again after the next stabilisation, since no peer accepts the entry now."""
        waits = bool(self._unkept)
        self._unkept.add(under)
        return [] if waits else [SetTimer(UNKEPT, now + self.options.stabilise_us)]

    def _put_unkept(self, now: int) -> list[Effect]:
        unkept, self._unkept = sorted(self._unkept), set()
        effects: list[Effect] = []
        for under in unkept:
            if under in self._mine:
                effects += self._put(under, self.options.tries, now)
        return effects

    def _put_here(self, sender: str, message: Put, now: int) -> list[Effect]:
        entries = message.entries
        responsible = all(self.table.responsible(key_of(entry.under)) for entry in entries)
        effects = self._keep(entries) if responsible else []
        return [*effects, Send(sender, Kept(message.number, responsible))]

    def _keep(self, entries: tuple[Entry, ...]) -> list[Effect]:
        self.store.keep(entries)
        keepers = self.table.after[: self.options.copies]
        return [Send(peer, Copies(entries)) for peer in keepers]

    def _fetch(self, tag: str, under: str, tries: int, now: int) -> list[Effect]:
        def found(peers: tuple[str, ...], hops: int, at: int) -> list[Effect]:
            if not peers:
                return [TellKept(tag, None)]
            peer = peers[0]
            if peer == self.name:
                return [TellKept(tag, self.store.under(under, at))]

            def got(message: Got, then: int) -> list[Effect]:
                if message.responsible or tries <= 1:
                    return [TellKept(tag, message.entries)]
                return self._fetch(tag, under, tries - 1, then)

            def silent(then: int) -> list[Effect]:
                self.table.silent(peer)
                if tries <= 1:
                    return [TellKept(tag, None)]
                return self._fetch(tag, under, tries - 1, then)

            return self._questions.ask(peer, lambda number: Get(number, under), got, silent, at)

        return self._look_up(key_of(under), found, now, sure=True)

    def held(self, now: int) -> tuple[str, ...]:
        """Names with entries for which this peer is responsible."""
        names = self.store.names(now)
        return tuple(sorted(n for n in names if self.table.responsible(key_of(n))))
