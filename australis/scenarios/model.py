"""A scenario as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from australis.deployment.cluster import Cluster, machine_name
from australis.diagram.model import Diagram
from australis.kernel.durations import SECOND, format_duration
from australis.kernel.errors import Place

CLIENT = "client"
"""The name by which faults know the program that reads the results; its first client has it too."""


class FaultKind(Enum):
    """A kind of fault, by its name in scenario files."""

    KILL = "kill"
    """The node crashes, and is started again."""
    PAUSE = "pause"
    """The node is paused, and resumed."""
    LOSE_DISK = "lose_disk"
    """The node crashes and loses its disk, and is started again."""
    CUT = "cut"
    """No message passes between the node and another one."""
    SLOW = "slow"
    """Every message between the node and another one takes longer."""

    @property
    def of_links(self) -> bool:
        """Whether it is a fault of the links between nodes, not of the nodes."""
        return self in (FaultKind.CUT, FaultKind.SLOW)


@dataclass(frozen=True)
class Fault:
    """A fault of some nodes, which is mended after a while."""

    kind: FaultKind
    nodes: tuple[str, ...]
    at_us: int
    """When it begins, counted from the moment when all replicas are stable."""
    lasts_us: int
    other: str = ""
    """For a fault of links, the node or the client at the other end."""
    one_way: bool = False
    """For a fault of links, whether only messages from the other end to the nodes are touched."""
    by_us: int = 0
    """For slow links, how much longer each message takes."""
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def until_us(self) -> int:
        """When the fault is mended."""
        return self.at_us + self.lasts_us

    def __str__(self) -> str:
        nodes, duration = " and ".join(self.nodes), format_duration(self.lasts_us)
        way = ", one way" if self.one_way else ""
        match self.kind:
            case FaultKind.LOSE_DISK:
                return f"lose the disk of {nodes} for {duration}"
            case FaultKind.CUT:
                return f"cut {nodes} off from {self.other}{way} for {duration}"
            case FaultKind.SLOW:
                by = format_duration(self.by_us)
                return f"slow {nodes} from {self.other} by {by}{way} for {duration}"
        return f"{self.kind.value} {nodes} for {duration}"


@dataclass(frozen=True)
class Expected:
    """What a scenario's clients must observe; fields that are not set are not checked."""

    words: Mapping[str, str]
    """The word required of the verdict for `stable`, `tentative` and `corrected`."""
    silence_us: int | None = None
    """The longest time without new tuples for the client."""
    tentative_at_most: int | None = None
    """The largest number of tuples that may be tentative at their first delivery."""
    within_us: int | None = None
    """The time after the last fault within which the client must have everything, for good."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A diagram on nodes, a schedule of faults, and what is expected."""

    name: str
    says: str
    diagram: Diagram
    cluster: Cluster
    """The cluster, whose nodes get their addresses when the scenario runs."""
    clocks: Mapping[str, int] = field(default_factory=dict)
    """How many microseconds the clocks of nodes are ahead, or behind if negative."""
    lasts_us: int
    faults: tuple[Fault, ...]
    """The faults, in the order in which they begin."""
    expected: Expected
    file: str = field(compare=False)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that are read, each by a client of its own."""
        return tuple(client.stream for client in self.cluster.clients.values())

    @property
    def healed_us(self) -> int:
        """When the last fault is mended."""
        return max((fault.until_us for fault in self.faults), default=0)

    @cached_property
    def machines(self) -> dict[str, tuple[str, ...]]:
        """The machines on each node; the clients run by themselves."""
        found: dict[str, list[str]] = {node: [] for node in self.cluster.nodes}
        for fragment, nodes in self.cluster.replicas.items():
            for node in nodes:
                found[node].append(machine_name(fragment, node))
        for proxies in self.cluster.source_machines.values():
            for machine, node in proxies.items():
                found[node].append(machine)
        for witness, node in self.cluster.witnesses.items():
            found[node].append(witness)
        found[CLIENT] = [*self.cluster.clients]
        return {node: tuple(machines) for node, machines in found.items()}


def beginning(diagram: Diagram, start: str) -> Diagram:
    """The diagram with sources that begin at the given time and produce rows in real time."""
    sources = tuple(
        replace(source, options={**source.options, "start": start, "speed": 1})
        for source in diagram.sources
    )
    return replace(diagram, sources=sources)


def seconds(duration_us: int) -> float:
    """The same duration in seconds."""
    return duration_us / SECOND
