"""Diagrams written in Python.

>>> d = DiagramBuilder("hello", bucket="1 s")
>>> readings = d.source("readings", push=True, schema="room string, celsius double")
>>> hot = d.filter("hot", readings, "celsius > 30")
>>> d.done().results
('hot',)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from australis.diagram.check import check
from australis.diagram.model import Diagram, Operator, Sink, Source
from australis.diagram.operators import OPERATORS
from australis.diagram.parts import make_cut, make_operator, make_sink, make_source
from australis.diagram.settings import shown
from australis.kernel.durations import parse_duration
from australis.kernel.errors import Place, UserError
from australis.kernel.names import known_names, listed, meant
from australis.streams.buckets import DEFAULT_BUCKET_US

M = TypeVar("M", bound=Callable[..., Any])
Columns = Iterable[str] | Mapping[str, str]


@dataclass(frozen=True)
class Stream:
    """A stream of the diagram under construction: give it to the next operator."""

    name: str
    branches: tuple[str, ...] = ()
    builder: DiagramBuilder | None = field(default=None, compare=False, repr=False)
    """The builder of the diagram it belongs to."""

    def __getitem__(self, branch: str | int) -> Stream:
        """One branch of a filter or split."""
        if str(branch) not in self.branches:
            hint = known_names(str(branch), self.branches)
            raise UserError(f"has no branch '{branch}' ({hint})", name=self.name, place=_caller())
        return Stream(f"{self.name}.{branch}", builder=self.builder)


def _checked(method: M) -> M:
    """The same method, which refuses arguments that do not fit with a `UserError`."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def called(*given: Any, **named: Any) -> Any:
        try:
            signature.bind(*given, **named)
        except TypeError:
            raise _misfit(method.__name__, signature, given, named) from None
        return method(*given, **named)

    return cast(M, called)


def _misfit(
    kind: str, signature: inspect.Signature, given: tuple[Any, ...], named: Mapping[str, Any]
) -> UserError:
    """The error for arguments that do not fit a method."""
    known = [name for name in signature.parameters if name != "self"]
    unknown = next((name for name in named if name not in known), None)
    name = given[1] if given[1:] else named.get("name")
    subject = name if isinstance(name, str) else "diagram" if kind == "__init__" else kind
    try:
        bound = signature.bind_partial(*given, **named).arguments
        missing = [
            f"'{one.name}'"
            for one in signature.parameters.values()
            if one.name not in bound and one.default is one.empty and one.kind in _REQUIRED
        ]
        sentence = f"needs {', '.join(missing)}"
    except TypeError:
        if unknown is not None:
            sentence = f"has an unknown setting '{unknown}' (known: {listed(known, unknown)})"
        else:
            sentence = f"should be given as {kind}({', '.join(known)})"
    return UserError(sentence, name=subject, place=_caller())


_REQUIRED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
"""Kinds of parameters that are required if they have no default."""


class DiagramBuilder:
    """Collects parts; `done` checks them and gives the diagram.

    Every kind of operator is a method: `d.KIND(name, *streams, **settings)` gives its output. The
    methods written out below serve editors and type checkers; other kinds have a method too.
    """

    @_checked
    def __init__(
        self,
        name: str,
        *,
        bucket: str | None = None,
        fragments: str | Mapping[str, Iterable[str]] = "none",
    ) -> None:
        self._place = _caller()
        if not isinstance(name, str):
            raise UserError(
                f"the name of a diagram should be text, not {shown(name)}", place=self._place
            )
        self._name = name
        try:
            self._bucket_us = DEFAULT_BUCKET_US if bucket is None else parse_duration(bucket)
        except UserError as error:
            raise error.at(self._place, "bucket") from None
        self._cut = make_cut(fragments, lambda _: self._place)
        self._sources: list[Source] = []
        self._operators: list[Operator] = []
        self._sinks: list[Sink] = []
        self._outputs: list[str] = []

    @_checked
    def source(self, name: str, **settings: Any) -> Stream:
        """A source: one of csv=, jsonl=, parquet=, generate=, tcp=, push=True, and its settings."""
        place = _caller()
        self._sources.append(make_source(name, settings, lambda _: place))
        return Stream(name, builder=self)

    @_checked
    def filter(
        self, name: str, stream: Stream, where: str | Mapping[str, str], rest: str | None = None
    ) -> Stream:
        """Keep what matches; several named predicates make branches, `rest` takes the others."""
        return self._add("filter", name, [stream], where=where, rest=rest)

    @_checked
    def map(self, name: str, stream: Stream, select: Columns) -> Stream:
        """Compute new columns."""
        return self._add("map", name, [stream], select=select)

    @_checked
    def union(self, name: str, *streams: Stream) -> Stream:
        """Merge streams of one schema."""
        return self._add("union", name, streams)

    @_checked
    def bsort(self, name: str, stream: Stream) -> Stream:
        """Order by `_stime`."""
        return self._add("bsort", name, [stream])

    @_checked
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
        settings = {"window": window, "slide": slide, "by": by, "compute": compute}
        return self._add("aggregate", name, [stream], **settings, scale=scale)

    @_checked
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
        return self._add("join", name, [left, right], within=within, on=on, select=select)

    @_checked
    def split(self, name: str, stream: Stream, *, by: Columns, into: int) -> Stream:
        """Deal tuples out by hash: branches 0, 1, ..."""
        return self._add("split", name, [stream], by=by, into=into)

    @_checked
    def spark(
        self,
        name: str,
        *streams: Stream,
        function: str | Callable[..., Any],
        needs: str | Stream | Sequence[str | Stream] | None = None,
    ) -> Stream:
        """Your own function from DataFrame to DataFrame.

        It `needs` "all" of its inputs, unless "any" one is enough or you name those without which
        it has no output: while one that it needs is missing, its output has failed.
        """
        needed: Any = needs
        if needs is not None and not isinstance(needs, str):
            those = needs if isinstance(needs, list | tuple) else [needs]
            place = _caller()
            needed = [o if isinstance(o, str) else self._name_of(o, name, place) for o in those]
        return self._add("spark", name, streams, function=function, needs=needed)

    if not TYPE_CHECKING:  # a misspelt method stays a mistake for type checkers

        def __getattr__(self, kind: str) -> Callable[..., Stream]:
            """The method of a kind of operator that is not written out above."""
            if kind in OPERATORS:
                return lambda name, *given, **settings: self._derived(kind, name, given, settings)
            if kind.startswith("_"):
                raise AttributeError(kind)
            methods = [*OPERATORS, *(m for m in vars(type(self)) if not m.startswith("_"))]
            raise _NoMethod(kind, f"is not a method of a diagram{meant(kind, methods)}")

    @_checked
    def sink(self, name: str, stream: Stream, **settings: Any) -> None:
        """A sink: one of jsonl=, parquet=, console=True, callback=function."""
        place = _caller()
        given = {"from": self._name_of(stream, name, place), **settings}
        self._sinks.append(make_sink(name, given, lambda _: place))

    @_checked
    def output(self, *streams: Stream) -> None:
        """Keep these streams as results, to be read while or after the diagram runs."""
        place = _caller()
        self._outputs.extend(self._name_of(stream, "output", place) for stream in streams)

    @_checked
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

    def _derived(
        self, kind: str, name: str, given: tuple[Any, ...], settings: dict[str, Any]
    ) -> Stream:
        """An operator whose streams, then its first settings, may be given without their names."""
        names = OPERATORS[kind].takes.names
        if not names and kind not in settings:
            return self._add(kind, name, given, **settings)
        keys = [key for one in OPERATORS[kind].known_settings() for key in one.keys]
        by_place = dict(zip(keys, given[len(names) :], strict=False))
        fits = len(names) <= len(given) <= len(names) + len(keys)
        if not fits or {kind, *by_place} & settings.keys():
            sentence = (
                f"should be given as {kind}({', '.join(['name', *(names or ['*streams']), *keys])})"
            )
            raise UserError(sentence, name=str(name), place=_caller())
        return self._add(kind, name, given[: len(names)], **by_place, **settings)

    def _add(self, kind: str, name: str, streams: Sequence[Stream], /, **settings: Any) -> Stream:
        place = _caller()
        inputs = tuple(self._name_of(stream, name, place) for stream in streams)
        if not inputs:
            raise UserError("should be given at least one stream", name=str(name), place=place)
        given = {key: value for key, value in settings.items() if value is not None}
        cls = OPERATORS[kind].written_as(given)
        for one in cls.known_settings():
            if one.key in given:
                given[one.key] = one.form.given(given[one.key])
        written = {kind: OPERATORS[kind].takes.write(inputs), **given}
        operator = make_operator(name, written, lambda _: place)
        self._operators.append(operator)
        branches = tuple(s.removeprefix(f"{name}.") for s in operator.outputs)
        return Stream(name, () if operator.outputs == (name,) else branches, builder=self)

    def _name_of(self, stream: Any, reader: Any, place: Place) -> str:
        """The name of a stream of this diagram."""
        if not isinstance(reader, str):
            raise UserError(f"a name should be text, not {shown(reader)}", place=place)
        if isinstance(stream, Stream):
            if stream.builder is None or stream.builder is self:
                return stream.name
            sentence = f"reads '{stream.name}', which is a stream of another diagram"
        elif isinstance(stream, str):
            sentence = (
                f"reads {shown(stream)}, which is text, not a stream:"
                " give what the method that made the stream returned"
            )
        elif isinstance(stream, list | tuple | set):
            sentence = "reads a collection of streams: give them one by one, or with * before it"
        else:
            sentence = f"reads {shown(stream)}, which is not a stream"
        raise UserError(sentence, name=reader, place=place)


class _NoMethod(UserError, AttributeError):
    """A method that a diagram does not have."""

    def __init__(self, name: str, sentence: str) -> None:
        UserError.__init__(self, sentence, name=name, place=_caller())


def _caller() -> Place:
    """The line outside this file that called."""
    return Place.of_caller(__file__)
