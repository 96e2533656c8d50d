"""Named random substreams from one seed.

Every part of a run that needs chance takes a stream of its own by name, so that
drawing more numbers in one place changes nothing in another.

>>> a, b = Chance(7).stream("links"), Chance(7).stream("links")
>>> a.random() == b.random()
True
>>> Chance(7).stream("faults").random() == Chance(7).stream("links").random()
False
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random


class Chance:
    """The source of all chance in one run."""

    def __init__(self, seed: int, path: str = "") -> None:
        self.seed = seed
        self._path = path

    def stream(self, name: str) -> Random:
        """A generator of its own for this name, always the same for the same seed."""
        text = f"{self.seed}/{self._path}/{name}".encode()
        return Random(int.from_bytes(blake2b(text, digest_size=8).digest()))

    def under(self, name: str) -> Chance:
        """The same for all the parts of a part."""
        return Chance(self.seed, f"{self._path}/{name}")
