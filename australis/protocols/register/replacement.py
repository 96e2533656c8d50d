"""The replacement of keepers, step by step; any proposer can finish what another has begun.

1. *Ask* the new keepers for their seats. Where no keeper holds anything yet, they become the first set.
2. *Join*: decide the joint set, in the register `KEEPERS`, by the keepers so far.
3. *Announce* the joint set to majorities of both. From then on nothing is decided without the
   new keepers; the answers name every register that may have been.
4. *Copy*: read each register once, so that a majority of the new keepers has its record.
5. *Leave*: decide the new set alone, and announce it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from australis.kernel.machine import Effect, Send, SetTimer
from australis.protocols.register.attempts import Attempts, Decided, Outcome
from australis.protocols.register.events import (
    Edit,
    RegisterOptions,
    TellDecided,
    TellUnknown,
)
from australis.protocols.register.messages import Install, Installed, Keepers, Record, Seat

KEEPERS = "keepers"
"""The register that holds the set of keepers."""
TIMER = "keepers"


Step = Callable[[Decided, int], list[Effect]]


class Replacement:
    """One replacement of the keepers by those on other nodes."""

    def __init__(
        self, tag: str, nodes: tuple[str, ...], attempts: Attempts, options: RegisterOptions
    ) -> None:
        self._tag = tag
        self._nodes = nodes
        self._attempts = attempts
        self._options = options
        self._until = 0
        self._asked: tuple[str, ...] = ()
        self._announced = Keepers()
        self._seats: dict[str, Seat] = {}
        self._registers: set[str] = set()
        self._to_copy = 0
        self._next: Callable[[int], list[Effect]] | None = None
        """Continues once enough keepers have answered."""
        self._enough: Callable[[], bool] = lambda: False
        self.over = False

    def begin(self, now: int) -> list[Effect]:
        """Ask the new keepers who they are."""
        self._until = now + self._options.deadline_us
        everyone = tuple(seat.node for seat in self._attempts.keepers.everyone)
        asked = tuple(dict.fromkeys(self._nodes + everyone))
        self._enough = lambda: set(self._nodes) <= set(self._seats)
        return self._announce(asked, self._attempts.keepers, self._join, now)

    def _announce(
        self,
        nodes: tuple[str, ...],
        keepers: Keepers,
        then: Callable[[int], list[Effect]],
        now: int,
    ) -> list[Effect]:
        self._asked, self._announced, self._next = nodes, keepers, then
        self._seats.clear()
        self._registers.clear()
        return self._ask(now)

    def _ask(self, now: int) -> list[Effect]:
        again = SetTimer(TIMER, now + self._options.resend_us)
        return [*(Send(node, Install(self._announced)) for node in self._asked), again]

    def fired(self, now: int) -> list[Effect]:
        """Ask again."""
        if self.over or self._next is None:
            return []
        return self._give_up(now) if now >= self._until else self._ask(now)

    def installed(self, sender: str, answer: Installed, now: int) -> list[Effect]:
        """Count the answer of a keeper that knows at least the announced set."""
        self._attempts.adopt(answer.keepers)
        if self.over or self._next is None or answer.keepers.epoch < self._announced.epoch:
            return []
        self._seats[sender] = answer.seat
        self._registers.update(answer.registers)
        if not self._enough():
            return []
        following, self._next = self._next, None
        return following(now)

    def _submit(self, register: str, edit: Edit | None, then: Step, now: int) -> list[Effect]:
        """Have an operation decided, then go on; give up if that takes too long."""

        def following(outcome: Outcome, now: int) -> list[Effect]:
            if self.over:
                return []
            return then(outcome, now) if isinstance(outcome, Decided) else self._give_up(now)

        return self._attempts.submit(register, edit, following, now)

    # --- the steps --------------------------------------------------------------------------

    def _join(self, now: int) -> list[Effect]:
        wanted = tuple(sorted(self._seats[node] for node in self._nodes))
        current = self._attempts.keepers
        if current.epoch == 0:
            first = Keepers(1, wanted)
            self._enough = lambda: first.decided_by(set(self._seats.values()))
            return self._announce(self._nodes, first, lambda now: self._done(NO_RECORD, now), now)

        def edit(value: bytes) -> bytes:
            known = decoded(value, current)
            if known.joining or set(known.seats) == set(wanted):
                return encoded(known)
            return encoded(Keepers(known.epoch + 1, known.seats, wanted))

        return self._submit(KEEPERS, edit, self._joined, now)

    def _joined(self, outcome: Decided, now: int) -> list[Effect]:
        joint = decoded(outcome.record.value, self._attempts.keepers)
        self._attempts.adopt(joint)
        if not joint.joining:
            return self._done(outcome.record, now)
        nodes = tuple(seat.node for seat in joint.everyone)
        self._enough = lambda: joint.decided_by(set(self._seats.values()))
        return self._announce(nodes, joint, self._copy, now)

    def _copy(self, now: int) -> list[Effect]:
        registers = sorted(self._registers | {KEEPERS})
        self._to_copy = len(registers)
        effects: list[Effect] = []
        for register in registers:
            effects += self._submit(register, None, self._copied, now)
        return effects

    def _copied(self, outcome: Decided, now: int) -> list[Effect]:
        self._to_copy -= 1
        return [] if self._to_copy else self._leave(now)

    def _leave(self, now: int) -> list[Effect]:
        joint = self._announced

        def edit(value: bytes) -> bytes:
            known = decoded(value, joint)
            return encoded(Keepers(known.epoch + 1, known.joining) if known == joint else known)

        return self._submit(KEEPERS, edit, self._left, now)

    def _left(self, outcome: Decided, now: int) -> list[Effect]:
        final = decoded(outcome.record.value, self._attempts.keepers)
        self._attempts.adopt(final)
        nodes = tuple(
            dict.fromkeys(seat.node for seat in (*final.everyone, *self._announced.seats))
        )
        self._enough = lambda: final.decided_by(set(self._seats.values()))
        return self._announce(nodes, final, lambda now: self._settled(outcome, now), now)

    def _settled(self, outcome: Decided, now: int) -> list[Effect]:
        """Done, unless this was another proposer's replacement, which had to be finished first."""
        if {seat.node for seat in self._attempts.keepers.seats} != set(self._nodes):
            return self.begin(now)
        return self._done(outcome.record, now)

    def _done(self, record: Record, now: int) -> list[Effect]:
        self._attempts.adopt(self._announced)
        self.over = True
        return [TellDecided(self._tag, record)]

    def _give_up(self, now: int) -> list[Effect]:
        self.over = True
        return [TellUnknown(self._tag)]


NO_RECORD = Record()


def encoded(keepers: Keepers) -> bytes:
    """The value of the register `KEEPERS`."""
    return msgspec.msgpack.encode(keepers)


def decoded(value: bytes, otherwise: Keepers) -> Keepers:
    """The set that a value of the register `KEEPERS` names; it is empty until the first change."""
    return msgspec.msgpack.decode(value, type=Keepers) if value else otherwise
