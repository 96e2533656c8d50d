"""The causal trace of a run.

Each entry carries the id of its cause: an effect that of the event it answers, an
event that of the effect that caused it. So the chain of causes of any output can be
followed to its beginning. The hash over all entries tells whether two runs were
equal; only the last entries are kept unless all are requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

NO_CAUSE = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One event or effect."""

    id: int
    cause: int
    at_us: int
    node: str
    text: str

    def __str__(self) -> str:
        return f"{self.at_us / 1e6:10.4f} {self.node:12} {self.text}"


class Trace:
    """The entries of one run."""

    def __init__(self, keep: int | None = 10_000) -> None:
        self._entries: dict[int, Entry] = {}
        self._keep = keep
        self._hash = blake2b(digest_size=16)
        self.length = 0

    def add(self, cause: int, at_us: int, node: str, text: str) -> int:
        """Add an entry; returns its id."""
        self.length += 1
        entry = Entry(self.length, cause, at_us, node, text)
        self._hash.update(f"{entry.id} {cause} {at_us} {node} {text}\n".encode())
        self._entries[entry.id] = entry
        if self._keep is not None and len(self._entries) > self._keep:
            del self._entries[next(iter(self._entries))]
        return entry.id

    @property
    def digest(self) -> str:
        """The digest of all entries, which is equal for two runs with the same entries in order."""
        return self._hash.hexdigest()

    def story(self, output: int) -> list[Entry]:
        """The chain of an entry's causes, the first one first."""
        chain: list[Entry] = []
        at = output
        while at in self._entries:
            chain.append(self._entries[at])
            at = self._entries[at].cause
        return chain[::-1]

    def last(self, containing: str) -> Entry | None:
        """The latest entry kept whose text contains this."""
        return next((e for e in reversed(self._entries.values()) if containing in e.text), None)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())
