"""The attempts of one proposer: operations on registers, each tried until it is decided."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, Message, Send, SetTimer
from australis.protocols.register.events import Edit, RegisterOptions
from australis.protocols.register.messages import (
    Accepted,
    Ballot,
    Conflict,
    Keepers,
    Operation,
    Outdated,
    Prepare,
    Promise,
    Propose,
    Record,
    Seat,
)

TIMER = "register "
MOST_DOUBLINGS = 4


@dataclass(frozen=True)
class Decided:
    """An operation is decided; a refused edit has changed nothing."""

    record: Record
    refused: str | None = None


@dataclass(frozen=True)
class GivenUp:
    """No majority has answered in time."""

    maybe_applied: bool


Outcome = Decided | GivenUp
Then = Callable[[Outcome, int], list[Effect]]


@dataclass
class Attempt:
    """An operation, and how far its newest ballot has come."""

    register: str
    edit: Edit | None
    operation: Operation
    deadline_us: int
    then: Then
    ballot: Ballot = Ballot()  # noqa: RUF009 (immutable)
    promises: dict[Seat, Promise] = field(default_factory=dict)
    proposal: Record | None = None
    refused: str | None = None
    accepted: set[Seat] = field(default_factory=set)
    maybe_applied: bool = False
    conflicts: int = 0
    pausing: bool = False


class Attempts:
    """The operations that this proposer is trying: one at a time for each register."""

    def __init__(self, name: str, options: RegisterOptions, rng: Random) -> None:
        self.keepers = Keepers()
        self._name = name
        self._options = options
        self._rng = rng
        self._incarnation = 0
        self._counter = 0
        self._operations = 0
        self._queues: dict[str, deque[Attempt]] = {}

    def begin(self, incarnation: int, keepers: Keepers) -> None:
        """Begin an incarnation."""
        self._incarnation = incarnation
        self.adopt(keepers)

    def adopt(self, keepers: Keepers) -> None:
        """Learn of a set of keepers."""
        if keepers.epoch > self.keepers.epoch:
            self.keepers = keepers

    def submit(self, register: str, edit: Edit | None, then: Then, now: int) -> list[Effect]:
        """Try an operation once those before it are over."""
        self._operations += 1
        operation = Operation(self._incarnation, self._operations)
        attempt = Attempt(register, edit, operation, now + self._options.deadline_us, then)
        queue = self._queues.setdefault(register, deque())
        queue.append(attempt)
        return self._prepare(attempt, now) if len(queue) == 1 else []

    def fired(self, timer: str, now: int) -> list[Effect]:
        """Try again: answers are missing, or the pause after a conflict is over."""
        attempt = self._current(timer.removeprefix(TIMER))
        if attempt is None:
            return []
        if now >= attempt.deadline_us:
            return self._finish(attempt, GivenUp(attempt.maybe_applied), now)
        return self._prepare(attempt, now) if attempt.pausing else self._ask(attempt, now)

    # --- answers ----------------------------------------------------------------------------

    def promised(self, promise: Promise, now: int) -> list[Effect]:
        """Count a promise; with enough of them, apply the edit to the newest record."""
        attempt = self._asking(promise.register, promise.ballot)
        if attempt is None or attempt.proposal is not None:
            return []
        attempt.promises[promise.seat] = promise
        if not self.keepers.decided_by(attempt.promises):
            return []
        newest = max(attempt.promises.values(), key=lambda one: one.accepted)
        attempt.proposal = self._apply(attempt, newest.record)
        return self._ask(attempt, now)

    def _apply(self, attempt: Attempt, record: Record) -> Record:
        """The record to propose: the next one, or the same if nothing is to be changed."""
        if attempt.edit is None or record.has(self._name, attempt.operation):
            return record
        try:
            value = attempt.edit(record.value)
        except UserError as error:
            attempt.refused = str(error)
            return record
        attempt.refused = None
        attempt.maybe_applied = True
        return record.changed(value, self._name, attempt.operation)

    def accepted(self, answer: Accepted, now: int) -> list[Effect]:
        """Count an acceptance; with enough of them the operation is decided."""
        attempt = self._asking(answer.register, answer.ballot)
        if attempt is None or attempt.proposal is None:
            return []
        attempt.accepted.add(answer.seat)
        if not self.keepers.decided_by(attempt.accepted):
            return []
        return self._finish(attempt, Decided(attempt.proposal, attempt.refused), now)

    def conflicted(self, answer: Conflict, now: int) -> list[Effect]:
        """Pause for a random time before the next ballot, so that one proposer comes through."""
        self._counter = max(self._counter, answer.promised.counter)
        attempt = self._asking(answer.register, answer.ballot)
        if attempt is None or attempt.pausing:
            return []
        attempt.pausing = True
        attempt.conflicts += 1
        longest = self._options.pause_us << min(attempt.conflicts, MOST_DOUBLINGS)
        return [SetTimer(TIMER + attempt.register, now + self._rng.randrange(longest))]

    def outdated(self, answer: Outdated, now: int) -> list[Effect]:
        """Begin again with the keepers of a later epoch."""
        self.adopt(answer.keepers)
        attempt = self._asking(answer.register, answer.ballot)
        return [] if attempt is None else self._prepare(attempt, now)

    # --- one attempt --------------------------------------------------------------------------

    def _current(self, register: str) -> Attempt | None:
        queue = self._queues.get(register)
        return queue[0] if queue else None

    def _asking(self, register: str, ballot: Ballot) -> Attempt | None:
        """The attempt that waits for answers to this ballot."""
        attempt = self._current(register)
        return attempt if attempt is not None and attempt.ballot == ballot else None

    def _prepare(self, attempt: Attempt, now: int) -> list[Effect]:
        self._counter += 1
        attempt.ballot = Ballot(self._counter, self._incarnation, self._name)
        attempt.promises.clear()
        attempt.accepted.clear()
        attempt.proposal = None
        attempt.pausing = False
        return self._ask(attempt, now)

    def _ask(self, attempt: Attempt, now: int) -> list[Effect]:
        """Ask the keepers that have not answered; a ballot lasts until a higher one is known."""
        asked = attempt.register, attempt.ballot, self.keepers
        if attempt.proposal is None:
            message: Message = Prepare(*asked)
            answered = set(attempt.promises)
        else:
            message, answered = Propose(*asked, attempt.proposal), attempt.accepted
        missing = [seat for seat in self.keepers.everyone if seat not in answered]
        again = SetTimer(TIMER + attempt.register, now + self._options.resend_us)
        return [*(Send(seat.node, message) for seat in missing), again]

    def _finish(self, attempt: Attempt, outcome: Outcome, now: int) -> list[Effect]:
        queue = self._queues[attempt.register]
        queue.popleft()
        effects = attempt.then(outcome, now)
        if queue:
            return [*effects, *self._prepare(queue[0], now)]
        self._queues.pop(attempt.register, None)
        return effects
