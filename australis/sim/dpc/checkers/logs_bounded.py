"""Logs are bounded by configuration, whoever is absent and for how long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """Nothing is appended to a full log, so that it exceeds its bounds by one release at most."""

    name = "log bounds"

    def __init__(self, options: DpcOptions, log: Callable[[str, str], Log]) -> None:
        """A checker of logs that are found by node and stream."""
        self._options = options
        self._log = log

    def appended(self, node: str, stream: str, end: int, new: Sequence[Bucket]) -> None:
        log = self._log(node, stream)
        self._look(node, stream, log.kept_bytes, log.end - log.trimmed_upto)

    def entered(self, source: str, new: Sequence[Bucket], now: int) -> None:
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
