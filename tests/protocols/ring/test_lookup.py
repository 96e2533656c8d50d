"""Lookups: a peer asks its way around the ring, and what it does about those that are silent."""

from __future__ import annotations

import pytest
from protocols.ring.hand import RING, Peer, name_at, only, sent, told

from australis.kernel.machine import Effect, SetTimer
from australis.protocols.ring.events import LookedUp, Started, TellFound
from australis.protocols.ring.keys import key_of
from australis.protocols.ring.lookup import ASKED
from australis.protocols.ring.messages import Ask, Closer

ME = RING[0]


def asker() -> Peer:
    """The first peer, which knows the three behind it."""
    return Peer.within(ME, successors=3)


def answers(peer: Peer, effects: list[Effect], found: bool, *peers: str) -> list[Effect]:
    """The one that was asked last answers."""
    to, ask = sent(effects)[-1]
    return peer.hears(to, Closer(ask.number, peers, found))


def test_what_is_its_own_needs_no_question() -> None:
    effects = asker().take(LookedUp("t", name_at(ME)))
    assert effects == [TellFound("t", (ME, *RING[1:4]), 0)]


def test_the_next_peer_is_asked_whether_it_is_there_before_it_is_named() -> None:
    peer, name = asker(), name_at(RING[1])
    effects = peer.take(LookedUp("t", name))
    deadline = peer.now + peer.machine.options.answer_us
    assert effects[0].message == Ask(1, key_of(name))  # type: ignore[attr-defined]
    assert effects[1:] == [SetTimer("answers", deadline)]
    assert answers(peer, effects, True, RING[1]) == [TellFound("t", tuple(RING[1:4]), 1)]


def test_it_asks_whoever_is_closest_and_then_whoever_that_one_names() -> None:
    peer, name = asker(), name_at(RING[7])
    effects = peer.take(LookedUp("t", name))
    assert only(effects)[0] == RING[3]
    effects = answers(peer, effects, False, RING[5], RING[4])
    assert only(effects)[0] == RING[5]
    effects = answers(peer, effects, True, RING[7], ME)
    assert only(effects)[0] == RING[7], "is it there?"
    assert answers(peer, effects, True, RING[7], ME) == [TellFound("t", (RING[7], ME), 3)]


def test_who_does_not_answer_is_passed_over() -> None:
    peer, name = asker(), name_at(RING[7])
    effects = peer.take(LookedUp("t", name))
    effects = peer.unanswered()
    assert only(effects)[0] == RING[2]
    effects = answers(peer, effects, False, RING[3], RING[4])
    assert only(effects)[0] == RING[4], "not the silent one again, though another names it"


def test_whoever_sends_back_is_not_followed() -> None:
    peer, name = asker(), name_at(RING[7])
    effects = answers(peer, peer.take(LookedUp("t", name)), False, RING[2], RING[1])
    assert only(effects)[0] == RING[2], "known before, not asked because of the answer"
    effects = answers(peer, effects, False, RING[1])
    assert only(effects)[0] == RING[1]


def test_nobody_is_asked_who_lies_behind_the_one_that_names_it() -> None:
    """Whoever sends back would send in circles."""
    peer = Peer.within(ME, successors=3)
    peer.machine.table.point(159, RING[5])
    effects = peer.take(LookedUp("t", name_at(RING[7])))
    assert only(effects)[0] == RING[5]
    effects = answers(peer, effects, False, RING[4])
    assert only(effects)[0] == RING[3], "what it knew itself, not RING[4]"


def test_the_responsible_peer_has_failed_when_it_is_asked_often_in_vain_then_the_next_is() -> None:
    peer, name = asker(), name_at(RING[1])
    effects = peer.take(LookedUp("t", name))
    for _ in range(ASKED):
        assert only(effects)[0] == RING[1]
        effects = peer.unanswered()
    assert only(effects)[0] == RING[2]
    assert answers(peer, effects, True, RING[2])[-1] == TellFound("t", tuple(RING[2:4]), 1)
    assert peer.machine.table.after == RING[2:4], "and the neighbours are known to be others"


def test_it_begins_anew_when_nobody_is_left_to_ask_and_gives_up_in_the_end() -> None:
    peer = Peer.within(ME, successors=3, tries=2)
    effects = peer.take(LookedUp("t", name_at(RING[7])))
    asked = []
    while sent(effects):
        asked.append(only(effects)[0])
        effects = answers(peer, effects, False)
    assert asked == 2 * [RING[3], RING[2], RING[1]]
    assert effects == [TellFound("t", (), 6)]


def test_when_all_have_failed_it_is_alone_and_responsible() -> None:
    peer = Peer.within(ME, successors=3)
    effects = peer.take(LookedUp("t", name_at(RING[7])))
    asked = []
    while not told(effects, TellFound):
        asked.append(only(effects)[0])
        effects = peer.unanswered()
    assert asked == 2 * [RING[3], RING[2], RING[1]], "one silence may be a lost message"
    assert told(effects, TellFound) == [TellFound("t", (ME,), 6)]


@pytest.mark.parametrize("again", ["late", "twice", "by another", "of an earlier incarnation"])
def test_answers_nobody_waits_for_change_nothing(again: str) -> None:
    peer = asker()
    to, ask = only(peer.take(LookedUp("t", name_at(RING[1]))))
    answer = Closer(ask.number, (RING[1],), True)
    if again == "late":
        for _ in range(ASKED):
            peer.unanswered()
        assert peer.hears(to, answer) == []
    elif again == "twice":
        assert told(peer.hears(to, answer), TellFound)
        assert peer.hears(to, answer) == []
    elif again == "by another":
        assert peer.hears(RING[2], answer) == []
        assert told(peer.hears(to, answer), TellFound)
    else:
        peer.take(Started(2))
        _, fresh = only(peer.take(LookedUp("u", name_at(RING[1]))))
        assert fresh.number > ask.number + (1 << 31)


def test_one_timer_serves_all_questions() -> None:
    peer = asker()
    first = peer.take(LookedUp("t", name_at(RING[1])))
    second = peer.take(LookedUp("u", name_at(RING[1])), 0.2)
    assert len(told(first, SetTimer)) == 1
    assert told(second, SetTimer) == []
    effects = peer.fires("answers", 0.3)
    assert len(sent(effects)) == 1, "the second still has time"
    later = told(effects, SetTimer)[-1]
    assert later == SetTimer("answers", peer.now + 200_000)


def test_it_answers_what_it_knows() -> None:
    peer = asker()
    for name, found, peers in (
        (name_at(ME), True, (ME, *RING[1:4])),
        (name_at(RING[1]), True, tuple(RING[1:4])),
        (name_at(RING[5]), False, (RING[3], RING[2], RING[1])),
    ):
        assert only(peer.hears("x", Ask(9, key_of(name)))) == ("x", Closer(9, peers, found))
