"""What the parts of an application on a node share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from australis.deployment.cluster import Cluster
from australis.diagram.model import Diagram
from australis.node.machine import NodeMachine
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.topology import Topology
from australis.runtime.node.damaged import Damages
from australis.runtime.node.directory import NodeDirectory
from australis.runtime.node.driver import Driver, WallClock
from australis.runtime.node.events import Tell
from australis.runtime.node.settings import Layout, NodeSettings
from australis.streams.log import segment_bytes_of


@dataclass(frozen=True)
class NodeContext:
    """What the parts of an application share: what it was started with, and what it runs on."""

    cluster: Cluster
    diagram: Diagram
    name: str
    base: Path
    """The directory at which paths in the diagram begin."""
    settings: NodeSettings
    layout: Layout
    state: NodeDirectory
    options: DpcOptions
    topology: Topology
    tell: Tell
    clock: WallClock
    machines: NodeMachine
    driver: Driver
    damages: Damages
    failed: Callable[[BaseException], None]
    """Ends the application on this node for an error, or the node."""
    notify: Callable[[], None]
    """Says that a log or a sink has advanced."""

    @property
    def epoch_us(self) -> int:
        """When the cluster's streams begin."""
        assert self.cluster.epoch_us is not None
        return self.cluster.epoch_us

    @property
    def base_bucket(self) -> int:
        """The last bucket before the epoch."""
        return self.diagram.buckets.closed_by(self.epoch_us)

    def segment_bytes(self, stream: str) -> int:
        """The size of the segments of a stream's log."""
        return segment_bytes_of(self.options.bounds_of(stream).max_bytes)
