"""Tuple ids: bucket and rank, packed into one int64.

Ids grow along a stream, and they depend on nothing but the tuple's place in its
bucket: a replica that skipped history assigns the same ones. The high bits are
the bucket's number, the low `RANK_BITS` the rank within the bucket's canonical
order.

>>> unpack_id(pack_id(7, 3))
(7, 3)
"""

from __future__ import annotations

RANK_BITS = 24
MAX_RANK = (1 << RANK_BITS) - 1
MAX_BUCKET = (1 << (63 - RANK_BITS)) - 1


def pack_id(bucket: int, rank: int) -> int:
    """The id of the tuple with this rank in this bucket."""
    if not 0 <= rank <= MAX_RANK:
        raise ValueError(f"rank {rank} does not fit: a bucket holds at most {MAX_RANK + 1} tuples")
    return (bucket << RANK_BITS) | rank


def unpack_id(tuple_id: int) -> tuple[int, int]:
    """Bucket and rank of an id."""
    return tuple_id >> RANK_BITS, tuple_id & MAX_RANK
