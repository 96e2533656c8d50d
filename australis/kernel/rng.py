"""Named random substreams from one seed.

Every part of a run that needs random numbers takes a stream of its own by name, so
that drawing more numbers in one part changes nothing in another.

>>> a, b = SeedTree(7).stream("links"), SeedTree(7).stream("links")
>>> a.random() == b.random()
True
>>> SeedTree(7).stream("faults").random() == SeedTree(7).stream("links").random()
False
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random


class SeedTree:
    """The source of all random numbers in one run."""

    def __init__(self, seed: int, path: str = "") -> None:
        self.seed = seed
        self._path = path

    def stream(self, name: str) -> Random:
        """The generator for this name, always the same for the same seed."""
        text = f"{self.seed}/{self._path}/{name}".encode()
        return Random(int.from_bytes(blake2b(text, digest_size=8).digest()))

    def under(self, name: str) -> SeedTree:
        """A subtree of seeds for the parts of a component."""
        return SeedTree(self.seed, f"{self._path}/{name}")
