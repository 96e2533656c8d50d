"""A windowed count on bare Structured Streaming in a process of its own, for the benches.

    python -m research.bench.bare_job DIRECTORY RATE WINDOW START_US

For every micro-batch with results it prints one line of JSON: the number of rows, and of the tuples
they count. A restarted job continues from its checkpoint.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from australis.spark.session import open_session
from research.bench.bare import SCHEMA, BarePaced

KEYS = 4


def main(directory: Path, rate: str, window: str, start_us: str) -> None:
    """Run until killed."""
    spark = open_session("local[*]", "bare", log=directory / "spark.log")
    spark.dataSource.register(BarePaced)
    options = {"rate": rate, "sources": str(KEYS), "start_us": start_us}
    frame = spark.readStream.format("bare-paced").schema(SCHEMA).options(**options).load()
    counts = (
        frame.withWatermark("time", "0 seconds")
        .groupBy(F.window("time", window), "src")
        .agg(F.count("*").alias("n"))
    )

    def tell(found: DataFrame, number: int) -> None:
        rows = found.select("n").collect()
        if rows:
            sys.stdout.write(json.dumps({"rows": len(rows), "n": sum(r["n"] for r in rows)}) + "\n")
            sys.stdout.flush()

    query = (
        counts.writeStream.foreachBatch(tell)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .outputMode("append")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:5])
