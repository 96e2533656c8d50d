"""Whom a peer knows: neighbours, fingers, and who is silent."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocols.ring.hand import RING, name_at

from australis.protocols.ring.keys import SPACE, between, key_of
from australis.protocols.ring.table import CANDIDATES, Table


def distance(start: bytes, end: bytes) -> int:
    """How far it is clockwise."""
    return (int.from_bytes(end) - int.from_bytes(start)) % SPACE


def table(successors: int = 3) -> Table:
    """The first peer's, with its neighbours and a finger to the sixth."""
    found = Table(RING[0], successors)
    found.before = RING[-1]
    found.follow(RING[1:])
    found.point(159, RING[5])
    return found


def test_alone_a_peer_is_responsible_for_everything() -> None:
    alone = Table("p0", 3)
    assert alone.alone
    assert alone.closer(key_of("x")) == (True, ("p0",))
    assert alone.missing_fingers() == ()


def test_a_peer_is_responsible_from_behind_the_one_before_it_up_to_itself() -> None:
    one = table()
    for peer in RING:
        assert one.responsible(key_of(name_at(peer))) == (peer == RING[0])
    assert one.responsible(one.key)
    assert not one.responsible(key_of(RING[-1]))


def test_it_knows_who_is_responsible_up_to_the_next_peer() -> None:
    one = table()
    assert one.closer(key_of(name_at(RING[0]))) == (True, (RING[0], *RING[1:4]))
    assert one.closer(key_of(name_at(RING[1]))) == (True, tuple(RING[1:4]))
    found, closer = one.closer(key_of(name_at(RING[3])))
    assert (found, closer) == (False, (RING[2], RING[1]))


def test_a_finger_leads_further_than_neighbours() -> None:
    found, closer = table().closer(key_of(name_at(RING[7])))
    assert (found, closer) == (False, (RING[5], RING[3], RING[2]))


@given(st.sets(st.integers(0, 200), min_size=2, max_size=30), st.integers(0, 1_000))
def test_whoever_is_named_lies_before_the_place_the_closest_first(
    numbers: set[int], name: int
) -> None:
    peers = sorted((f"q{n}" for n in numbers), key=key_of)
    one, key = Table(peers[0], 4), key_of(f"name{name}")
    one.follow(peers[1:])
    one.point_all(dict(enumerate(peers)))
    found, named = one.closer(key)
    if found:
        assert named[0] == peers[1]
        assert between(key, one.key, key_of(peers[1]))
        return
    assert 0 < len(named) <= CANDIDATES
    left = [distance(key_of(peer), key) for peer in named]
    assert left == sorted(left)
    assert all(0 < d < distance(one.key, key) for d in left)
    nearest = min(distance(key_of(peer), key) for peer in peers if key_of(peer) != key)
    assert left[0] == nearest


def test_so_many_successors_are_known_each_once_and_never_itself() -> None:
    one = Table(RING[0], 3)
    assert one.follow([RING[1], RING[1], RING[2], RING[3], RING[4]])
    assert one.after == RING[1:4]
    assert not one.follow(RING[1:5]), "nothing new"


def test_what_comes_once_around_the_circle_is_left_out() -> None:
    one = Table(RING[0], 3)
    assert one.follow([RING[3], RING[1], RING[2]])
    assert one.after == [RING[3]]
    assert one.follow([RING[2], RING[0], RING[3]])
    assert one.after == [RING[2]]


def test_a_peer_that_is_met_is_taken_in_only_next_behind() -> None:
    one = Table(RING[0], 3)
    assert one.meet(RING[4])
    assert one.meet(RING[2])
    assert not one.meet(RING[3])
    assert not one.meet(RING[2])
    assert not one.meet(RING[0])
    assert one.after == [RING[2], RING[4]]


def test_only_a_nearer_peer_becomes_the_one_before() -> None:
    one = Table(RING[4], 3)
    assert one.preceded(RING[1])
    assert one.preceded(RING[2])
    assert not one.preceded(RING[1])
    assert not one.preceded(RING[2])
    assert not one.preceded(RING[4])
    assert not one.preceded(RING[6])
    assert one.before == RING[2]


def test_one_silence_is_a_lost_message_two_in_a_row_a_failure() -> None:
    one = table()
    one.silent(RING[1])
    assert RING[1] in one.after
    one.heard(RING[1])
    one.silent(RING[1])
    assert RING[1] in one.after
    one.silent(RING[1])
    assert one.after == RING[2:4]


def test_a_peer_that_failed_is_nowhere_any_more() -> None:
    one = table()
    one.follow([*RING[1:3], RING[5]])
    one.before = RING[5]
    one.failed(RING[5])
    assert one.before is None
    assert one.after == RING[1:3]
    assert one.closer(key_of(name_at(RING[7]))) == (False, (RING[2], RING[1]))


def test_a_finger_to_itself_is_none() -> None:
    one = table()
    one.point(159, RING[0])
    assert one.closer(key_of(name_at(RING[7]))) == (False, tuple(RING[3:0:-1]))


@pytest.mark.parametrize("at", range(len(RING)))
def test_fingers_lead_further_than_the_next_peer(at: int) -> None:
    one = Table(RING[at], 1)
    one.follow([RING[(at + 1) % len(RING)]])
    exponents = one.missing_fingers()
    near = distance(one.key, key_of(one.after[0]))
    reach = [distance(one.key, one.finger_place(e)) for e in exponents]
    assert all(far > near for far in reach)
    assert all(a == 2 * b for a, b in pairwise(reach)), "far ones first"
    assert reach[-1] < 4 * near, "none is left out"
