"""Broken variants of keepers and proposers, each with one wrong decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from australis.kernel.machine import Effect, Send
from australis.protocols.register.attempts import Attempt, Attempts, Decided, GivenUp, Outcome
from australis.protocols.register.events import Kept, PersistKept
from australis.protocols.register.keeper import KeeperMachine
from australis.protocols.register.messages import (
    Accepted,
    Keepers,
    Prepare,
    Promise,
    Propose,
    Record,
)
from australis.protocols.register.proposer import ProposerMachine
from australis.protocols.register.replacement import Replacement
from australis.sim.harness.model import Variant
from australis.sim.register.schedule import RegisterScenario


class AcceptsAnything(KeeperMachine):
    """A keeper accepts a record though it has promised a higher ballot."""

    def _refuse(self, sender: str, message: Prepare | Propose) -> list[Effect] | None:
        kept = self.kept.pop(message.register, None)
        refused = super()._refuse(sender, message)
        if kept is not None:
            self.kept[message.register] = kept
        return refused


class KeepsVoting(KeeperMachine):
    """A keeper takes part in decisions of sets that were replaced."""

    def _refuse(self, sender: str, message: Prepare | Propose) -> list[Effect] | None:
        known, self.keepers = self.keepers, message.keepers
        refused = super()._refuse(sender, message)
        self.keepers = known
        return refused


class TellsNoRecord(KeeperMachine):
    """A keeper promises without telling the record that it has accepted."""

    def _prepare(self, sender: str, message: Prepare) -> list[Effect]:
        effects = super()._prepare(sender, message)
        match effects[-1]:
            case Send(message=Promise() as promise):
                blank = Promise(
                    promise.seat, promise.register, promise.ballot, Kept().accepted, Record()
                )
                return [*effects[:-1], Send(sender, blank)]
        return effects


class PromisesForNow(KeeperMachine):
    """A keeper writes nothing down when it promises."""

    def _prepare(self, sender: str, message: Prepare) -> list[Effect]:
        before = self.kept.get(message.register)
        effects = super()._prepare(sender, message)
        if before is not None:
            self.kept[message.register] = before
        return [effect for effect in effects if not isinstance(effect, PersistKept)]


class _Hasty(Keepers, frozen=True, array_like=True):
    def decided_by(self, seats: Any) -> bool:
        return bool(seats)


class MinorityDecides(Attempts):
    """One keeper's answer is enough."""

    def adopt(self, keepers: Keepers) -> None:
        super().adopt(keepers)
        k = self.keepers
        self.keepers = _Hasty(k.epoch, k.seats, k.joining)


class AppliesAgain(Attempts):
    """A proposer that tries again does not look whether its edit was applied."""

    def _apply(self, attempt: Attempt, record: Record) -> Record:
        return super()._apply(attempt, replace_newest(record))


def replace_newest(record: Record) -> Record:
    """The record without the operations that it names."""
    return Record(record.version, record.value)


class TakesAnyRecord(Attempts):
    """A proposer builds on the record of whichever keeper answers first."""

    def promised(self, promise: Promise, now: int) -> list[Effect]:
        attempt = self._asking(promise.register, promise.ballot)
        if attempt is not None and attempt.promises:
            first = next(iter(attempt.promises.values()))
            promise = Promise(
                promise.seat, promise.register, promise.ballot, first.accepted, first.record
            )
        return super().promised(promise, now)


class ReadsAtOnce(Attempts):
    """A read ends with the promises, before a majority has accepted what it saw."""

    def promised(self, promise: Promise, now: int) -> list[Effect]:
        effects = super().promised(promise, now)
        attempt = self._asking(promise.register, promise.ballot)
        if attempt is not None and attempt.edit is None and attempt.proposal is not None:
            return self._finish(attempt, Decided(attempt.proposal), now)
        return effects


class CallsUnknownRefused(Attempts):
    """Without answers it says that nothing was applied, which it cannot know."""

    def _finish(self, attempt: Attempt, outcome: Outcome, now: int) -> list[Effect]:
        if isinstance(outcome, GivenUp):
            outcome = GivenUp(maybe_applied=False)
        return super()._finish(attempt, outcome, now)


class CountsAnyAnswer(Attempts):
    """A proposer counts an acceptance of an earlier ballot."""

    def accepted(self, answer: Accepted, now: int) -> list[Effect]:
        attempt = self._current(answer.register)
        if attempt is not None and answer.ballot.proposer == self._name:
            answer = Accepted(answer.seat, answer.register, attempt.ballot)
        return super().accepted(answer, now)


class NeverTriesAgain(Attempts):
    """After a conflict it waits for another proposer to come through."""

    def fired(self, timer: str, now: int) -> list[Effect]:
        attempt = self._current(timer.removeprefix("register "))
        if attempt is not None and attempt.conflicts and now < attempt.deadline_us:
            return []
        return super().fired(timer, now)


class CopiesNothing(Replacement):
    """The new keepers take over before they have the registers' records."""

    def _copy(self, now: int) -> list[Effect]:
        return self._leave(now)


class SkipsTheJointSet(Replacement):
    """The new keepers decide alone from the beginning."""

    def _joined(self, outcome: Decided, now: int) -> list[Effect]:
        effects = super()._joined(outcome, now)
        keepers = self._attempts.keepers
        if keepers.joining:
            self._attempts.keepers = Keepers(keepers.epoch, keepers.joining)
        return effects


def _keeper(machine: type[KeeperMachine]) -> Callable[[RegisterScenario], RegisterScenario]:
    return partial(replace, keeper_class=machine)  # type: ignore[return-value]


def _proposer(
    attempts: type[Attempts] = Attempts, replacement: type[Replacement] = Replacement
) -> Callable[[RegisterScenario], RegisterScenario]:
    attributes = {"attempts_class": attempts, "replacement_class": replacement}
    machine = type("BrokenProposer", (ProposerMachine,), attributes)
    return partial(replace, proposer_class=machine)  # type: ignore[return-value]


def _variant(
    broken: type, apply: Callable[[RegisterScenario], RegisterScenario], *caught_by: str
) -> Variant[RegisterScenario]:
    says = " ".join(str(broken.__doc__).split())
    return Variant(broken.__name__, says, apply, caught_by, range(300))


VARIANTS = {
    one.name: one
    for one in (
        _variant(AcceptsAnything, _keeper(AcceptsAnything), "history"),
        _variant(KeepsVoting, _keeper(KeepsVoting), "history"),
        _variant(TellsNoRecord, _keeper(TellsNoRecord), "history"),
        _variant(PromisesForNow, _keeper(PromisesForNow), "history"),
        _variant(MinorityDecides, _proposer(MinorityDecides), "history"),
        _variant(AppliesAgain, _proposer(AppliesAgain), "once"),
        _variant(TakesAnyRecord, _proposer(TakesAnyRecord), "history"),
        _variant(ReadsAtOnce, _proposer(ReadsAtOnce), "order"),
        _variant(CallsUnknownRefused, _proposer(CallsUnknownRefused), "told"),
        _variant(CountsAnyAnswer, _proposer(CountsAnyAnswer), "history"),
        _variant(NeverTriesAgain, _proposer(NeverTriesAgain), "available"),
        _variant(CopiesNothing, _proposer(replacement=CopiesNothing), "history"),
        _variant(SkipsTheJointSet, _proposer(replacement=SkipsTheJointSet), "history"),
        Variant(
            "ForgetsEverything",
            "A keeper comes back from a crash without what it has promised and accepted.",
            partial(replace, stores_promises=False),  # type: ignore[arg-type]
            ("history",),
            range(300),
        ),
        Variant(
            "VotesWithANewDisk",
            "A keeper that has lost its disk votes as if it had never promised anything.",
            partial(replace, renames_wiped=False),  # type: ignore[arg-type]
            ("history",),
            range(600),
        ),
    )
}
