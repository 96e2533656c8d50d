"""Functions of a user that raise on some rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@F.udf("int")
def _half(v: int) -> int:
    if v % 10 == 3:
        raise ValueError(f"{v} cannot be halved")
    return v // 2


def halves(frame: DataFrame) -> DataFrame:
    return frame.select("_stime", "k", _half("v").alias("h"))


def strict(frame: DataFrame) -> DataFrame:
    """Raises in Spark itself."""
    half = F.when(F.expr("v % 10 = 3"), F.raise_error(F.lit("cannot be halved"))).otherwise(
        F.expr("v div 2")
    )
    return frame.select("_stime", "k", half.cast("int").alias("h"))


def of_batches(frame: DataFrame) -> DataFrame:
    """Raises on rows that stand beside others, on none alone."""

    def together(parts):  # type: ignore[no-untyped-def]
        for part in parts:
            if len(part) > 1:
                raise ValueError("several at once")
            yield part

    return frame.select("_stime", "k").mapInPandas(together, "_stime timestamp, k int")


def broken(frame: DataFrame) -> DataFrame:
    """Raises on every row."""
    return frame.select("_stime", "k", F.raise_error(F.lit("broken")).cast("int").alias("h"))
