"""Entries: who keeps them, how long, and what comes back when they are asked for."""

from __future__ import annotations

import pytest
from protocols.ring.hand import RING, Peer, name_at, only, sent, told

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Send, SetTimer
from australis.protocols.ring.events import Fetched, Registered, RingOptions, TellKept, Withdrawn
from australis.protocols.ring.messages import (
    Ask,
    Closer,
    Copies,
    Entry,
    Get,
    Got,
    Kept,
    Put,
)

ME = RING[0]
LASTS_US = RingOptions().lasts_us


def entry(under: str, owner: str = "o", version: int = 1, until_s: int = 1_000) -> Entry:
    return Entry(under, owner, b"v", version, until_s * SECOND)


def kept(peer: Peer, name: str) -> list[str]:
    """The owners of what a peer keeps under a name."""
    return [e.owner for e in peer.machine.store.under(name, peer.now)]


def found(peer: Peer, effects: list[Effect], *peers: str) -> list[Effect]:
    """The lookups among effects end with these."""
    out: list[Effect] = []
    for to, message in sent(effects):
        if isinstance(message, Ask):
            out += peer.hears(to, Closer(message.number, peers, True))
    return out


# --- whoever is responsible ------------------------------------------------------------------


def test_the_responsible_peer_keeps_an_entry_and_copies_it_to_the_next_two() -> None:
    peer, mine = Peer.within(ME), entry(name_at(ME))
    assert peer.hears("o", Put(4, (mine,))) == [
        Send(RING[1], Copies((mine,))),
        Send(RING[2], Copies((mine,))),
        Send("o", Kept(4, True)),
    ]
    assert kept(peer, mine.under) == ["o"]


def test_any_other_peer_says_so_and_keeps_nothing() -> None:
    peer, other = Peer.within(ME), entry(name_at(RING[3]))
    assert peer.hears("o", Put(4, (other,))) == [Send("o", Kept(4, False))]
    assert kept(peer, other.under) == []


def test_a_peer_responsible_for_an_operator_holds_all_that_offer_it_2() -> None:
    """Synergy, section 2: it holds handlers of all the peers that currently offer it."""
    peer, operator = Peer.within(ME), name_at(ME)
    for owner in ("c", "a", "b"):
        peer.hears(owner, Put(1, (entry(operator, owner),)))
    assert kept(peer, operator) == ["a", "b", "c"]
    told_of = only(peer.hears("x", Get(2, operator)))[1]
    assert [e.owner for e in told_of.entries] == ["a", "b", "c"]
    assert told_of.responsible


def test_peers_unregister_what_they_cease_to_offer_2() -> None:
    """Synergy, section 2: the peers hosting components register or unregister handlers."""
    peer, operator = Peer.within(ME), name_at(ME)
    peer.take(Registered(operator, b"v"))
    assert kept(peer, operator) == [ME]
    peer.take(Withdrawn(operator), 1)
    assert kept(peer, operator) == []


def test_the_newer_version_stays_whatever_comes_last() -> None:
    peer, name = Peer.within(ME), name_at(ME)
    newer, older = Entry(name, "o", b"", 2, 10**9), Entry(name, "o", b"v", 1, 10**9)
    peer.hears("o", Put(1, (newer,)))
    peer.hears("o", Put(2, (older,)))
    assert kept(peer, name) == [], "it was withdrawn; the late message says otherwise"


def test_a_copy_steps_in_when_the_responsible_peer_is_gone_3_1() -> None:
    """Synergy, section 3.1: the DHT transfers the responsibilities of a failed peer to others."""
    peer, theirs = Peer.within(ME), name_at(RING[-1])
    peer.hears(RING[-1], Copies((entry(theirs),)))
    assert peer.machine.held(peer.now) == ()
    assert only(peer.hears("x", Get(1, theirs)))[1].responsible is False
    peer.now += 4 * SECOND  # nothing is heard of the one before it
    peer.fires("stabilise")
    assert peer.machine.held(peer.now) == (theirs,)
    assert only(peer.hears("x", Get(1, theirs)))[1] == Got(1, (entry(theirs),), True)


def test_what_nobody_registers_again_is_forgotten_after_two_and_a_half_keep_alives_3_1() -> None:
    """Synergy, section 3.1: components of a failed peer are unregistered from the DHT."""
    peer, name = Peer.within(ME), name_at(ME)
    until_us = peer.now + LASTS_US
    peer.hears("o", Put(1, (Entry(name, "o", b"v", 1, until_us),)))
    peer.now = until_us - 1
    assert kept(peer, name) == ["o"]
    peer.now = until_us
    assert kept(peer, name) == []
    peer.fires("stabilise")
    assert peer.machine.store.where(lambda key: True) == ()


# --- whoever registers -----------------------------------------------------------------------


def test_an_entry_is_put_at_the_peer_that_a_lookup_finds_and_there_again_without_one() -> None:
    peer, name = Peer.within(ME, successors=3), name_at(RING[6])
    effects = peer.take(Registered(name, b"v"))
    to, put = only(found(peer, effects, RING[6]))
    assert to == RING[6]
    assert put.entries == (Entry(name, ME, b"v", peer.now, peer.now + LASTS_US),)
    assert peer.hears(to, Kept(put.number, True)) == []
    to, put = only(peer.take(Registered(name, b"w"), 1))
    assert (to, put.entries[0].value) == (RING[6], b"w")


@pytest.mark.parametrize("why", ["not responsible", "silent"])
def test_a_peer_that_will_not_keep_it_is_looked_up_again(why: str) -> None:
    peer, name = Peer.within(ME, successors=3), name_at(RING[6])
    to, put = only(found(peer, peer.take(Registered(name, b"v")), RING[6]))
    effects = peer.unanswered() if why == "silent" else peer.hears(to, Kept(put.number, False))
    assert isinstance(only(effects)[1], Ask)
    to, put = only(found(peer, effects, RING[7]))
    assert (to, put.entries[0].under) == (RING[7], name)


def test_what_nobody_will_keep_now_is_put_again_a_round_later() -> None:
    peer, name = Peer.within(ME, successors=3, tries=2), name_at(RING[1])
    effects = peer.take(Registered(name, b"v"))
    for _ in range(2):
        to, put = only(effects)
        effects = peer.hears(to, Kept(put.number, False))
    assert effects == [SetTimer("unkept", peer.now + SECOND)]
    to, put = only(peer.fires("unkept", 1))
    assert (to, put.entries[0].under) == (RING[1], name)


def test_versions_grow_though_the_clock_stands_still() -> None:
    peer, name = Peer.within(ME), name_at(ME)
    versions = []
    for value in (b"a", b"b", b""):
        peer.take(Registered(name, value))
        (one,) = peer.machine.store.where(lambda key: True)
        versions.append(one.version)
    assert versions == sorted({*versions})


def test_every_keep_alive_registers_all_again_but_not_what_was_withdrawn() -> None:
    peer = Peer.within(ME)
    here, gone = name_at(ME), name_at(ME, number=1)
    peer.take(Registered(here, b"v"))
    peer.take(Registered(gone, b"v"))
    peer.take(Withdrawn(gone))
    effects = peer.fires("keep-alive", 60)
    assert told(effects, SetTimer) == [SetTimer("keep-alive", peer.now + 60 * SECOND)]
    copies = [e for _, m in sent(effects) for e in m.entries]
    assert {(e.under, e.until_us) for e in copies} == {(here, peer.now + LASTS_US)}


def test_what_is_refreshed_is_said_with_the_next_keep_alive_only() -> None:
    peer, name = Peer.within(ME), name_at(ME)
    peer.take(Registered(name, b"v"))
    peer.machine.refresh(name, b"w")
    (entry_now,) = peer.machine.store.under(name, peer.now)
    assert entry_now.value == b"v"
    peer.fires("keep-alive", 60)
    (entry_now,) = peer.machine.store.under(name, peer.now)
    assert entry_now.value == b"w"
    peer.machine.refresh("never registered", b"x")


# --- whoever fetches -------------------------------------------------------------------------


def test_what_it_keeps_itself_is_told_at_once() -> None:
    peer, name = Peer.within(ME), name_at(ME)
    assert peer.take(Fetched("t", name)) == [TellKept("t", ())]
    peer.hears("o", Put(1, (entry(name),)))
    assert peer.take(Fetched("t", name)) == [TellKept("t", (entry(name),))]


def ask_for(peer: Peer, effects: list[Effect], holder: str) -> int:
    """The lookup finds this peer, which says that it is there; the number of the question to it."""
    while isinstance(only(effects)[1], Ask):
        effects = found(peer, effects, holder)
    to, get = only(effects)
    assert (to, type(get)) == (holder, Get)
    return int(get.number)


def test_entries_are_fetched_from_whoever_is_responsible() -> None:
    peer, name = Peer.within(ME, successors=3), name_at(RING[6])
    number = ask_for(peer, peer.take(Fetched("t", name)), RING[6])
    got = peer.hears(RING[6], Got(number, (entry(name),), True))
    assert got == [TellKept("t", (entry(name),))]


def test_one_that_is_not_responsible_any_more_is_not_believed() -> None:
    peer, name = Peer.within(ME, successors=3), name_at(RING[6])
    number = ask_for(peer, peer.take(Fetched("t", name)), RING[6])
    effects = peer.hears(RING[6], Got(number, (), False))
    number = ask_for(peer, effects, RING[7])
    got = peer.hears(RING[7], Got(number, (entry(name),), True))
    assert got == [TellKept("t", (entry(name),))]


def test_none_says_that_nobody_could_be_asked() -> None:
    peer, name = Peer.within(ME, successors=3, tries=2), name_at(RING[1])
    effects = peer.take(Fetched("t", name))
    for _ in range(2):
        ask_for(peer, effects, RING[1])
        effects = peer.unanswered()
    assert TellKept("t", None) in effects
