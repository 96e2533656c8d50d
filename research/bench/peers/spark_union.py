"""Two directories of rows, counted in windows by key, on bare Structured Streaming.

    python -m research.bench.peers.spark_union DIRECTORY min|max

Each result is a line of JSON: the end of its window in milliseconds, its key and its count.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from australis.spark.session import open_session
from research.bench.peers import WINDOW_MS


def main(directory: Path, policy: str) -> None:
    """Run until killed."""
    spark = open_session("local[*]", "bare", log=directory / "spark.log")
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    def rows(name: str) -> DataFrame:
        read = spark.readStream.schema("k int, ms long").json(str(directory / name))
        return read.withColumn("at", F.timestamp_millis("ms")).withWatermark(
            "at", "500 milliseconds"
        )

    counts = (
        rows("in1").unionAll(rows("in2"))
        .groupBy(F.window("at", f"{WINDOW_MS} milliseconds"), "k")
        .agg(F.count("*").alias("n"))
        .select(F.unix_millis("window.end").alias("end"), "k", "n")
    )  # fmt: skip

    def tell(found: DataFrame, number: int) -> None:
        for row in found.collect():
            sys.stdout.write(json.dumps(row.asDict()) + "\n")
        sys.stdout.flush()

    query = (
        counts.writeStream.foreachBatch(tell)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .outputMode("append")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
