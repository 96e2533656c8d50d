"""A diagram as data: sources, operators, sinks, and how it is cut.

The kinds of operator are in `australis.diagram.operators`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from australis.diagram.operators import (
    Aggregate,
    BSort,
    CountWindow,
    Filter,
    Join,
    Map,
    Operator,
    Spark,
    Split,
    TimeWindow,
    Union,
    branch_stream,
)
from australis.diagram.part import Part
from australis.kernel.errors import Place
from australis.streams.buckets import DEFAULT_BUCKET_US, Buckets
from australis.streams.schema import Schema

__all__ = [
    "ARRIVAL",
    "Aggregate",
    "BSort",
    "CountWindow",
    "Cut",
    "Diagram",
    "Filter",
    "Join",
    "Map",
    "Operator",
    "Part",
    "Sink",
    "Source",
    "Spark",
    "Split",
    "TimeWindow",
    "Union",
    "branch_stream",
]

ARRIVAL = "arrival"
"""The value of a source's `time` that stamps tuples when they arrive."""

DEFAULT_REJECTED_BYTES = 16_000_000


@dataclass(frozen=True, kw_only=True)
class Source(Part):
    """A stream that enters the diagram."""

    kind: str
    schema: Schema
    time: str = ARRIVAL
    slack_us: int = 0
    idle_us: int | None = None
    max_ahead_us: int | None = None
    """How far ahead of the clock the times of its rows may lie; None: any time is taken."""
    rejected_bytes: int = DEFAULT_REJECTED_BYTES
    """The largest size of the file of its rejected rows, and of that of its late ones."""
    """The time without rows after which its boundary follows the clock; None: never."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sink(Part):
    """Where an output stream goes."""

    kind: str
    stream: str
    options: Mapping[str, Any] = field(default_factory=dict)


Cut = str | tuple[tuple[str, tuple[str, ...]], ...]
"""How a diagram is cut: "none", "fan-out", or fragments by hand (name and operators)."""


@dataclass(frozen=True)
class Diagram:
    """Sources, operators and sinks, and how they are to be cut."""

    name: str
    sources: tuple[Source, ...]
    operators: tuple[Operator, ...]
    sinks: tuple[Sink, ...] = ()
    outputs: tuple[str, ...] = ()
    bucket_us: int = DEFAULT_BUCKET_US
    cut: Cut = "none"
    place: Place | None = field(default=None, compare=False, repr=False)
    places: Mapping[str, Place] = field(default_factory=dict, compare=False, repr=False)
    """The places of its sections ("bucket") and of their entries ("outputs hot")."""

    def place_of(self, section: str, entry: str = "") -> Place | None:
        """The place of a section, or of an entry in it."""
        of_section = self.places.get(section, self.place)
        return self.places.get(f"{section} {entry}", of_section)

    @property
    def buckets(self) -> Buckets:
        """The division of time all its streams share."""
        return Buckets(self.bucket_us)

    @cached_property
    def producers(self) -> dict[str, Source | Operator]:
        """Who produces each stream."""
        found: dict[str, Source | Operator] = {s.name: s for s in self.sources}
        for operator in self.operators:
            found.update(dict.fromkeys(operator.outputs, operator))
        return found

    @cached_property
    def consumers(self) -> dict[str, tuple[Operator, ...]]:
        """Which operators read each stream."""
        found: dict[str, list[Operator]] = {}
        for operator in self.operators:
            for stream in dict.fromkeys(operator.inputs):
                found.setdefault(stream, []).append(operator)
        return {stream: tuple(readers) for stream, readers in found.items()}

    @cached_property
    def results(self) -> tuple[str, ...]:
        """The streams that leave the diagram: named as outputs, read by a sink, or unread."""
        named = dict.fromkeys([*self.outputs, *(s.stream for s in self.sinks)])
        if named:
            return tuple(named)
        return tuple(
            stream
            for operator in self.operators
            for stream in operator.outputs
            if stream not in self.consumers
        )

    @cached_property
    def in_order(self) -> tuple[Operator, ...]:
        """The operators, each after those it reads from."""
        done: dict[str, Operator] = {}

        def visit(operator: Operator) -> None:
            if operator.name in done:
                return
            for stream in operator.inputs:
                producer = self.producers[stream]
                if isinstance(producer, Operator):
                    visit(producer)
            done[operator.name] = operator

        for operator in self.operators:
            visit(operator)
        return tuple(done.values())
