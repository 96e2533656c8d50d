"""The entries that a peer keeps: those it is responsible for, and copies of other entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from australis.protocols.ring.keys import key_of
from australis.protocols.ring.messages import Entry


class Store:
    """Entries by name and owner; the newest version of each stays.

    >>> store = Store()
    >>> store.keep([Entry("filter", "a", b"1", 2, 10), Entry("filter", "a", b"0", 1, 20)])
    >>> [e.value for e in store.under("filter", now=5)], store.under("filter", now=10)
    ([b'1'], ())
    """

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Entry]] = {}

    def keep(self, entries: Iterable[Entry]) -> None:
        """Store those entries that are newer than the stored ones."""
        for entry in entries:
            owners = self._entries.setdefault(entry.under, {})
            known = owners.get(entry.owner)
            if known is None or known.version < entry.version:
                owners[entry.owner] = entry

    def under(self, name: str, now: int) -> tuple[Entry, ...]:
        """Entries under a name that are not withdrawn, in the order of their owners."""
        owners = self._entries.get(name, {})
        return tuple(
            owners[o] for o in sorted(owners) if owners[o].value and owners[o].until_us > now
        )

    def where(self, wanted: Callable[[bytes], bool]) -> tuple[Entry, ...]:
        """All entries whose place is wanted, including withdrawn ones."""
        return tuple(
            entry
            for name, owners in self._entries.items()
            if wanted(key_of(name))
            for entry in owners.values()
        )

    def names(self, now: int) -> tuple[str, ...]:
        """Names with at least one entry that is not withdrawn."""
        return tuple(name for name in self._entries if self.under(name, now))

    def expire(self, now: int) -> None:
        """Remove entries that their owner has not registered again in time."""
        for name, owners in list(self._entries.items()):
            live = {owner: entry for owner, entry in owners.items() if entry.until_us > now}
            if live:
                self._entries[name] = live
            else:
                del self._entries[name]
