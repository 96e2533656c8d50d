"""Errors name their place; ids pack bucket and rank and grow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.kernel.errors import AustralisError, Place, Stopped, UserError
from australis.kernel.ids import MAX_BUCKET, MAX_RANK, pack_id, unpack_id

BUCKETS = st.integers(0, MAX_BUCKET)
RANKS = st.integers(0, MAX_RANK)


def test_a_users_mistake_is_one_sentence_with_its_place() -> None:
    mistake = UserError("is not a duration", name="window", place=Place("a.yaml", 3))
    assert str(mistake) == "a.yaml:3: 'window' is not a duration"
    assert str(UserError("the file is empty", place=Place("a.yaml"))) == "a.yaml: the file is empty"
    assert str(UserError("plain")) == "plain"


def test_at_adds_what_is_not_known_yet() -> None:
    bare = UserError("is odd")
    told = bare.at(Place("a.yaml", 1), "n")
    assert str(told) == "a.yaml:1: 'n' is odd"
    assert str(told.at(Place("b.yaml", 2), "m")) == str(told), "the first place is the best"
    assert str(bare) == "is odd", "the first error is left as it was"
    assert str(bare.at(None)) == "is odd"


def test_both_kinds_are_australis_errors_and_differ() -> None:
    assert issubclass(UserError, AustralisError)
    assert issubclass(Stopped, AustralisError)
    assert not issubclass(Stopped, UserError)
    with pytest.raises(AttributeError):
        Place("a").line = 3  # type: ignore[misc]


@given(BUCKETS, RANKS)
def test_ids_unpack_and_fit_an_int64(bucket: int, rank: int) -> None:
    packed = pack_id(bucket, rank)
    assert unpack_id(packed) == (bucket, rank)
    assert 0 <= packed < 2**63


@given(BUCKETS, RANKS, BUCKETS, RANKS)
def test_ids_grow_along_a_stream(bucket: int, rank: int, bucket2: int, rank2: int) -> None:
    one, two = (bucket, rank), (bucket2, rank2)
    assert (pack_id(*one) < pack_id(*two)) == (one < two)


@pytest.mark.parametrize("rank", [-1, MAX_RANK + 1])
def test_a_rank_that_does_not_fit_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        pack_id(0, rank)


def test_before_the_first_id() -> None:
    """A consumer that has read nothing says -1, which lies before every id."""
    assert unpack_id(-1) == (-1, MAX_RANK)
    assert pack_id(0, 0) > -1
