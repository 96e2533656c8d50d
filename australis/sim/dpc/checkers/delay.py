"""New tuples wait at most X more than without failures, at any depth (Delay_new < X)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.proxies import Insertions, Tentatives
from australis.sim.dpc.probes import Checker
from australis.sim.dpc.truth import Span


class BoundedDelay(Checker):
    """While a path works, with all that its operators cannot do without, every bucket arrives in
    time.

    It counts from the moment the path's source logged the bucket to its first delivery to the
    client, stable or tentative. `bound_us` is X plus the simulated time that network and processing
    take on the way, and `more_us` what the X of a client's stream exceeds the others' by. Clients
    that are promised nothing are not in `good`.
    """

    name = "delay"

    def __init__(
        self,
        good: Mapping[str, Mapping[str, list[Span]]],
        bound_us: int,
        from_bucket: int,
        excused: Callable[[], bool] = lambda: False,
        more_us: Mapping[str, int] = MappingProxyType({}),
        failures: Sequence[Span] = (),
    ) -> None:
        """A checker that counts apart what it judges while there are `failures`."""
        self._failures = failures
        self._excused = excused
        self._good = good
        self._more_us = more_us
        self.bound_us = bound_us
        self._from = from_bucket
        self._entered: dict[str, dict[int, int]] = {}
        self._heard: dict[str, int] = dict.fromkeys(good, -1)
        self._forgotten = -1
        self.worst = 0
        self.checked = 0
        self.checked_in_failures = 0

    def entered(self, source: str, new: Sequence[Bucket], now: int) -> None:
        times = self._entered.setdefault(source, {})
        for bucket in new:
            times.setdefault(bucket.number, now)

    def delivered(self, client: str, what: Any, now: int) -> None:
        if client in self._good and isinstance(what, Insertions | Tentatives):
            for number in range(self._heard[client] + 1, what.bucket.number + 1):
                self._check(client, number, now)
            self._heard[client] = max(self._heard[client], what.bucket.number)
            self._forget(min(self._heard.values()))

    def _forget(self, upto: int) -> None:
        for number in range(self._forgotten + 1, upto + 1):
            for times in self._entered.values():
                times.pop(number, None)
        self._forgotten = max(self._forgotten, upto)

    def _check(self, client: str, number: int, now: int) -> None:
        if number < self._from:
            return
        bound_us = self.bound_us + self._more_us.get(client, 0)
        for source, spans in self._good[client].items():
            entered = self._entered.get(source, {}).get(number)
            if entered is None:
                continue
            due = entered + bound_us
            if any(begin <= entered and due <= end for begin, end in spans):
                self.checked += 1
                self.checked_in_failures += any(a < due and entered < b for a, b in self._failures)
                self.worst = max(self.worst, now - entered)
                if now > due and not self._excused():
                    self.fail(
                        f"{client} heard of bucket {number} {(now - entered) / 1e6:.3f} s after"
                        f" {source} had logged it; {bound_us / 1e6:.3f} s are allowed"
                    )
