"""The parts of a diagram.

Every part has a required, stable name: logs, checkpoints and metrics are keyed
by it. Where a part was written down (`place`) does not count when two parts are
compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from australis.diagram.aggregates import AggregateCall
from australis.kernel.errors import Place
from australis.streams.buckets import DEFAULT_BUCKET_US, Buckets
from australis.streams.schema import Schema

ARRIVAL = "arrival"
"""The value of a source's `time` that stamps tuples when they arrive."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What sources, operators and sinks have in common."""

    name: str
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Source(Part):
    """A stream that enters the diagram."""

    kind: str
    schema: Schema
    time: str = ARRIVAL
    slack_us: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sink(Part):
    """Where an output stream goes."""

    kind: str
    stream: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Operator(Part):
    """A box of the diagram: input streams in, output streams out."""

    kind: ClassVar[str]
    inputs: tuple[str, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the streams it produces."""
        return (self.name,)

    def expressions(self) -> Iterator[str]:
        """The Spark SQL expressions the user wrote for it."""
        return iter(())


@dataclass(frozen=True, kw_only=True)
class Filter(Operator):
    """Sends each tuple to the first branch whose predicate holds (thesis 3.2.1)."""

    kind: ClassVar[str] = "filter"
    where: tuple[tuple[str, str], ...]
    rest: str | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(branch_stream(self.name, b) for b in self.branches)

    @property
    def branches(self) -> tuple[str, ...]:
        """The names of the branches; the empty name is the only one of a plain filter."""
        return tuple(b for b, _ in self.where) + ((self.rest,) if self.rest is not None else ())

    def expressions(self) -> Iterator[str]:
        return (predicate for _, predicate in self.where)


@dataclass(frozen=True, kw_only=True)
class Map(Operator):
    """Computes new attributes from each tuple."""

    kind: ClassVar[str] = "map"
    select: tuple[tuple[str, str], ...]

    def expressions(self) -> Iterator[str]:
        return (expression for _, expression in self.select)


@dataclass(frozen=True, kw_only=True)
class Union(Operator):
    """Merges streams of one schema."""

    kind: ClassVar[str] = "union"


@dataclass(frozen=True, kw_only=True)
class BSort(Operator):
    """Puts a stream into the order of `_stime`; every stable log has that order already."""

    kind: ClassVar[str] = "bsort"


@dataclass(frozen=True)
class TimeWindow:
    """Windows [start, start + size), one every `slide`, aligned to 1970."""

    size_us: int
    slide_us: int


@dataclass(frozen=True)
class CountWindow:
    """Windows of `size` tuples, one every `slide` tuples, per group."""

    size: int
    slide: int


@dataclass(frozen=True, kw_only=True)
class Aggregate(Operator):
    """Computes functions over windows of tuples, per group."""

    kind: ClassVar[str] = "aggregate"
    window: TimeWindow | CountWindow
    by: tuple[tuple[str, str], ...] = ()
    compute: tuple[tuple[str, AggregateCall], ...] = ()
    scale: int = 6
    """Decimal places kept of floating-point values in sums, averages and deviations."""

    def expressions(self) -> Iterator[str]:
        yield from (expression for _, expression in self.by)
        yield from (argument for _, call in self.compute for argument in call.arguments)


@dataclass(frozen=True, kw_only=True)
class Join(Operator):
    """Pairs tuples of two streams that lie within a window of `_stime` and match."""

    kind: ClassVar[str] = "join"
    within_us: int
    on: str
    select: tuple[tuple[str, str], ...] = ()

    def expressions(self) -> Iterator[str]:
        yield self.on
        yield from (expression for _, expression in self.select)


@dataclass(frozen=True, kw_only=True)
class Split(Operator):
    """Deals tuples out to several streams by a hash of some attributes."""

    kind: ClassVar[str] = "split"
    by: tuple[str, ...]
    into: int

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(branch_stream(self.name, str(i)) for i in range(self.into))

    def expressions(self) -> Iterator[str]:
        return iter(self.by)


@dataclass(frozen=True, kw_only=True)
class Spark(Operator):
    """The user's own function from DataFrame to DataFrame."""

    kind: ClassVar[str] = "spark"
    function: str
    """`module:name`, or `file.py:name` beside the diagram."""
    call: Callable[..., Any] | None = field(default=None, compare=False, repr=False)


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
    """Where its sections stand ("bucket") and what they list ("outputs hot")."""

    def place_of(self, section: str, entry: str = "") -> Place | None:
        """Where a section, or what it lists, was written."""
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


def branch_stream(operator: str, branch: str) -> str:
    """The stream of one branch of an operator."""
    return f"{operator}.{branch}" if branch else operator
