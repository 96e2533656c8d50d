"""What a disk gives back wrongly is noticed and told, or changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from australis.kernel.errors import Damaged
from australis.protocols.dpc.effects import AnnounceWentBack
from australis.protocols.dpc.topology import Topology
from australis.sim.dpc.oracle import Oracle
from australis.sim.dpc.probes import Checker
from australis.sim.dpc.store import SimLog
from australis.sim.faults import Lie

READ_BUCKETS = 3
"""All but so many of the newest buckets have been read before they are lost."""


class DamageTold(Checker):
    """Damage is told if there is any and only then, and all that logs hold is right."""

    name = "disks"

    def __init__(
        self,
        topology: Topology,
        oracle: Oracle,
        log: Callable[[str, str], SimLog],
    ) -> None:
        self._topology = topology
        self._oracle = oracle
        self._log = log
        self._lies: set[tuple[str, str]] = set()
        self._evident: set[tuple[str, str]] = set()
        """The logs whose own files show that they are damaged."""
        self._gone_back: set[str] = set()
        """The sources that have lost what others have read."""
        self._damaged: set[tuple[str, str]] = set()
        self._announced: set[tuple[str, str]] = set()
        """The nodes that said of a source that it has gone back."""

    def lied(self, node: str, stream: str, kind: Lie, lost: int) -> None:
        log = self._log(node, stream)
        self._lies.add((node, stream))
        if log.overwritten or log.mark > log.end:
            self._evident.add((node, stream))
        if stream in self._topology.sources and self._has_tuples(stream, log.end, lost):
            self._gone_back.add(stream)

    def _has_tuples(self, stream: str, end: int, lost: int) -> bool:
        """Whether buckets that have been read and are lost behind `end` held tuples."""
        read = range(end + 1, end + lost - READ_BUCKETS + 1)
        return any(self._oracle.content(stream, number) is not None for number in read)

    def damaged(self, node: str, stream: str, error: Damaged) -> None:
        if (node, stream) not in self._lies:
            self.fail(f"{node} says of {stream} that {error}, but it is what was written")
        self._damaged.add((node, stream))

    def went_back(self, node: str, effect: AnnounceWentBack) -> None:
        if (effect.stream, effect.stream) not in self._lies:
            self.fail(f"{node} says that {effect.stream} has gone back, but it has not")
        self._announced.add((node, effect.stream))

    @property
    def ended(self) -> bool:
        """Whether a source cannot go on until its operator puts its log back."""
        sources = self._topology.sources
        lost = any(stream in sources for _, stream in self._damaged)
        return lost or any(node in sources for node, _ in self._announced)

    def finish(self) -> None:
        for stream in sorted(self._gone_back):
            if (stream, stream) not in self._damaged:
                self._check_announced(stream)
        for node, stream in sorted(self._evident - self._damaged):
            self.fail(f"{node} does not say that its log of {stream} is damaged")
        for replica in self._topology.replicas:
            for output in replica.outputs:
                self._check_log(replica.name, output.stream)

    def _check_announced(self, stream: str) -> None:
        readers = [r.name for r in self._topology.replicas if stream in r.producers]
        for node in (stream, *readers):
            if (node, stream) not in self._announced:
                self.fail(f"{node} does not say that {stream} has gone back")

    def _check_log(self, node: str, stream: str) -> None:
        log = self._log(node, stream)
        for number in range(log.trimmed_upto + 1, log.end + 1):
            if number in log.rotten:
                continue  # nobody has read it, or could
            (bucket,) = log.read(number - 1, number)
            if not self._oracle.same(stream, bucket):
                self.fail(f"{node} has other tuples of {stream} in bucket {number}")
