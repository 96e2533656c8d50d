"""Coming, going, and looking after neighbours."""

from __future__ import annotations

import pytest
from protocols.ring.hand import RING, Peer, name_at, only, sent, told

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.kernel.machine import Send, SetTimer
from australis.protocols.ring.events import Departed, Registered, RingOptions, Started
from australis.protocols.ring.keys import key_of
from australis.protocols.ring.messages import (
    Ask,
    Beside,
    Closer,
    Copies,
    Entry,
    Leave,
    Neighbours,
    Put,
)

ME = RING[0]


def entry(under: str, owner: str = "o", version: int = 1) -> Entry:
    return Entry(under, owner, b"v", version, 1_000 * SECOND)


# --- joining ---------------------------------------------------------------------------------


def test_the_first_peer_waits_for_others() -> None:
    peer = Peer(ME)
    effects = peer.take(Started(1))
    assert sent(effects) == []
    options = peer.machine.options
    assert {e.name: e.at - peer.now for e in told(effects, SetTimer)}.keys() == {
        "fingers", "meet", "keep-alive", "stabilise",
    }  # fmt: skip
    for timer in told(effects, SetTimer):
        assert peer.now < timer.at <= peer.now + max(options.keep_alive_us, options.meet_us)


def test_a_peer_joins_by_looking_its_own_place_up_through_a_contact() -> None:
    peer = Peer(ME)
    to, ask = only(peer.take(Started(1, (ME, RING[4]))))
    assert (to, ask.key) == (RING[4], key_of(ME)), "not through itself"
    effects = peer.hears(RING[4], Closer(ask.number, tuple(RING[1:4]), True))
    assert peer.machine.table.after == RING[1:4]
    messages = sent(effects)
    assert (messages[0][0], type(messages[0][1])) == (RING[1], Neighbours)
    fingers = {message.key for _, message in messages[1:]}
    missing = peer.machine.table.missing_fingers()
    assert fingers == {peer.machine.table.finger_place(e) for e in missing}


def test_it_tries_to_join_again_as_long_as_it_is_alone() -> None:
    peer = Peer(ME, tries=1)
    assert only(peer.take(Started(1, (RING[4],))))[0] == RING[4]
    assert sent(peer.unanswered()) == []
    assert only(peer.fires("stabilise", 1))[0] == RING[4]


def test_whoever_comes_before_it_is_taken_in_and_gets_what_is_its_own_now() -> None:
    """Synergy, section 2: arrivals and departures are handled gracefully by the DHT."""
    others = [p for p in RING if p != RING[2]]
    peer = Peer.within(RING[3], others)
    theirs, ours = name_at(RING[2]), name_at(RING[3])
    for name in (theirs, ours):
        peer.hears("o", Put(1, (entry(name),)))
    effects = peer.hears(RING[2], Neighbours(7))
    assert effects == [
        Send(RING[2], Copies((entry(theirs),))),
        Send(RING[2], Beside(7, RING[2], (*RING[4:], *RING[:2]))),
    ]
    assert peer.machine.held(peer.now) == (ours,)


def test_whoever_is_further_away_is_told_who_is_nearer() -> None:
    peer = Peer.within(RING[3])
    assert peer.hears(RING[1], Neighbours(7)) == [
        Send(RING[1], Beside(7, RING[2], (*RING[4:], *RING[:3])))
    ]


def test_two_peers_alone_know_each_other() -> None:
    peer = Peer(ME)
    peer.take(Started(1))
    assert only(peer.hears(RING[1], Neighbours(3))) == (RING[1], Beside(3, RING[1], (RING[1],)))


# --- stabilising -----------------------------------------------------------------------------


def test_the_next_peer_is_asked_who_is_beside_it() -> None:
    peer = Peer.within(ME, successors=3)
    effects = peer.fires("stabilise")
    to, asked = only(effects)
    assert (to, type(asked)) == (RING[1], Neighbours)
    assert SetTimer("stabilise", peer.now + SECOND) in effects
    assert peer.hears(RING[1], Beside(asked.number, ME, (RING[2], RING[3], RING[4]))) == []
    assert peer.machine.table.after == RING[1:4]


def test_somebody_between_it_and_the_next_is_the_next_one_if_it_answers() -> None:
    peer = Peer.within(ME, [p for p in RING if p != RING[1]], successors=3)
    to, asked = only(peer.fires("stabilise"))
    assert to == RING[2]
    to, asked = only(peer.hears(to, Beside(asked.number, RING[1], tuple(RING[3:6]))))
    assert (to, peer.machine.table.after) == (RING[1], RING[1:4])
    peer.unanswered()
    assert peer.machine.table.after == RING[2:4], "others may only think it is there"


def test_a_next_peer_that_is_silent_twice_is_replaced_by_the_one_behind_it() -> None:
    peer = Peer.within(ME, successors=3)
    peer.fires("stabilise")
    to, _ = only(peer.unanswered())
    assert to == RING[1]
    to, _ = only(peer.unanswered())
    assert to == RING[2]
    assert peer.machine.table.after == RING[2:4]


def test_the_one_before_is_forgotten_when_it_has_not_asked_for_three_rounds() -> None:
    for asked, before in ((True, RING[-1]), (False, None)):
        peer = Peer.within(ME)
        if asked:
            peer.hears(RING[-1], Neighbours(1), 3)
        else:
            peer.now += 3 * SECOND
        peer.fires("stabilise", 0.6)
        assert peer.machine.table.before == before


def test_it_knows_of_the_failure_of_all_but_one_of_its_successors() -> None:
    """The ring holds if not all of them fail at once."""
    peer = Peer.within(ME, successors=3)
    effects = peer.fires("stabilise")
    while only(effects)[0] != RING[3]:
        effects = peer.unanswered()
    assert peer.machine.table.after == [RING[3]]


# --- leaving ---------------------------------------------------------------------------------


def test_whoever_leaves_gives_its_entries_to_three_and_tells_its_neighbours() -> None:
    peer = Peer.within(ME)
    mine = entry(name_at(ME))
    peer.hears("o", Put(1, (mine,)))
    copy, leave = Copies((mine,)), Leave(RING[-1], tuple(RING[1:]))
    assert sorted(sent(peer.take(Departed())), key=repr) == sorted(
        [*((p, copy) for p in RING[1:4]), (RING[1], leave), (RING[-1], leave)], key=repr
    )


def test_neighbours_of_one_that_leaves_close_the_gap() -> None:
    leave = Leave(RING[3], tuple(RING[5:]))
    before, behind = Peer.within(RING[3], successors=4), Peer.within(RING[5])
    before.hears(RING[4], leave)
    assert before.machine.table.after == RING[5:8]
    behind.hears(RING[4], leave)
    assert behind.machine.table.before == RING[3]
    assert behind.machine.table.responsible(key_of(name_at(RING[4])))


def test_the_last_of_two_is_alone_when_the_other_leaves() -> None:
    peer = Peer.within(ME, RING[:2])
    peer.hears(RING[1], Leave(ME, (ME,)))
    assert peer.machine.table.alone
    assert peer.machine.table.before is None


# --- two rings -------------------------------------------------------------------------------


def test_it_looks_itself_up_through_a_contact_to_meet_peers_of_another_ring() -> None:
    half = RING[::2]
    peer = Peer(ME)
    peer.take(Started(1, (RING[5],)))
    peer.machine.assemble(half[-1], half[1:], {}, peer.now)
    to, ask = only(peer.fires("meet"))
    assert (to, type(ask), ask.key) == (RING[5], Ask, key_of(ME))
    peer.hears(to, Closer(ask.number, (RING[1], RING[3]), True))
    assert peer.machine.table.after[:2] == [RING[1], RING[2]]


# --- fingers ---------------------------------------------------------------------------------


def test_fingers_are_looked_up_one_at_a_time() -> None:
    peer = Peer.within(ME, successors=3)
    places = set()
    missing = list(peer.machine.table.missing_fingers())
    for _ in missing:
        effects = peer.fires("fingers")
        assert told(effects, SetTimer)[0] == SetTimer("fingers", peer.now + 5 * SECOND)
        places |= {m.key for _, m in sent(effects)}
        peer.unanswered()
        peer.machine.assemble(RING[-1], RING[1:4], {}, peer.now)
    near = {m for m in missing if peer.machine.table.closer(peer.machine.table.finger_place(m))[0]}
    wanted = {peer.machine.table.finger_place(e) for e in missing if e not in near}
    assert wanted <= places


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UserError, match="fewer than successors"):
        RingOptions(copies=8, successors=8)
    with pytest.raises(UserError, match="longer than nothing"):
        RingOptions(stabilise_us=0)


def test_copies_go_to_those_that_are_new_behind_it() -> None:
    peer = Peer.within(ME, successors=3)
    mine = name_at(ME)
    peer.take(Registered(mine, b"v"))
    first = [to for to, m in sent(peer.fires("stabilise")) if isinstance(m, Copies)]
    assert first == RING[1:3]
    again = [to for to, m in sent(peer.fires("stabilise", 0.1)) if isinstance(m, Copies)]
    assert again == [], "they have them"
    peer.machine.table.failed(RING[1])
    fresh = [to for to, m in sent(peer.fires("stabilise", 0.1)) if isinstance(m, Copies)]
    assert fresh == [RING[3]]
