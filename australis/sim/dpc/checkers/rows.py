"""A row with a time of its own is in its source's log once, in its bucket, or late once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from australis.protocols.dpc.messages import Bucket
from australis.sim.dpc.event_source import EventTimeHost
from australis.sim.dpc.probes import Checker
from australis.streams.buckets import stime_values


class EveryRowOnce(Checker):
    """No row that a source acknowledged is lost silently, and none passes a boundary."""

    name = "rows"

    def __init__(self, bucket_us: int, sources: Callable[[], Iterable[EventTimeHost]]) -> None:
        self._bucket_us = bucket_us
        self._sources = sources
        self._logged: dict[str, dict[int, list[int]]] = {}
        """For each source the numbers of the rows in each bucket."""

    def entered(self, source: str, new: Sequence[Bucket], now: int) -> None:
        if source not in {host.name for host in self._sources()}:
            return
        known = self._logged.setdefault(source, {})
        for bucket in new:
            rows = [] if bucket.batch is None else bucket.batch.column("v").to_pylist()
            if known.setdefault(bucket.number, rows) != rows:
                self.fail(f"{source} logged bucket {bucket.number} twice, with other rows")
            self._in_bucket(source, bucket)

    def _in_bucket(self, source: str, bucket: Bucket) -> None:
        if bucket.batch is None:
            return
        begin = bucket.number * self._bucket_us
        times = stime_values(bucket.batch.column("_stime"))
        if times.min() <= begin or times.max() > begin + self._bucket_us:
            self.fail(f"{source} logged a row in bucket {bucket.number} that is not of its time")

    def finish(self) -> None:
        for host in self._sources():
            logged = Counter(n for rows in self._logged.get(host.name, {}).values() for n in rows)
            told = logged + Counter(host.late)
            for number in host.rows.given:
                if told[number] > 1:
                    self.fail(f"row {number} of {host.name} is in its log or late more than once")
                if not told[number] and not host.waits(number):
                    self.fail(f"row {number} of {host.name} is neither in its log nor late")
