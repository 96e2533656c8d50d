"""The directory of a node: refused if it is another's, and then kept as its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from australis.deployment.cluster import Cluster
from australis.diagram.model import Diagram
from australis.kernel.durations import MILLISECOND
from australis.kernel.errors import Damaged
from australis.runtime.epoch import began_us
from australis.runtime.node.paired import new_standing
from australis.runtime.node.settings import Layout
from australis.runtime.sealed import own, read_sealed, write_sealed
from australis.runtime.state import DIAGRAM, Claim, StateDirectory

INCARNATION = "incarnation"
"""The file of the number of the latest incarnation."""


class NodeDirectory(StateDirectory):
    """The state directory of one node of a cluster."""

    def __init__(self, cluster: Cluster, node: str, base: Path, layout: Layout) -> None:
        super().__init__(layout.root)
        self._cluster = cluster
        self._node = node
        self._cluster_state = base / cluster.state
        self._layout = layout
        self._before: Claim | None = None

    @property
    def _epoch_us(self) -> int:
        assert self._cluster.epoch_us is not None
        return self._cluster.epoch_us

    def refuse_foreign(self) -> None:
        """Refuse the state of another node, and one with another epoch; nothing is written."""
        claim = self._before = self.claimed
        if claim is None and (self.root / INCARNATION).exists():
            raise Damaged(
                f"{self.root / DIAGRAM}, which says whose state this is, is missing:"
                " `australis fsck --repair` takes it from another node"
            )
        if claim is not None:
            claim.refuse_owner(self._cluster.name, self._node, self.root)
            claim.refuse_epoch(self._epoch_us, self._cluster.place)

    def claim(
        self, diagram: Diagram, functions: dict[str, str], began: Callable[[], int] | None
    ) -> int | None:
        """Make this the state of the diagram, once it is known to be sound.

        Returns when the cluster began on this machine, by `began` if no node has noted it yet;
        None if nothing here paces itself by that.
        """
        at_us = None
        if began is not None:
            known = None if self._before is None else self._before.began_us
            at_us = began_us(self._cluster_state, began() if known is None else known)
        about = self.describe(diagram, functions)
        self.save_claim(Claim(self._cluster.name, self._node, self._epoch_us, at_us, about))
        return at_us

    def next_incarnation(self) -> int:
        """A number higher than in every incarnation before, even on a disk that was lost."""
        path = self.root / INCARNATION
        before = read_incarnation(path)
        incarnation = max(before + 1, (time.time_ns() // 1000 - self._epoch_us) // MILLISECOND, 1)
        write_sealed(path, INCARNATION, str(incarnation).encode())
        return incarnation

    def source(self, stream: str, *files: str) -> Path:
        """The directory of a source, which is this node's, with the files of what it decided."""
        directory = self._layout.source(stream)
        if not self._layout.flat:
            first = {name: new_standing(directory / name) for name in files}
            own(directory, f"source {stream} {self._whose}", first)
        return directory

    def replica(self, machine: str) -> Path:
        """The directory of a replica, which is this node's."""
        directory = self._layout.lanes(machine)
        if not self._layout.flat:
            own(directory, f"replica {machine} {self._whose}")
        return directory

    @property
    def _whose(self) -> str:
        return f"of node {self._node} of cluster {self._cluster.name}"


def read_incarnation(path: Path) -> int:
    """The number of the latest incarnation; 0 before the first."""
    remedy = "remove it, and the next number is taken from the clock"
    return int(read_sealed(path, INCARNATION, remedy) or b"0")
