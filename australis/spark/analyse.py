"""The analysis of a diagram by Spark, before anything runs.

Each operator is compiled over empty frames; a type error is reported with the
operator's place. The result is the schema of every stream.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from australis.diagram.fragments import Plan, cut
from australis.diagram.model import Diagram
from australis.kernel.errors import UserError
from australis.spark.compile import compile_operator, compile_plan, explain
from australis.spark.lane import LaneAddress, LaneInputs
from australis.spark.logical_plans import analysed, batching_dependence
from australis.spark.types import empty_frame, stream_schema
from australis.streams.schema import Schema
from australis.streams.sunion import MergedSchema


def analyse(spark: SparkSession, diagram: Diagram, base: Path) -> dict[str, Schema]:
    """The schema of every stream; a `UserError` for what Spark refuses or cannot run as a stream."""
    schemas = stream_schemas(spark, diagram, base)
    for fragment in cut(diagram):
        for plan in fragment.plans:
            check_streaming(spark, plan, schemas, base)
    return schemas


def stream_schemas(spark: SparkSession, diagram: Diagram, base: Path) -> dict[str, Schema]:
    """The schema of every stream; a `UserError` for the first operator that Spark refuses."""
    schemas = {source.name: source.schema for source in diagram.sources}
    for operator in diagram.in_order:
        frames = [empty_frame(spark, schemas[stream]) for stream in operator.inputs]
        for stream, frame in compile_operator(operator, frames, base).items():
            try:
                schemas[stream] = stream_schema(frame)
            except UserError as error:
                raise error.at(operator.place, operator.name) from None
    return schemas


def check_streaming(
    spark: SparkSession, plan: Plan, schemas: dict[str, Schema], base: Path
) -> None:
    """Raise a `UserError` if Spark could not run this plan as a stream."""
    merged = MergedSchema(tuple(schemas[stream] for stream in plan.inputs), plan.reads_ids)
    nowhere = LaneAddress(plan.output, "", "")
    frame = compile_plan(plan, LaneInputs(spark, plan.inputs, merged, nowhere), base)
    jvm = spark._jvm
    assert jvm is not None
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    mode = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    try:
        checker.checkForStreaming(analysed(frame), mode)
        reason = batching_dependence(frame)
    except PySparkException as error:
        reason = explain(error)
    if reason is not None:
        last = plan.operators[-1]
        raise UserError(f"cannot run as a stream: {reason}", name=plan.output, place=last.place)
