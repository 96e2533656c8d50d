"""A source with two proxies has one log, and every row that it acknowledged is in it once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from australis.protocols.dpc.messages import Bucket
from australis.sim.dpc.pairs import MemberHost, Producers
from australis.sim.dpc.probes import Checker


class OneLog(Checker):
    """No two proxies of a source publish different buckets, or the same row."""

    name = "one log"

    def __init__(self, sources: Collection[str]) -> None:
        self.published: dict[str, dict[int, list[int]]] = {source: {} for source in sources}
        """For each source the rows in each bucket."""
        self._bucket_of: dict[str, dict[int, int]] = {source: {} for source in sources}

    def entered(self, source: str, new: Sequence[Bucket], now: int) -> None:
        if source not in self.published:
            return
        for bucket in new:
            rows = rows_of(bucket)
            known = self.published[source].setdefault(bucket.number, rows)
            if known != rows:
                self.fail(
                    f"bucket {bucket.number} of {source} was published with other rows before"
                )
            for row in rows:
                at = self._bucket_of[source].setdefault(row, bucket.number)
                if at != bucket.number:
                    self.fail(f"row {row} of {source} is in bucket {at} and in {bucket.number}")


class Acknowledged(Checker):
    """What a source's proxy has acknowledged is never lost."""

    name = "acknowledged"

    def __init__(
        self,
        one_log: OneLog,
        producers: Mapping[str, Producers],
        members: Mapping[str, Iterable[MemberHost]],
    ) -> None:
        self._one_log = one_log
        self._producers = producers
        self._members = members

    def finish(self) -> None:
        for source, producers in self._producers.items():
            logged = {r for rows in self._one_log.published[source].values() for r in rows}
            for member in self._members[source]:
                if member.machine is not None and member.machine.leads:
                    logged |= set(member.unpublished)
            lost = sorted(producers.acknowledged - logged)
            if lost:
                self.fail(f"{source} has acknowledged row {lost[0]}, which is in no log")


def rows_of(bucket: Bucket) -> list[int]:
    """The numbers of the rows in a bucket."""
    return [] if bucket.batch is None else [int(row) for row in bucket.batch.value.split()]
