"""Places on the ring, and the intervals between them."""

from __future__ import annotations

from hashlib import sha1

from hypothesis import given
from hypothesis import strategies as st

from australis.protocols.ring.keys import BITS, SPACE, ahead, between, key_of

KEYS = st.integers(0, SPACE - 1).map(lambda n: n.to_bytes(BITS // 8))


def test_names_are_hashed_with_sha_1_2() -> None:
    """Synergy, section 2: operator names become unique keys by a hash function (SHA-1)."""
    name = "Encryption.AES.256bit"
    assert key_of(name) == sha1(name.encode()).digest()
    assert len(key_of(name)) * 8 == BITS


@given(KEYS, KEYS, KEYS)
def test_two_places_cut_the_circle_in_two(key: bytes, a: bytes, b: bytes) -> None:
    if a == b:
        assert between(key, a, b), "the whole circle"
    else:
        assert between(key, a, b) != between(key, b, a)


@given(KEYS, KEYS)
def test_an_interval_ends_with_its_end_and_begins_behind_its_beginning(a: bytes, b: bytes) -> None:
    assert between(b, a, b)
    assert between(a, a, b) == (a == b)


@given(KEYS, KEYS, KEYS, st.integers(0, SPACE - 1))
def test_turning_the_circle_changes_nothing(key: bytes, a: bytes, b: bytes, by: int) -> None:
    turned = [((int.from_bytes(k) + by) % SPACE).to_bytes(BITS // 8) for k in (key, a, b)]
    assert between(*turned) == between(key, a, b)


@given(KEYS)
def test_twice_the_same_step_is_the_next_larger_one(key: bytes) -> None:
    for exponent in (0, 80, BITS - 2):
        assert ahead(ahead(key, exponent), exponent) == ahead(key, exponent + 1)
    assert ahead(ahead(key, BITS - 1), BITS - 1) == key, "once around"
