"""Whether logs that should be equal are: digests compared at common buckets."""

from __future__ import annotations

import pytest

from australis.protocols.dpc.digests import KEPT, Comparison, Digests
from australis.protocols.dpc.messages import LogDigest


def digests(upto: int, base: int = -1, first: int = 0, wrong_from: int = 1 << 60) -> Digests:
    """A log with tuples in every second bucket; their hash is 10 times the bucket's number."""
    made = Digests()
    made.restart(LogDigest(base, first - 1, 0))
    value = 0
    for bucket in range(first, upto + 1, 2):
        value += 10 * bucket + (bucket >= wrong_from)
        made.extend([(bucket, value)], bucket)
    made.extend([], upto)
    return made


def compared(own: Digests, *others: Digests, votes: bool = True) -> Comparison:
    made = Comparison([f"n{i}" for i in range(len(others))], own, votes=votes)
    for i, other in enumerate(others):
        for bucket in range(min(own.upto, other.upto) + 1):
            point = other.point(bucket)
            if point is not None:
                made.compare(f"n{i}", point)
    return made


def test_equal_logs_agree_wherever_they_are_cut() -> None:
    made = compared(digests(9), digests(6), digests(20))
    assert (made.differing, made.stops, made.news) == ({}, False, None)


def test_two_that_differ_both_stop_and_the_bucket_is_known() -> None:
    made = compared(digests(9), digests(9, wrong_from=4))
    found = made.differing["n0"]
    assert (found.after, found.bucket, found.theirs - found.mine) == (3, 4, 1)
    assert made.stops
    assert found.text == "n0 has 000000000000003d, not 000000000000003c, first in bucket 4"


def test_of_three_the_majority_goes_on() -> None:
    right, wrong = digests(9), digests(9, wrong_from=4)
    assert not compared(right, digests(9), wrong).stops
    assert compared(wrong, right, digests(9)).stops
    late = compared(right, digests(3), wrong)
    assert late.stops, "one that agrees up to bucket 3 says nothing of bucket 4"
    point = right.point(5)
    assert point is not None
    late.compare("n0", point)
    assert not late.stops


def test_a_consumer_has_no_vote() -> None:
    right, wrong = digests(9), digests(9, wrong_from=4)
    assert compared(right, wrong, votes=False).stops, "a source that has changed its log"
    assert compared(right, right, wrong, votes=False).stops
    assert not compared(right, right, right, wrong, votes=False).stops


def test_logs_that_begin_at_different_buckets_are_compared_from_the_first_common_one_on() -> None:
    whole, later = digests(30), digests(30, base=9, first=10)
    assert compared(whole, later).differing == {}
    found = compared(whole, digests(30, base=9, first=10, wrong_from=20)).differing["n0"]
    assert (found.after, found.bucket) == (19, 20)


def test_a_replica_with_a_new_log_agrees_again() -> None:
    own = digests(9)
    made = compared(own, digests(9, wrong_from=4))
    assert made.news is not None
    assert made.news is None, "told once"
    point = own.point(6)
    assert point is not None
    made.compare("n0", point)
    assert made.news == ((), False)


def test_what_is_too_old_is_not_compared() -> None:
    own = digests(6 * KEPT)
    assert own.at(0) is None
    assert own.at(6 * KEPT) is not None
    made = Comparison(["n0"], own, votes=True)
    made.compare("n0", LogDigest(-1, 0, 77))
    assert not made.differing


@pytest.mark.parametrize("bucket", [-1, 100])
def test_a_log_of_unknown_digest_says_nothing(bucket: int) -> None:
    unknown = Digests()
    unknown.extend([(3, 5)], 9)
    assert unknown.point(bucket) is None


def test_what_is_not_listed_of_a_log_that_grows_at_once_is_not_known() -> None:
    """A source at full speed closes thousands of buckets at a time."""
    step, grown = Digests(), Digests()
    for made in (step, grown):
        made.restart(LogDigest(-1, -1, 0))
    listed = [(bucket, 7 * bucket) for bucket in range(3 * KEPT)]
    for bucket, value in listed:
        step.extend([(bucket, value)], bucket)
    grown.extend(listed[-KEPT:], listed[-1][0])
    known = [bucket for bucket in range(-1, 3 * KEPT) if grown.at(bucket) is not None]
    assert known == list(range(2 * KEPT, 3 * KEPT))
    assert all(grown.at(bucket) == step.at(bucket) for bucket in known)
