"""A cluster: its nodes, and what of a diagram runs on each.

Names in it are stable: logs, connections and certificates are keyed by them. A
machine is called by what it does: a replica `fragment@node`, a source's proxy as
its stream, a client by its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import Place

Engine = Literal["spark", "reference"]
"""What computes the plans of a node."""
LOOPBACK = "127.0.0.1"
"""Where only this machine can reach what listens."""


@dataclass(frozen=True)
class NodePlace:
    """A node: where it listens, what it computes with, and whose it is."""

    name: str
    host: str
    port: int
    master: str = "local[1]"
    """The Spark master of its queries."""
    engine: Engine = "spark"
    memory_mb: int = 1024
    """The heap of its JVM, which takes as much from the beginning and never more."""
    owner: str | None = None
    metrics: int | None = None
    """The port at which its own machine, and no other, can read its metrics."""
    trace: bool = False
    """Whether it writes down everything that it handles."""

    @property
    def address(self) -> str:
        """Host and port as people write them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True)
class ClientPlace:
    """A durable reader: the log of its stream is kept until it has read it."""

    name: str
    stream: str


@dataclass(frozen=True)
class Tls:
    """Who vouches for the nodes, and where each has its certificate."""

    ca: str
    certificates: str

    def certificate(self, node: str) -> str:
        """The file with a node's certificate."""
        return f"{self.certificates}/{node}.pem"

    def key(self, node: str) -> str:
        """The file with a node's private key."""
        return f"{self.certificates}/{node}.key"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Nodes, and what runs on each; paths are as the file has them."""

    name: str
    diagram_path: str
    state: str
    """Each node keeps its own below it."""
    max_delay_us: int = 3 * SECOND
    """X: the delay accepted rather than inconsistency."""
    hop_us: int | None = None
    """What a tuple needs from one node's log to the next one's; None: what its engine needs."""
    heartbeat_us: int = 100 * MILLISECOND
    epoch_us: int | None = None
    """No tuple is older than this."""
    nodes: dict[str, NodePlace]
    replicas: dict[str, tuple[str, ...]]
    """The nodes that run each fragment."""
    sources: dict[str, str]
    """The node that each source's proxy runs on."""
    clients: dict[str, ClientPlace] = field(default_factory=dict)
    participants: tuple[str, ...] = ()
    """Who may own nodes."""
    tls: Tls | None = None
    faults: bool = False
    """Whether failures may be rehearsed."""
    place: Place | None = field(default=None, compare=False, repr=False)
    places: Mapping[str, Place] = field(default_factory=dict, compare=False, repr=False)
    """Where its sections stand ("tls") and what they list ("nodes a")."""

    def place_of(self, section: str, entry: str = "") -> Place | None:
        """Where a section, or what it lists, was written."""
        of_section = self.places.get(section, self.place)
        return self.places.get(f"{section} {entry}", of_section)

    @property
    def machines(self) -> dict[str, tuple[str, ...]]:
        """The replicas of each fragment, by the names of their machines."""
        return {f: tuple(machine_name(f, n) for n in nodes) for f, nodes in self.replicas.items()}

    @property
    def readers(self) -> dict[str, str]:
        """The stream that each client reads."""
        return {client.name: client.stream for client in self.clients.values()}


def machine_name(fragment: str, node: str) -> str:
    """What the replica of a fragment on a node is called."""
    return f"{fragment}@{node}"
