"""From a plan to a DataFrame.

Within a query every stream is a DataFrame with `_id`, `_stime` and its
attributes. The same code compiles a plan over empty frames, for Spark's analyser
to look at, and over the lane's source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from australis.diagram.determinism import names_user
from australis.diagram.fragments import Plan
from australis.diagram.model import (
    Aggregate,
    BSort,
    Filter,
    Join,
    Map,
    Operator,
    Spark,
    Split,
    TimeWindow,
    Union,
)
from australis.kernel.errors import UserError
from australis.spark.aggregates import WINDOW_EDGES, aggregate_column
from australis.spark.functions import call_user_function
from australis.spark.joins import join
from australis.spark.types import stream_schema
from australis.streams.schema import HEADER_NAMES

O = TypeVar("O", bound=Operator, contravariant=True)  # noqa: E741


class Compiler(Protocol[O]):
    """A function that gives the output frames of an operator, in the order of its outputs.

    The frames keep `_id` and `_stime`; `base` is where the user's files are.
    """

    def __call__(self, o: O, inputs: Sequence[DataFrame], base: Path, /) -> list[DataFrame]:
        """The frames, over these frames of its inputs."""
        ...


_COMPILERS: dict[type[Operator], Compiler[Any]] = {}


def compiles(kind: type[O]) -> Callable[[Compiler[O]], Compiler[O]]:
    """Register how a kind of operator is compiled."""

    def register(compiler: Compiler[O]) -> Compiler[O]:
        _COMPILERS[kind] = compiler
        return compiler

    return register


class Inputs(Protocol):
    """The logged streams a plan reads."""

    def frame(self, streams: Sequence[str]) -> DataFrame:
        """These streams merged into one frame."""
        ...


def compile_plan(plan: Plan, inputs: Inputs, base: Path) -> DataFrame:
    """The DataFrame of a plan's output: `_stime`, then its attributes."""
    frames: dict[str, DataFrame] = {}

    def frame(stream: str) -> DataFrame:
        if stream not in frames:
            frames[stream] = inputs.frame([stream])
        return frames[stream]

    for operator in plan.operators:
        if isinstance(operator, Union) and _only_logged(operator, plan):
            frames[operator.name] = inputs.frame(operator.inputs)
            continue
        upstream = [frame(stream) for stream in operator.inputs]
        frames.update(compile_operator(operator, upstream, base))
    result = frames[plan.output]
    return result.select("_stime", *attributes(result))


def _only_logged(operator: Union, plan: Plan) -> bool:
    distinct = set(operator.inputs)
    return distinct <= set(plan.inputs) and len(distinct) == len(operator.inputs)


def compile_operator(
    operator: Operator, inputs: Sequence[DataFrame], base: Path
) -> Mapping[str, DataFrame]:
    """The output frames of one operator, by stream; a `UserError` for what Spark refuses."""
    try:
        compiler = _COMPILERS.get(type(operator))
        if compiler is None:
            raise UserError(f"is of the kind '{operator.kind}', which Spark cannot run here")
        _check_user(operator, inputs)
        frames = compiler(operator, inputs, base)
    except UserError as error:
        raise error.at(operator.place, operator.name) from None
    except PySparkException as error:
        raise UserError(
            f"is refused by Spark: {explain(error)}", name=operator.name, place=operator.place
        ) from None
    return dict(zip(operator.outputs, frames, strict=True))


def _check_user(operator: Operator, inputs: Sequence[DataFrame]) -> None:
    """Refuse `user` where it is no column: Spark takes it for whoever runs the query."""
    columns = {name.lower() for frame in inputs for name in frame.columns}
    if "user" not in columns and any(map(names_user, operator.expressions())):
        raise UserError("names a column 'user' that is unknown")


def explain(error: PySparkException) -> str:
    """Spark's reason in one line."""
    text = str(error.getMessage() if hasattr(error, "getMessage") else error)
    text = text.split("\n")[0].split("SQLSTATE")[0].strip()
    if text.startswith("[") and "] " in text:
        text = text.split("] ", 1)[1]
    return text.rstrip(".; ")


def attributes(frame: DataFrame) -> list[Column]:
    """The columns of a frame that are not header."""
    return [F.col(f"`{name}`") for name in frame.columns if name not in HEADER_NAMES]


def _header(frame: DataFrame) -> list[Column]:
    return [F.col("_id"), F.col("_stime")]


@compiles(Filter)
def _filter(o: Filter, inputs: Sequence[DataFrame], _: Path) -> list[DataFrame]:
    (frame,) = inputs
    for predicate in o.expressions():
        kind = frame.select(F.expr(predicate).alias("p")).schema["p"].dataType
        if not isinstance(kind, BooleanType):
            raise UserError(
                f"has a predicate that is {kind.simpleString()}, not boolean: {predicate!r}"
            )
    matches = [F.coalesce(F.expr(predicate), F.lit(False)) for _, predicate in o.where]
    frames, earlier = [], F.lit(True)
    for match in matches:
        frames.append(frame.where(earlier & match) if len(matches) > 1 else frame.where(match))
        earlier = earlier & ~match
    return frames if o.rest is None else [*frames, frame.where(earlier)]


@compiles(Map)
def _map(o: Map, inputs: Sequence[DataFrame], _: Path) -> list[DataFrame]:
    (frame,) = inputs
    columns = [F.expr(expression).alias(name) for name, expression in o.select]
    return [frame.select(*_header(frame), *columns)]


@compiles(Union)
def _union(o: Union, inputs: Sequence[DataFrame], _: Path) -> list[DataFrame]:
    o.check_schemas([stream_schema(frame) for frame in inputs])
    first, *others = inputs
    for other in others:
        first = first.unionByName(other)
    return [first]


@compiles(BSort)
def _bsort(_o: BSort, inputs: Sequence[DataFrame], _: Path) -> list[DataFrame]:
    return list(inputs)


@compiles(Aggregate)
def _aggregate(o: Aggregate, inputs: Sequence[DataFrame], _: Path) -> list[DataFrame]:
    (frame,) = inputs
    if o.counts_tuples:
        from australis.spark.count_window import count_window  # it needs pandas, which is large

        return [count_window(o, frame)]
    assert isinstance(o.window, TimeWindow)
    size, slide = (f"{us} microseconds" for us in (o.window.size_us, o.window.slide_us))
    window = F.window("_stime", size, slide).alias("_window")
    keys = [F.expr(expression).alias(name) for name, expression in o.by]
    columns = [
        aggregate_column(call, frame, o.scale).alias(name)
        for name, call in o.compute
        if call.function not in WINDOW_EDGES
    ]
    grouped = frame.groupBy(window, *keys).agg(*(columns or [F.count(F.lit(1)).alias("_n")]))
    header = [F.lit(0).cast("bigint").alias("_id"), F.window_time("_window").alias("_stime")]
    values = [
        F.col(WINDOW_EDGES.get(call.function, f"`{name}`")).alias(name) for name, call in o.compute
    ]
    return [grouped.select(*header, *(F.col(f"`{name}`") for name, _ in o.by), *values)]


@compiles(Join)
def _join(o: Join, inputs: Sequence[DataFrame], _: Path) -> list[DataFrame]:
    left, right = inputs
    return [join(o, left, right)]


@compiles(Split)
def _split(o: Split, inputs: Sequence[DataFrame], _: Path) -> list[DataFrame]:
    (frame,) = inputs
    branch = F.pmod(F.xxhash64(*(F.expr(e) for e in o.by)), F.lit(o.into))
    return [frame.where(branch == i) for i in range(o.into)]


@compiles(Spark)
def _spark(o: Spark, inputs: Sequence[DataFrame], base: Path) -> list[DataFrame]:
    return [call_user_function(o, inputs, base)]
