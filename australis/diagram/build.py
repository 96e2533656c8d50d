"""Diagrams written in Python.

>>> d = DiagramBuilder("hello", bucket="1 s")
>>> readings = d.source("readings", push=True, schema="room string, celsius double")
>>> hot = d.filter("hot", readings, "celsius > 30")
>>> d.done().results
('hot',)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from australis.diagram.check import check
from australis.diagram.model import Diagram, Operator, Sink, Source
from australis.diagram.parts import make_cut, make_operator, make_sink, make_source
from australis.kernel.durations import parse_duration
from australis.kernel.errors import Place, UserError
from australis.streams.buckets import DEFAULT_BUCKET_US

Columns = Iterable[str] | Mapping[str, str]


@dataclass(frozen=True)
class Stream:
    """A stream of the diagram under construction: give it to the next operator."""

    name: str
    branches: tuple[str, ...] = ()

    def __getitem__(self, branch: str | int) -> Stream:
        """One branch of a filter or split."""
        if str(branch) not in self.branches:
            known = ", ".join(self.branches) or "none"
            raise UserError(f"has no branch '{branch}' (known: {known})", name=self.name)
        return Stream(f"{self.name}.{branch}")


class DiagramBuilder:
    """Collects parts; `done` checks them and gives the diagram."""

    def __init__(
        self,
        name: str,
        *,
        bucket: str | None = None,
        fragments: str | Mapping[str, Iterable[str]] = "none",
    ) -> None:
        self._name = name
        self._place = _caller()
        try:
            self._bucket_us = DEFAULT_BUCKET_US if bucket is None else parse_duration(bucket)
        except UserError as error:
            raise error.at(self._place, "bucket") from None
        self._cut = make_cut(fragments, lambda _: self._place)
        self._sources: list[Source] = []
        self._operators: list[Operator] = []
        self._sinks: list[Sink] = []
        self._outputs: list[str] = []

    def source(self, name: str, **settings: Any) -> Stream:
        """A source: one of csv=, jsonl=, parquet=, generate=, tcp=, push=True, and its settings."""
        place = _caller()
        self._sources.append(make_source(name, settings, lambda _: place))
        return Stream(name)

    def filter(
        self, name: str, stream: Stream, where: str | Mapping[str, str], rest: str | None = None
    ) -> Stream:
        """Keep what matches; several named predicates make branches, `rest` takes the others."""
        return self._add(name, {"filter": stream.name, "where": where}, rest=rest)

    def map(self, name: str, stream: Stream, select: Columns) -> Stream:
        """Compute new columns."""
        return self._add(name, {"map": stream.name, "select": _columns(select)})

    def union(self, name: str, *streams: Stream) -> Stream:
        """Merge streams of one schema."""
        return self._add(name, {"union": [s.name for s in streams]})

    def bsort(self, name: str, stream: Stream) -> Stream:
        """Order by `_stime`."""
        return self._add(name, {"bsort": stream.name})

    def aggregate(
        self,
        name: str,
        stream: Stream,
        *,
        window: str,
        slide: str | None = None,
        by: Columns | None = None,
        compute: Mapping[str, str],
        scale: int | None = None,
    ) -> Stream:
        """Compute over windows of time ('60 s') or of tuples ('100 tuples'), per group."""
        settings = {"aggregate": stream.name, "window": window, "compute": compute}
        grouped = None if by is None else _columns(by)
        return self._add(name, settings, slide=slide, by=grouped, scale=scale)

    def join(
        self,
        name: str,
        left: Stream,
        right: Stream,
        *,
        within: str,
        on: str,
        select: Columns | None = None,
    ) -> Stream:
        """Pair tuples of two streams; expressions call the sides `left` and `right`."""
        settings = {"join": [left.name, right.name], "within": within, "on": on}
        return self._add(name, settings, select=None if select is None else _columns(select))

    def split(self, name: str, stream: Stream, *, by: Columns, into: int) -> Stream:
        """Deal tuples out by hash: branches 0, 1, ..."""
        return self._add(name, {"split": stream.name, "by": _columns(by), "into": into})

    def spark(self, name: str, *streams: Stream, function: str | Callable[..., Any]) -> Stream:
        """Your own function from DataFrame to DataFrame."""
        inputs = [s.name for s in streams]
        value = inputs[0] if len(inputs) == 1 else inputs
        return self._add(name, {"spark": value, "function": function})

    def sink(self, name: str, stream: Stream, **settings: Any) -> None:
        """A sink: one of jsonl=, parquet=, console=True, callback=function."""
        place = _caller()
        self._sinks.append(make_sink(name, {"from": stream.name, **settings}, lambda _: place))

    def output(self, *streams: Stream) -> None:
        """Keep these streams as results, to be read while or after the diagram runs."""
        self._outputs.extend(s.name for s in streams)

    def done(self) -> Diagram:
        """The finished diagram, checked."""
        diagram = Diagram(
            name=self._name,
            sources=tuple(self._sources),
            operators=tuple(self._operators),
            sinks=tuple(self._sinks),
            outputs=tuple(dict.fromkeys(self._outputs)),
            bucket_us=self._bucket_us,
            cut=self._cut,
            place=self._place,
        )
        check(diagram)
        return diagram

    def _add(self, name: str, settings: Mapping[str, Any], **optional: Any) -> Stream:
        place = _caller()
        given = {key: value for key, value in optional.items() if value is not None}
        operator = make_operator(name, {**settings, **given}, lambda _: place)
        self._operators.append(operator)
        if operator.outputs == (name,):
            return Stream(name)
        return Stream(name, tuple(s.removeprefix(f"{name}.") for s in operator.outputs))


def _columns(columns: Columns) -> Any:
    if isinstance(columns, str):
        return [columns]
    return dict(columns) if isinstance(columns, Mapping) else list(columns)


def _caller() -> Place:
    """The line outside this file that called."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
