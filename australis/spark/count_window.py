"""Aggregates over count windows.

Spark has no such window. A few shards (by a hash of the group) each keep the
tuples that a later window still needs as one Arrow blob; a shard sorts what
arrives by (`_stime`, `_id`, values) and cuts it into windows. Window j of a group
covers its tuples [j * slide, j * slide + size); since the first kept tuple always
begins a window, the kept tuples are all the state there is.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import BooleanType, DataType, DecimalType, IntegralType

from australis.diagram.aggregates import AggregateCall
from australis.diagram.model import Aggregate, CountWindow
from australis.kernel.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

SHARDS = 8
_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def count_window(o: Aggregate, frame: DataFrame) -> DataFrame:
    """The frame with one output tuple for each full window of each group."""
    assert isinstance(o.window, CountWindow)
    keys = [F.expr(expression).alias(name) for name, expression in o.by]
    key_struct = F.struct(*keys) if keys else F.struct(F.lit(0).alias("all"))
    options = {**_TIMES, "ignoreNullFields": "false"}
    arguments = [_argument(call) for _, call in o.compute]
    prepared = frame.select(
        "_id",
        "_stime",
        F.to_json(key_struct, options).alias("_key"),
        # Without metadata: Spark refuses a second column that is known as the event time.
        *(column.alias(f"a{i}", metadata={}) for i, column in enumerate(arguments)),
    )
    kinds = [prepared.schema[f"a{i}"].dataType for i in range(len(arguments))]
    calls = [call for _, call in o.compute]
    results = [_result_type(call, kind) for call, kind in zip(calls, kinds, strict=True)]
    out = ", ".join(
        ["_stime timestamp, _key string", *(f"r{i} {k}" for i, k in enumerate(results))]
    )
    shard = F.pmod(F.xxhash64("_key"), F.lit(SHARDS)).cast("int").alias("_shard")
    whole = [isinstance(kind, IntegralType) for kind in kinds]
    for i in range(len(kinds)):
        # Integers with NULLs would become floating point in pandas: carry the NULLs separately.
        if whole[i]:
            prepared = prepared.withColumn(f"n{i}", F.col(f"a{i}").isNull())
            prepared = prepared.withColumn(f"a{i}", F.coalesce(F.col(f"a{i}"), F.lit(0)))
    if not frame.isStreaming:
        windows = prepared.limit(0).select(
            "_stime", "_key", *(F.lit(None).cast(k).alias(f"r{i}") for i, k in enumerate(results))
        )
    else:
        windows = (
            prepared.withColumn("_shard", shard)
            .groupBy("_shard")
            .applyInPandasWithState(
                _shard_function(calls, whole, o.window),
                out,
                "kept binary",
                "append",
                GroupStateTimeout.NoTimeout,
            )
        )
    by_type = frame.select(key_struct.alias("k")).schema["k"].dataType
    parsed = F.from_json("_key", by_type, _TIMES)  # type: ignore[arg-type]
    return windows.select(
        F.lit(0).cast("bigint").alias("_id"),
        "_stime",
        *(parsed.getField(name).alias(name) for name, _ in o.by),
        *(F.col(f"r{i}").alias(name) for i, (name, _) in enumerate(o.compute)),
    )


def _argument(call: AggregateCall) -> Column:
    if call.function in ("window_start", "window_end"):
        return F.col("_stime")
    if not call.arguments:
        return F.lit(1)
    if len(call.arguments) > 1 and call.function == "count":
        raise UserError("counts distinct combinations, which a count window cannot")
    return F.expr(call.arguments[0])


_SAME = (
    "min",
    "max",
    "first",
    "last",
    "window_start",
    "window_end",
    "bit_and",
    "bit_or",
    "bit_xor",
)


def _result_type(call: AggregateCall, kind: DataType) -> str:
    if call.function in ("count", "approx_count_distinct"):
        return "bigint"
    if call.function in ("bool_and", "bool_or"):
        if not isinstance(kind, BooleanType):
            raise UserError(f"computes {call.function} of {kind.simpleString()}")
        return "boolean"
    if call.function in _SAME:
        return kind.simpleString()
    if call.function == "sum" and isinstance(kind, IntegralType):
        return "bigint"
    if call.function == "sum" and isinstance(kind, DecimalType):
        return f"decimal({min(38, kind.precision + 10)},{kind.scale})"
    if not (isinstance(kind, IntegralType | DecimalType) or kind.typeName() in ("double", "float")):
        raise UserError(f"computes {call.function} of {kind.simpleString()}, which is not a number")
    return "double"


def _shard_function(
    calls: list[AggregateCall], whole: list[bool], window: CountWindow
) -> Callable[..., Iterator[pd.DataFrame]]:
    def step(
        _key: Any, frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        arrived = pd.concat(list(frames), ignore_index=True).drop(columns="_shard")
        values = sorted(c for c in arrived.columns if not c.startswith("_"))
        arrived = arrived.sort_values(["_stime", "_id", *values], kind="stable")
        rows = pd.concat([_load(state), arrived], ignore_index=True) if state.exists else arrived
        rows = rows.reset_index(drop=True)
        groups = rows.groupby("_key", sort=True)["_key"]
        place = groups.cumcount().to_numpy()
        total = groups.transform("size").to_numpy()
        done = _windows_done(total, window)
        kept = rows[place >= done * window.slide]
        if len(kept):
            state.update((_save(kept),))
        elif state.exists:
            state.remove()
        members = _members(place, done, window)
        if len(members):
            yield _results(rows, members, calls, whole)

    return step


def _windows_done(total: np.ndarray[Any, Any], window: CountWindow) -> np.ndarray[Any, Any]:
    return np.maximum(0, (total - window.size) // window.slide + 1)


def _members(
    place: np.ndarray[Any, Any], done: np.ndarray[Any, Any], window: CountWindow
) -> pd.DataFrame:
    """The rows of each finished window of their group."""
    found = []
    newest = place // window.slide
    for back in range(-(-window.size // window.slide)):
        number = newest - back
        inside = (number >= 0) & (number < done) & (place < number * window.slide + window.size)
        at = np.flatnonzero(inside)
        found.append(pd.DataFrame({"row": at, "window": number[at]}))
    return pd.concat(found, ignore_index=True)


def _results(
    rows: pd.DataFrame, members: pd.DataFrame, calls: list[AggregateCall], whole: list[bool]
) -> pd.DataFrame:
    picked = rows.iloc[members["row"].to_numpy()].reset_index(drop=True)
    picked["_window"] = members["window"].to_numpy()
    picked["_row"] = members["row"].to_numpy()
    picked = picked.sort_values(["_key", "_window", "_row"], ignore_index=True)
    grouped = picked.groupby(["_key", "_window"], sort=True)
    result: dict[str, Any] = {"_stime": grouped["_stime"].max()}
    groups = [group for _, group in grouped]
    for i, call in enumerate(calls):
        values = [_value(call, _values(g, i, whole[i]), g["_stime"]) for g in groups]
        result[f"r{i}"] = _column(values, result["_stime"].index)
    frame = pd.DataFrame(result).reset_index()
    return frame[["_stime", "_key", *(f"r{i}" for i in range(len(calls)))]]


def _column(values: list[Any], index: Any) -> pd.Series:  # type: ignore[type-arg]
    """One result per window, unconverted: pandas would turn integers beside a NULL to floats."""
    times = any(isinstance(value, pd.Timestamp) for value in values)
    return pd.Series(values, index=index, dtype=None if times else object)


def _values(group: pd.DataFrame, i: int, whole: bool) -> pd.Series:  # type: ignore[type-arg]
    """The argument's values, with None for NULL."""
    values = group[f"a{i}"]
    return values.astype(object).where(~group[f"n{i}"], None) if whole else values


def _value(call: AggregateCall, all_values: pd.Series, times: pd.Series) -> Any:  # type: ignore[type-arg]
    values = all_values.dropna()
    match call.function:
        case "count":
            return values.nunique() if call.distinct else len(values)
        case "approx_count_distinct":
            return values.nunique()
        case "window_start":
            return times.min()
        case "window_end":
            return times.max()
        case "first":
            return _plain(all_values.iloc[0])
        case "last":
            return _plain(all_values.iloc[-1])
    if not len(values):
        return None
    match call.function:
        case "sum":
            return _fitting(_total(values))
        case "avg":
            return float(_total(values) / len(values))
        case "min":
            return _plain(values.min())
        case "max":
            return _plain(values.max())
        case "bool_and":
            return bool(values.all())
        case "bool_or":
            return bool(values.any())
        case "bit_and":
            return int(np.bitwise_and.reduce(values.to_numpy(np.int64)))
        case "bit_or":
            return int(np.bitwise_or.reduce(values.to_numpy(np.int64)))
        case "bit_xor":
            return int(np.bitwise_xor.reduce(values.to_numpy(np.int64)))
        case _:
            return _spread(call, values.astype("float64").to_numpy())


def _spread(call: AggregateCall, values: np.ndarray[Any, Any]) -> float | None:
    if call.function == "median":
        return float(np.median(values))
    if call.function == "percentile":
        return float(np.quantile(values, float(call.arguments[1])))
    freedom = 0 if call.function.endswith("_pop") else 1
    if len(values) <= freedom:
        return None
    variance = float(np.var(values, ddof=freedom))
    return variance**0.5 if call.function.startswith("stddev") else variance


def _total(values: pd.Series) -> Any:  # type: ignore[type-arg]
    """The plain sum, one value after the other, since Python's own differs between versions."""
    return functools.reduce(operator.add, values.tolist())


def _fitting(total: Any) -> Any:
    """The total, or NULL if it is no bigint, as in time windows."""
    return None if isinstance(total, int) and not -(2**63) <= total < 2**63 else _plain(total)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _save(rows: pd.DataFrame) -> bytes:
    table = pa.Table.from_pandas(rows, preserve_index=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    saved: bytes = sink.getvalue().to_pybytes()
    return saved


def _load(state: GroupState) -> pd.DataFrame:
    (blob,) = state.get
    return pa.ipc.open_stream(blob).read_all().to_pandas()
