"""Operators that treat each tuple by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from australis.diagram.operators.base import Operator, branch_stream, named, operator
from australis.diagram.settings import (
    COLUMNS,
    EXPRESSIONS,
    INTEGER,
    NAME,
    PREDICATES,
    STREAMS,
    Pairs,
    Settings,
    Streams,
    Wrong,
    setting,
)
from australis.kernel.errors import UserError
from australis.streams.schema import Schema

REST = "everything else"
MAX_SPLIT_STREAMS = 64


@operator
class Filter(Operator):
    """Sends each tuple to the first branch whose predicate holds (thesis 3.2.1)."""

    kind: ClassVar[str] = "filter"
    where: Pairs = setting(PREDICATES)
    rest: str | None = setting(NAME, default=None)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(branch_stream(self.name, b) for b in self.branches)

    @property
    def branches(self) -> tuple[str, ...]:
        """The names of the branches; the empty name is the only one of a plain filter."""
        return tuple(b for b, _ in self.where) + ((self.rest,) if self.rest is not None else ())

    def verify(self, wrong: Wrong) -> None:
        if self.rest is not None and self.where[0][0] == "":
            raise wrong("rest", "names a rest, so its predicates need names too")
        branches = [branch.lower() for branch in self.branches]
        for branch in branches:
            if branches.count(branch) > 1:
                raise wrong("where", f"has two branches named '{branch}'")

    def summary(self) -> str:
        return "; ".join(self._told())

    def details(self) -> list[str]:
        return "\n".join(self._told()).split("\n")

    def _told(self) -> list[str]:
        told = [f"{branch}: {text}" if branch else text for branch, text in self.where]
        return told if self.rest is None else [*told, f"{self.rest}: {REST}"]


@operator
class Map(Operator):
    """Computes new attributes from each tuple."""

    kind: ClassVar[str] = "map"
    select: Pairs = setting(COLUMNS)

    def summary(self) -> str:
        return ", ".join(self.details())

    def details(self) -> list[str]:
        return list(named(self.select))


@operator
class Union(Operator):
    """Merges streams of one schema."""

    kind: ClassVar[str] = "union"
    takes: ClassVar[Streams] = STREAMS

    def check_schemas(self, schemas: Sequence[Schema]) -> None:
        """Raise a `UserError` if the schemas of its inputs differ in more than their order."""
        first, *others = ({f.name: f.type for f in schema} for schema in schemas)
        for other_name, other in zip(self.inputs[1:], others, strict=True):
            for name in [*first, *other]:
                if first.get(name) != other.get(name):
                    ours, theirs = first.get(name, "missing"), other.get(name, "missing")
                    raise UserError(
                        f"merges streams of unlike schemas: column '{name}' is {ours} in"
                        f" '{self.inputs[0]}' and {theirs} in '{other_name}'"
                    )

    def summary(self) -> str:
        return f"{len(self.inputs)} streams into one"


@operator
class BSort(Operator):
    """Puts a stream into the order of `_stime`; every stable log has that order already."""

    kind: ClassVar[str] = "bsort"

    def summary(self) -> str:
        return "in the order of _stime"


@operator
class Split(Operator):
    """Deals tuples out to several streams by a hash of some attributes."""

    kind: ClassVar[str] = "split"
    also_known: ClassVar[str] = "; or split, where, rest"
    by: tuple[str, ...] = setting(EXPRESSIONS)
    into: int = setting(INTEGER)

    @classmethod
    def written_as(cls, settings: Settings) -> type[Operator]:
        return Filter if "where" in settings else cls

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(branch_stream(self.name, str(i)) for i in range(self.into))

    def verify(self, wrong: Wrong) -> None:
        if not 2 <= self.into <= MAX_SPLIT_STREAMS:
            raise wrong("into", f"splits into 2 to {MAX_SPLIT_STREAMS} streams")

    def summary(self) -> str:
        return f"by {', '.join(self.by)} into {self.into}"
