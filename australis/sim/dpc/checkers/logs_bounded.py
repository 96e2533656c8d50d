"""Logs are bounded by configuration, whoever is absent and for how long."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.options import DpcOptions
from australis.sim.dpc.probes import Checker
from australis.sim.dpc.store import bytes_of


class Log(Protocol):
    """The size of a log."""

    @property
    def kept_bytes(self) -> int:
        """The bytes that it holds."""
        ...

    @property
    def end(self) -> int:
        """Its last bucket."""
        ...

    @property
    def trimmed_upto(self) -> int:
        """The last bucket that it no longer holds."""
        ...


class BoundedLogs(Checker):
    """Nothing is appended to a full log, so that it exceeds its bounds by one release at most.

    The copy of a source's log at its standby may exceed them by the largest release of the source.
    """

    name = "log bounds"

    def __init__(
        self,
        options: DpcOptions,
        log: Callable[[str, str], Log],
        pairs: Collection[str] = (),
    ) -> None:
        """A checker of logs that are found by node and stream, with the sources of two proxies."""
        self._options = options
        self._pairs = pairs
        self._log = log
        self._released: dict[str, tuple[int, int]] = {}
        """The bytes and buckets of the largest release of each source with two proxies."""

    def appended(self, node: str, stream: str, end: int, new: Sequence[Bucket]) -> None:
        log = self._log(node, stream)
        self._look(node, stream, log.kept_bytes, log.end - log.trimmed_upto)

    def extended(self, node: str, stream: str, new: Sequence[Bucket], *, leads: bool) -> None:
        log = self._log(node, stream)
        held_bytes, buckets = log.kept_bytes, log.end - log.trimmed_upto
        largest = self._released.get(stream, (0, 0))
        if leads:
            size = sum(map(bytes_of, new))
            self._released[stream] = (max(size, largest[0]), max(len(new), largest[1]))
        elif new:
            held_bytes -= largest[0]
            buckets -= largest[1]
        self._look(node, stream, held_bytes, buckets)

    def entered(self, source: str, new: Sequence[Bucket], now: int) -> None:
        if source in self._pairs:
            return
        log = self._log(source, source)
        before = log.kept_bytes - sum(map(bytes_of, new))
        self._look(source, source, before, log.end - log.trimmed_upto - len(new))

    def _look(self, node: str, stream: str, held_bytes: int, buckets: int) -> None:
        bounds = self._options.bounds_of(stream)
        if bounds.max_bytes is not None and held_bytes > bounds.max_bytes:
            self.fail(
                f"{node} appends to the log of {stream}, which has {held_bytes} bytes of"
                f" {bounds.max_bytes}"
            )
        if bounds.max_buckets is not None and buckets >= bounds.max_buckets:
            self.fail(
                f"{node} appends to the log of {stream}, which has {buckets} buckets of"
                f" {bounds.max_buckets}"
            )
