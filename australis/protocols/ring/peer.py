"""A peer of the ring: it joins, looks after its neighbours, answers, and keeps entries."""

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
"""The peer before is taken to have failed when it has not been heard of for so many rounds."""


class RingMachine:
    """One peer."""

    def __init__(self, name: str, rng: Random, options: RingOptions | None = None) -> None:
        self.name = name
        self.options = options or RingOptions()
        self.table = Table(name, self.options.successors)
        self.store = Store()
        self._rng = rng
        self._questions = Questions(self.options.answer_us)
        self._contacts: tuple[str, ...] = ()
        self._mine: dict[str, Entry] = {}
        """What it has registered itself,"""
        self._responsible: dict[str, str] = {}
        """and who keeps it, as far as it knows."""
        self._unkept: set[str] = set()
        """Of that, what nobody would keep: the ring has yet to notice who has failed."""
        self._heard_before_us = 0
        self._finger = 0
        self._copied: tuple[str | None, tuple[str, ...]] = (None, ())
        """Between which neighbours everything was copied last."""
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
        """Take in what happened; what is to be done about it, in order."""
        match event:
            case MessageReceived(sender, message):
                return self._received(sender, message, now)
            case TimerFired(name):
                return self._timers[name](now)
            case Started(life, contacts):
                return self._start(life, contacts, now)
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

    def _start(self, life: int, contacts: tuple[str, ...], now: int) -> list[Effect]:
        self._questions.start(life)
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
        """Find those behind us through somebody; it is tried again as long as we are alone."""
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
        """Be in the middle of a ring that stands already, as simulations begin."""
        self.table.before, self._heard_before_us = before, now
        self.table.follow(after)
        self.table.point_all(fingers)

    def _depart(self, now: int) -> list[Effect]:
        """Leave what we keep to those behind us, and tell the neighbours."""
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
        """Ask the next peer who is beside it, and see who has been silent."""
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
                self.table.failed(closer)  # somebody else says it is there; we have not met it
                return []

            return self._ask_neighbours(closer, unmet, at)

        return self._questions.ask(peer, Neighbours, answered, silent, now)

    def _preceded(self, peer: str, now: int) -> list[Effect]:
        """Somebody takes us for the next one behind it."""
        was = self.table.before
        if self.table.alone:
            self.table.follow([peer])
        if peer == was:
            self._heard_before_us = now
            return []
        if not self.table.preceded(peer):
            return []
        self._heard_before_us = now
        # What lies up to it is its own from now on.
        place = key_of(peer)
        after = self.table.key if was is None else key_of(was)
        entries = self.store.where(lambda key: between(key, after, place))
        return [Send(peer, Copies(entries))] if entries else []

    def _copy(self) -> list[Effect]:
        """Let those behind us have copies of all that is ours, if one of us is new there."""
        keepers = tuple(self.table.after[: self.options.copies])
        before, known = self._copied
        if (self.table.before, keepers) == (before, known):
            return []
        fresh = keepers if before != self.table.before else [k for k in keepers if k not in known]
        self._copied = self.table.before, keepers
        entries = self.store.where(self.table.responsible) if self.table.before else ()
        return [Send(peer, Copies(entries)) for peer in fresh] if entries else []

    def _meet(self, now: int) -> list[Effect]:
        """Look ourselves up through somebody we knew at first: two rings become one again."""
        effects: list[Effect] = [SetTimer(MEET, now + self.options.meet_us)]
        if not self._contacts or self.table.alone:
            return effects
        contact = self._rng.choice(self._contacts)

        def found(message: Closer, at: int) -> list[Effect]:
            for peer in message.peers:
                self.table.meet(peer)
            return []

        ask = self._questions.ask(
            contact, lambda number: Ask(number, self.table.key), found, lambda at: [], now
        )
        return [*effects, *ask]

    # --- fingers ---------------------------------------------------------------------------

    def _fix_finger(self, now: int) -> list[Effect]:
        """Look the next finger up, in turn."""
        effects: list[Effect] = [SetTimer(FINGERS, now + self.options.fingers_us)]
        missing = self.table.missing_fingers()
        if not missing:
            return effects
        self._finger += 1
        return [*effects, *self._point(missing[self._finger % len(missing)], now)]

    def _fill_fingers(self, now: int) -> list[Effect]:
        """Look all fingers up, once."""
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
        """Let something be found under a name; without a value not any longer."""
        known = self._mine.get(under)
        version = max(now, known.version + 1 if known is not None else 0)
        entry = Entry(under, self.name, value, version, now + self.options.lasts_us)
        self._mine[under] = entry
        return self._put(under, self.options.tries, now)

    def refresh(self, under: str, value: bytes) -> None:
        """What the next keep-alive will say of something registered; nothing is sent now."""
        known = self._mine.get(under)
        if known is not None:
            self._mine[under] = msgspec.structs.replace(known, value=value)

    def _say_alive(self, now: int) -> list[Effect]:
        """Register everything again."""
        effects: list[Effect] = [SetTimer(KEEP_ALIVE, now + self.options.keep_alive_us)]
        for under, entry in list(self._mine.items()):
            if entry.value:
                effects += self.register(under, entry.value, now)
            elif entry.until_us <= now:
                del self._mine[under]
        return effects

    def _put(self, under: str, tries: int, now: int) -> list[Effect]:
        """Hand an entry to whoever is responsible; the one it knows, or one it looks up."""
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
        """Nobody will have it now: try again when neighbours have looked after each other."""
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
        """Names this peer is responsible for under which something is kept."""
        names = self.store.names(now)
        return tuple(sorted(n for n in names if self.table.responsible(key_of(n))))
