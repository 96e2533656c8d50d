"""Places on the ring: SHA-1 of a name, compared around the circle."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha1

BITS = 160
SPACE = 1 << BITS


@lru_cache(maxsize=1 << 17)
def key_of(name: str) -> bytes:
    """The place of a peer, an operator or any other name on the ring.

    >>> key_of("Encryption.AES.256").hex()[:12], len(key_of("a"))
    ('84695ea5d96a', 20)
    """
    return sha1(name.encode(), usedforsecurity=False).digest()


def between(key: bytes, after: bytes, upto: bytes) -> bool:
    """Whether a place lies after `after` and at or before `upto`, clockwise.

    >>> a, b, c = b"\\1", b"\\2", b"\\3"
    >>> between(b, a, c), between(b, c, a), between(c, a, c), between(a, c, b), between(b, a, a)
    (True, False, True, True, True)
    """
    if after < upto:
        return after < key <= upto
    return key > after or key <= upto


def ahead(key: bytes, exponent: int) -> bytes:
    """The place at a distance of two to the power of `exponent`, clockwise."""
    there = (int.from_bytes(key) + (1 << exponent)) % SPACE
    return there.to_bytes(BITS // 8)
