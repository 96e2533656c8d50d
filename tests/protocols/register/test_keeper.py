"""Keepers: what they promise, accept, refuse and remember."""

from __future__ import annotations

from australis.kernel.machine import Effect, Message, MessageReceived, Send
from australis.protocols.register.events import Kept, PersistKeepers, PersistKept
from australis.protocols.register.keeper import KeeperMachine
from australis.protocols.register.messages import (
    Accepted,
    Ballot,
    Conflict,
    Install,
    Installed,
    Keepers,
    Outdated,
    Prepare,
    Promise,
    Propose,
    Record,
    Seat,
)

SEATS = tuple(Seat(node, "disk") for node in ("a", "b", "c"))
FIRST = Keepers(1, SEATS)
LOW, HIGH = Ballot(1, 1, "p"), Ballot(2, 1, "q")
RECORD = Record(1, b"x")


def keeper(keepers: Keepers = FIRST, kept: dict[str, Kept] | None = None) -> KeeperMachine:
    return KeeperMachine(SEATS[0], keepers, kept or {})


def ask(one: KeeperMachine, message: Message) -> list[Effect]:
    return list(one.handle(MessageReceived("p", message), 0))


def answer(one: KeeperMachine, message: Message) -> Message | None:
    sent = [effect.message for effect in ask(one, message) if isinstance(effect, Send)]
    return sent[0] if sent else None


def test_a_promise_is_stored_before_it_is_given() -> None:
    effects = ask(keeper(), Prepare("r", LOW, FIRST))
    assert effects == [
        PersistKept("r", Kept(LOW)),
        Send("p", Promise(SEATS[0], "r", LOW, Ballot(), Record())),
    ]


def test_a_lower_ballot_is_refused_with_the_one_that_was_promised() -> None:
    one = keeper(kept={"r": Kept(HIGH)})
    assert answer(one, Prepare("r", LOW, FIRST)) == Conflict("r", LOW, HIGH)
    assert answer(one, Propose("r", LOW, FIRST, RECORD)) == Conflict("r", LOW, HIGH)
    assert one.kept["r"] == Kept(HIGH)


def test_the_same_ballot_is_answered_again() -> None:
    one = keeper()
    first = answer(one, Prepare("r", LOW, FIRST))
    assert answer(one, Prepare("r", LOW, FIRST)) == first
    assert ask(one, Prepare("r", LOW, FIRST))[0] == Send("p", first), "stored once"  # type: ignore[arg-type]


def test_what_was_accepted_is_told_to_higher_ballots() -> None:
    one = keeper()
    assert answer(one, Propose("r", LOW, FIRST, RECORD)) == Accepted(SEATS[0], "r", LOW)
    again = KeeperMachine(SEATS[0], FIRST, one.kept)
    assert answer(again, Prepare("r", HIGH, FIRST)) == Promise(SEATS[0], "r", HIGH, LOW, RECORD)


def test_a_keeper_has_a_vote_with_the_disk_that_the_set_names() -> None:
    blank = KeeperMachine(Seat("a", "another disk"), Keepers(), {})
    assert ask(blank, Prepare("r", LOW, FIRST)) == []
    assert ask(blank, Propose("r", LOW, FIRST, RECORD)) == []


def test_an_older_set_is_refused_and_a_newer_one_adopted() -> None:
    later = Keepers(2, SEATS, (*SEATS[:2], Seat("d", "disk")))
    one = keeper()
    assert ask(one, Prepare("r", LOW, later))[0] == PersistKeepers(later)
    assert answer(one, Prepare("r", HIGH, FIRST)) == Outdated("r", HIGH, later)
    assert answer(one, Install(FIRST)) == Installed(SEATS[0], later, ("r",))


def test_a_joint_set_decides_with_majorities_of_both() -> None:
    d, e = Seat("d", "disk"), Seat("e", "disk")
    joint = Keepers(2, SEATS, (SEATS[0], d, e))
    assert not joint.decided_by(SEATS)
    assert not joint.decided_by({SEATS[0], d, e})
    assert joint.decided_by({SEATS[0], SEATS[1], d})
    assert FIRST.decided_by(SEATS[:2])
    assert not FIRST.decided_by({SEATS[0], d, e})
