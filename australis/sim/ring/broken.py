"""Broken variants of peers, each with one wrong decision, which the checkers must catch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from australis.kernel.machine import Effect, Send, SetTimer
from australis.protocols.ring.events import TellFound
from australis.protocols.ring.messages import Ask, Closer, Put
from australis.protocols.ring.peer import FINGERS, KEEP_ALIVE, MEET, STABILISE, RingMachine
from australis.protocols.ring.questions import ANSWERS
from australis.sim.harness.model import Variant
from australis.sim.ring.schedule import RingScenario


class NamesItself(RingMachine):
    """Whatever it is asked for, it says that it is responsible."""

    def _asked(self, sender: str, message: Ask, now: int) -> list[Effect]:
        return [Send(sender, Closer(message.number, (self.name, *self.table.after), True))]


class TakesAnything(RingMachine):
    """It keeps what it is handed though another peer is responsible."""

    def _put_here(self, sender: str, message: Put, now: int) -> list[Effect]:
        before, self.table.before = self.table.before, None
        effects = super()._put_here(sender, message, now)
        self.table.before = before
        return effects


class KeepsItsNeighbours(RingMachine):
    """It never asks for its present neighbour, once it knows one."""

    def _stabilise(self, now: int) -> list[Effect]:
        if self.table.alone:
            return super()._stabilise(now)
        return [SetTimer(STABILISE, now + self.options.stabilise_us)]


class KeepsItsFingers(RingMachine):
    """It looks its fingers up when it joins, and never again."""

    def _fix_finger(self, now: int) -> list[Effect]:
        return [SetTimer(FINGERS, now + self.options.fingers_us)]


class NeverRenews(RingMachine):
    """It registers once, and lets it be forgotten."""

    def _say_alive(self, now: int) -> list[Effect]:
        return [SetTimer(KEEP_ALIVE, now + self.options.keep_alive_us)]


class NeverMeets(RingMachine):
    """It does not look for peers of a ring from which it was cut off."""

    def _meet(self, now: int) -> list[Effect]:
        return [SetTimer(MEET, now + self.options.meet_us)]


class WaitsForEver(RingMachine):
    """It waits for an answer, however long that takes."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._timers[ANSWERS] = lambda now: []


class AnswersTwice(RingMachine):
    """It tells the same lookup twice."""

    def _find(self, tag: str, name: str, now: int) -> list[Effect]:
        effects = super()._find(tag, name, now)
        return [*effects, *(effect for effect in effects if isinstance(effect, TellFound))]


def _variant(machine: type[RingMachine], caught_by: str, first: int = 0) -> Variant[RingScenario]:
    says = " ".join(str(machine.__doc__).split())
    apply = partial(replace, machine_class=machine)
    seeds = range(first, first + 200)
    return Variant(machine.__name__, says, apply, (caught_by,), seeds)  # type: ignore[arg-type]


VARIANTS = {
    one.name: one
    for one in (
        _variant(NamesItself, "responsible"),
        _variant(TakesAnything, "kept"),
        _variant(KeepsItsNeighbours, "neighbours"),
        _variant(KeepsItsFingers, "fingers"),
        _variant(NeverRenews, "kept"),
        _variant(NeverMeets, "neighbours", 9),
        _variant(WaitsForEver, "answered"),
        _variant(AnswersTwice, "once"),
    )
}
