"""Whether logs that should be equal are: rolling digests compared at common buckets.

Replicas write equal logs; a user function that depends on more than its input, a damaged
file or a mistake of this program makes them differ. Each replica tells its peers, and each producer
its consumers, the digest of its log at a bucket that both should know. Of two logs that
differ no program can tell which one is right, so both replicas stop. Where more than half of all
replicas agree, they go on, and the others stop.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from australis.kernel.machine import Message
from australis.protocols.dpc.messages import LogDigest, StableData
from australis.streams.digest import minus, plus

KEPT = 1024
"""The number of newest digests that a machine keeps of a log; of older buckets none are compared.
"""


class Difference(Message, frozen=True, gc=False):
    """Another replica's log differs from one's own."""

    replica: str
    after: int
    """The last bucket up to which both are known to be equal; -1 if none is."""
    bucket: int
    """The first bucket up to which both are known to differ."""
    mine: int
    theirs: int

    @property
    def text(self) -> str:
        """The difference in a few words."""
        first = self.after + 1
        where = f"in bucket {first}" if first == self.bucket else f"in {first}..{self.bucket}"
        return f"{self.replica} has {self.theirs:016x}, not {self.mine:016x}, first {where}"


class Digests:
    """The newest digests of one log, bucket by bucket.

    >>> digests = Digests()
    >>> digests.restart(LogDigest(-1, 4, 100))
    >>> digests.extend([(6, 107)], upto=9)
    >>> digests.at(5), digests.at(8), digests.at(3), digests.at(10)
    (100, 107, None, None)
    """

    def __init__(self) -> None:
        self.restart(None)

    def restart(self, digest: LogDigest | None) -> None:
        """Begin with this digest, or with none."""
        self.base = None if digest is None else digest.base
        self.upto = -1 if digest is None else digest.bucket
        self._buckets = [] if digest is None else [digest.bucket]
        self._values = [] if digest is None else [digest.value]

    def extend(self, digests: Iterable[tuple[int, int]], upto: int, shift: int = 0) -> None:
        """Add the digests up to new buckets; each counts up to the next one, and `upto`.

        Of a log that has grown by more than `KEPT` buckets with tuples only so many are listed:
        then what the digests were before the first of them is not known.
        """
        if self.base is None:
            return
        digests = tuple(digests)
        if len(digests) >= KEPT:
            self._buckets.clear()
            self._values.clear()
        for bucket, value in digests:
            if bucket > self.upto:
                self._buckets.append(bucket)
                self._values.append(plus(value, shift))
                self.upto = bucket
        self.upto = max(self.upto, upto)
        if len(self._buckets) > 2 * KEPT:
            del self._buckets[:-KEPT], self._values[:-KEPT]

    def at(self, bucket: int) -> int | None:
        """The digest up to a bucket; None if it is not known."""
        at = bisect_right(self._buckets, bucket)
        return self._values[at - 1] if at and bucket <= self.upto else None

    def point(self, bucket: int) -> LogDigest | None:
        """The same, with its base."""
        value = self.at(bucket)
        return None if value is None or self.base is None else LogDigest(self.base, bucket, value)


class Comparison:
    """What is known of the replicas' logs against a log of one's own."""

    def __init__(self, replicas: Iterable[str], own: Digests, *, votes: bool) -> None:
        """A comparison; one's own log `votes` too if one is a replica, but not as a consumer."""
        self.own = own
        self.ends: dict[str, int] = {}
        """The last bucket of each peer's log, as far as it has told."""
        self.differing: dict[str, Difference] = {}
        self._votes = 1 if votes else 0
        self._replicas = tuple(replicas)
        self._agreed: dict[str, int] = {}
        self._shifts: dict[tuple[str, int, int], int] = {}
        self._announced: tuple[tuple[Difference, ...], bool] = ((), False)

    def compare(self, replica: str, theirs: LogDigest) -> None:
        """Compare one's own log with a replica's up to a bucket, if one knows it."""
        own, bucket = self.own, theirs.bucket
        mine = own.at(bucket)
        if mine is None or own.base is None:
            return
        value = plus(theirs.value, self.shift(replica, theirs))
        known = self.differing.get(replica)
        agreed = self._agreed.get(replica, -1)
        if value == mine:
            self._agreed[replica] = max(agreed, bucket)
            if known is not None and bucket >= known.bucket:
                del self.differing[replica]
        elif known is None or bucket < known.bucket:
            after = agreed if agreed < bucket else -1
            self.differing[replica] = Difference(replica, after, bucket, mine, value)

    def shift(self, replica: str, theirs: LogDigest) -> int:
        """What to add to a replica's digests to compare them with one's own.

        If the two logs begin at different buckets, the first common bucket tells.
        """
        base, mine = self.own.base, self.own.at(theirs.bucket)
        if base is None or theirs.base == base or mine is None:
            return 0
        key = (replica, base, theirs.base)
        return self._shifts.setdefault(key, minus(mine, theirs.value))

    def among(self, replicas: Iterable[str]) -> None:
        """Compare with these replicas only from now on."""
        self._replicas = tuple(replicas)
        for known in (self.differing, self.ends, self._agreed):
            for name in [name for name in known if name not in self._replicas]:
                known.pop(name)  # type: ignore[attr-defined]

    def forget(self) -> None:
        """Begin anew: one's own log is another one now."""
        self._agreed.clear()
        self.differing.clear()

    @property
    def stops(self) -> bool:
        """Whether some log differs, and no majority of all replicas agrees with one's own."""
        if not self.differing:
            return False
        bucket = min(d.bucket for d in self.differing.values())
        others = [r for r in self._replicas if r not in self.differing]
        agree = self._votes + sum(self._agreed.get(r, -1) >= bucket for r in others)
        return 2 * agree <= len(self._replicas) + self._votes

    @property
    def news(self) -> tuple[tuple[Difference, ...], bool] | None:
        """The differences and whether one stops, if that has changed since it was last asked."""
        if not self.differing and not self._announced[0]:
            return None
        found = tuple(self.differing.values()), self.stops
        if found == self._announced:
            return None
        self._announced = found
        return found


def listed_digests(data: StableData) -> list[tuple[int, int]]:
    """The digests of a piece of a log."""
    return [(bucket.number, bucket.digest) for bucket in data.buckets]
