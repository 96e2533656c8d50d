"""The rolling digest of a log: the sum of a hash of each bucket that holds tuples.

The digest up to a bucket says all that the log holds up to there in one number, so two logs are
equal up to a common bucket if their digests are. As a sum it also compares logs that begin at
different buckets: the digests of equal buckets differ by the same amount for ever. It finds
mistakes; it is no protection against an attacker.
"""

from __future__ import annotations

import struct
from hashlib import blake2b

MAX_DIGEST = (1 << 63) - 1
_BUCKET = struct.Struct("<qI")


def hash_of(bucket: int, check: int) -> int:
    """The contribution of a bucket, given the checksum of its frame in the log."""
    mixed = blake2b(_BUCKET.pack(bucket, check), digest_size=8).digest()
    return int.from_bytes(mixed, "little") & MAX_DIGEST


def plus(digest: int, hashed: int) -> int:
    """A digest with one more bucket.

    >>> plus(plus(0, 5), (1 << 63) - 2)
    3
    """
    return (digest + hashed) & MAX_DIGEST


def minus(digest: int, other: int) -> int:
    """The difference of two digests.

    >>> plus(4, minus(2, 4))
    2
    """
    return (digest - other) & MAX_DIGEST
