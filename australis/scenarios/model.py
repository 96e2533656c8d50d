"""A scenario as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from australis.catalog.cluster import Cluster, machine_name
from australis.diagram.model import Diagram
from australis.kernel.durations import SECOND, format_duration
from australis.kernel.errors import Place

CLIENT = "client"
"""What the one client of a scenario is called."""


class FaultKind(Enum):
    """What goes wrong, by the word that a file has for it."""

    KILL = "kill"
    """The node dies, and is started again."""
    PAUSE = "pause"
    """The node stands still, and goes on."""
    LOSE_DISK = "lose_disk"
    """The node dies with its disk, and is started again."""
    CUT = "cut"
    """Nothing gets through between the node and another one."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at some nodes and is mended after a while."""

    kind: FaultKind
    nodes: tuple[str, ...]
    at_us: int
    """Counted from the moment when all replicas are stable."""
    lasts_us: int
    other: str = ""
    """Of a cut: the node, or the client, at its other end."""
    one_way: bool = False
    """Of a cut: the nodes do not hear the other one, but it hears them."""
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def until_us(self) -> int:
        """When it is mended."""
        return self.at_us + self.lasts_us

    def __str__(self) -> str:
        word = {FaultKind.LOSE_DISK: "lose the disk of"}.get(self.kind, self.kind.value)
        end = f" off from {self.other}" if self.other else ""
        way = ", one way" if self.one_way else ""
        return f"{word} {' and '.join(self.nodes)}{end}{way} for {format_duration(self.lasts_us)}"


@dataclass(frozen=True)
class Expected:
    """What a scenario's client must see; what is not named does not matter."""

    words: Mapping[str, str]
    """For `stable`, `tentative` and `corrected` the word that the verdict must have."""
    silence_us: int | None = None
    """For no longer than this it may hear of nothing new."""
    within_us: int | None = None
    """So long after the last fault it must have everything, for good."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A diagram on nodes, what fails when, and what is expected."""

    name: str
    says: str
    diagram: Diagram
    cluster: Cluster
    """Its nodes have no addresses yet: these are chosen when it runs."""
    lasts_us: int
    faults: tuple[Fault, ...]
    """In the order of their beginnings."""
    expected: Expected
    file: str = field(compare=False)

    @property
    def stream(self) -> str:
        """What the client reads."""
        return self.cluster.clients[CLIENT].stream

    @property
    def healed_us(self) -> int:
        """When the last fault is mended."""
        return max((fault.until_us for fault in self.faults), default=0)

    @cached_property
    def machines(self) -> dict[str, tuple[str, ...]]:
        """What runs on each node; the client runs by itself."""
        found: dict[str, list[str]] = {node: [] for node in [*self.cluster.nodes, CLIENT]}
        for fragment, nodes in self.cluster.replicas.items():
            for node in nodes:
                found[node].append(machine_name(fragment, node))
        for source, node in self.cluster.sources.items():
            found[node].append(source)
        found[CLIENT].append(CLIENT)
        return {node: tuple(machines) for node, machines in found.items()}


def beginning(diagram: Diagram, start: str) -> Diagram:
    """The diagram with sources that begin at a time, and give rows as that time passes."""
    sources = tuple(
        replace(source, options={**source.options, "start": start, "speed": 1})
        for source in diagram.sources
    )
    return replace(diagram, sources=sources)


def seconds(duration_us: int) -> float:
    """The same duration in seconds."""
    return duration_us / SECOND
