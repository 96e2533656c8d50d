"""Stream schemas and Spark's types, one into the other."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from australis.kernel.errors import UserError
from australis.streams.schema import HEADER_NAMES, Schema, from_arrow


def to_spark(schema: pa.Schema) -> StructType:
    """The Spark type of Arrow columns."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=False)


def stream_schema(frame: DataFrame) -> Schema:
    """The stream schema of a DataFrame; a `UserError` names a column no stream can carry."""
    fields = [f for f in frame.schema.fields if f.name not in HEADER_NAMES]
    for field in fields:
        kind = field.dataType.typeName()
        if kind == "timestamp_ntz":
            raise UserError(
                f"has the column '{field.name}' of type timestamp_ntz; cast it to timestamp"
            )
        if kind in ("array", "map", "variant", "interval", "void") or "interval" in kind:
            raise UserError(
                f"has the column '{field.name}' of type {field.dataType.simpleString()},"
                " which a stream cannot carry (scalars and structs can)"
            )
    arrow = to_arrow_schema(StructType(fields), timezone="UTC")
    return from_arrow(arrow)


def empty_frame(spark: SparkSession, schema: Schema) -> DataFrame:
    """A frame without rows that has a stream's columns, for the analyser to look at."""
    columns = [f"cast(null as {field.type}) as `{field.name}`" for field in schema]
    header = ["cast(null as bigint) as _id", "cast(null as timestamp) as _stime"]
    return spark.range(0).selectExpr(*header, *columns)
