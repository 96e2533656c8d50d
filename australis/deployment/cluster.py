"""A cluster: its nodes, and the parts of a diagram that run on each.

Names in it are stable: logs, connections and certificates are keyed by them. A
machine is named by its task: a replica `fragment@node`, a source's proxy as its
stream (`stream@node` if it has a standby), a client by its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import Place

Engine = Literal["spark", "reference"]
"""The engine that computes the plans of a node."""
PolicyName = Literal["process", "delay", "suspend"]
"""What happens to new tuples while an input is missing, or while results are corrected."""
LOOPBACK = "127.0.0.1"
"""The address that only this machine can reach."""
OPERATOR = "operator"
"""The name of the operator's certificate, unless the cluster file names others."""


@dataclass(frozen=True)
class NodePlace:
    """A node: its address, its engine, and its owner."""

    name: str
    host: str
    port: int
    master: str = "local[1]"
    """The Spark master of its queries."""
    engine: Engine = "spark"
    memory_mb: int = 1024
    """The heap of its JVM in megabytes, which is committed from the start and never grows."""
    owner: str | None = None
    metrics: int | None = None
    """The port at which its own machine, and no other, can read its metrics."""
    trace: bool = False
    """Whether it records every event that it handles."""

    @property
    def address(self) -> str:
        """The host and port as one text."""
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
class StandbyPlace:
    """The standby of a source's proxy, and the witness of the two."""

    node: str
    """The node that keeps a copy of the source's log and takes over when its own is lost."""
    witness: str
    """The third node, which decides which of the two leads."""


@dataclass(frozen=True)
class ClientPlace:
    """A durable client: the log of its stream is kept until it has read it."""

    name: str
    stream: str
    hedge: int = 1
    """The number of replicas that it follows at once."""
    reads: tuple[str, ...] | None = None
    """The streams that it may read besides; None: all."""


@dataclass(frozen=True)
class Policies:
    """What the replicas do about failures."""

    up_failure: PolicyName = "process"
    """What they do with new tuples while an input is missing, once `max_delay` is over."""
    stabilization: PolicyName = "delay"
    """The same while results are corrected."""
    staggered: bool = False
    """Whether the replicas of a fragment correct their results one after the other."""
    hedged: bool = False
    """Whether they follow two replicas of each input at once."""


@dataclass(frozen=True)
class ResultPromise:
    """What is promised for one result, where that differs from the cluster's promise."""

    name: str
    max_delay_us: int | None = None
    tentative: Literal["allowed", "never"] = "allowed"


@dataclass(frozen=True)
class SinkPlace:
    """Where a sink of the diagram runs, and where it writes, if the cluster says so."""

    name: str
    node: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class LogChoice:
    """How long logs are kept, and how much of them."""

    keep_us: int = 0
    """The end of a stream that is kept although all consumers have acknowledged it."""
    max_bytes: int | None = None
    max_buckets: int | None = None
    full: Literal["wait", "skip"] = "wait"
    """Whether a full log waits for all consumers, or skips those that are absent."""


@dataclass(frozen=True)
class Leases:
    """The silence of a consumer after which logs no longer wait for it; None: they always do."""

    clients_us: int | None = 86_400 * SECOND
    sinks_us: int | None = None
    replicas_us: int | None = None
    """Logs wait for a fragment's replicas all the same while none of them is heard."""


@dataclass(frozen=True)
class Tls:
    """The authority of the nodes' certificates, and the files of each."""

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
    """The nodes of a cluster, and what runs on each; paths are as in the cluster file."""

    name: str
    diagram_path: str
    """The diagram that it runs from the beginning; empty if there is none."""
    state: str
    """The state directory, below which each node keeps its own."""
    max_delay_us: int = 3 * SECOND
    """The accepted delay X, after which tentative results are released."""
    hop_us: int | None = None
    """The allowance for a hop from one node's log to the next one's; None: the engine's default."""
    heartbeat_us: int = 100 * MILLISECOND
    clock_bound_us: int = SECOND
    """The offset of another node's clock that a node warns of."""
    policies: Policies = field(default_factory=Policies)
    results: dict[str, ResultPromise] = field(default_factory=dict)
    """The results with promises of their own."""
    log: LogChoice = field(default_factory=LogChoice)
    logs: dict[str, LogChoice] = field(default_factory=dict)
    """The logs of streams for which something else is chosen."""
    leases: Leases = field(default_factory=Leases)
    epoch_us: int | None = None
    """The time before which there are no tuples."""
    nodes: dict[str, NodePlace]
    replicas: dict[str, tuple[str, ...]]
    """The nodes that run each fragment."""
    sources: dict[str, str]
    """The node that each source's proxy runs on; with a standby, the one that leads at first."""
    standbys: dict[str, StandbyPlace] = field(default_factory=dict)
    """The sources that have a second proxy."""
    clients: dict[str, ClientPlace] = field(default_factory=dict)
    sinks: dict[str, SinkPlace] = field(default_factory=dict)
    """What is said of the diagram's sinks; `sink_places` knows the nodes of all."""
    operators: tuple[str, ...] = ()
    """The names in certificates of those who may inject faults."""
    keepers: tuple[str, ...] = ()
    """The nodes that keep what runs where; a majority of them decides changes."""
    participants: tuple[str, ...] = ()
    """The participants that may own nodes."""
    tls: Tls | None = None
    faults: bool = False
    """Whether faults may be injected."""
    place: Place | None = field(default=None, compare=False, repr=False)
    places: Mapping[str, Place] = field(default_factory=dict, compare=False, repr=False)
    """The places in the file of its sections ("tls") and of their entries ("nodes a")."""

    def place_of(self, section: str, entry: str = "") -> Place | None:
        """The place in the file of a section, or of one of its entries."""
        of_section = self.places.get(section, self.place)
        return self.places.get(f"{section} {entry}", of_section)

    @property
    def machines(self) -> dict[str, tuple[str, ...]]:
        """The replicas of each fragment, by the names of their machines."""
        return {f: tuple(machine_name(f, n) for n in nodes) for f, nodes in self.replicas.items()}

    @property
    def source_machines(self) -> dict[str, dict[str, str]]:
        """The proxies of each source by the names of their machines, with their nodes."""
        found = {}
        for source, node in self.sources.items():
            standby = self.standbys.get(source)
            nodes = () if standby is None else (node, standby.node)
            found[source] = {machine_name(source, n): n for n in nodes} or {source: node}
        return found

    @property
    def witnesses(self) -> dict[str, str]:
        """The machines that are witnesses of sources, with their nodes."""
        return {witness_machine(source): one.witness for source, one in self.standbys.items()}

    def sources_on(self, node: str) -> list[str]:
        """The sources that have a proxy on a node."""
        machines = self.source_machines
        return [source for source in self.sources if node in machines[source].values()]

    @property
    def delays(self) -> dict[str, int | None]:
        """The accepted delays of results with one of their own; None: never tentative."""
        return {
            result: None if one.tentative == "never" else one.max_delay_us
            for result, one in self.results.items()
            if one.tentative == "never" or one.max_delay_us is not None
        }

    @property
    def hedged(self) -> set[str]:
        """The clients that follow two replicas at once."""
        return {client.name for client in self.clients.values() if client.hedge > 1}

    @property
    def readers(self) -> dict[str, str]:
        """The stream that each client reads."""
        return {client.name: client.stream for client in self.clients.values()}


def sink_machine(sink: str) -> str:
    """The machine name of a sink's client proxy."""
    return f"sink {sink}"


def witness_machine(source: str) -> str:
    """The machine name of the witness of a source that has a standby."""
    return f"witness {source}"


def machine_name(fragment: str, node: str) -> str:
    """The machine name of the replica of a fragment on a node, or of one of a source's proxies."""
    return f"{fragment}@{node}"


SERVICES = ("steward", "proposer", "keeper")
"""What runs on nodes beside the machines of a diagram; no fragment has such a name."""


def steward_machine(node: str) -> str:
    """The machine name of the steward of a node."""
    return machine_name("steward", node)


def proposer_machine(node: str) -> str:
    """The machine name of the proposer of a node."""
    return machine_name("proposer", node)


def keeper_machine(node: str) -> str:
    """The machine name of the keeper on a node."""
    return machine_name("keeper", node)


def node_of_machine(machine: str) -> str:
    """The node in the name of a machine.

    >>> node_of_machine("suspects@c#2"), node_of_machine("steward@a")
    ('c', 'a')
    """
    return machine.partition("@")[2].partition("#")[0]
