"""What a diagram gives in one undisturbed run on Spark.

It is the reference for a user's function, which nothing else can compute.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from australis.diagram.model import Diagram
from australis.kernel.errors import Stopped
from australis.streams.schema import Schema

LIMIT_S = 600.0
SPEED = 100
"""How much faster than in a cluster the sources are. Their rows are the same: `duration`, which
would end them, changes the last rows."""

Undisturbed = dict[str, tuple[Schema, dict[int, pa.RecordBatch]]]
"""The schema and the buckets of each result."""


def undisturbed(diagram: Diagram, base: Path, upto: int) -> Undisturbed:
    """Run a diagram with generated sources until every result has reached a bucket."""
    from australis.runtime.run import Running  # starts a JVM: only where it is needed

    sources = tuple(
        replace(source, options={**source.options, "speed": SPEED}) for source in diagram.sources
    )
    fast = replace(diagram, sources=sources, sinks=(), outputs=diagram.results)
    deadline = time.monotonic() + LIMIT_S
    with (
        tempfile.TemporaryDirectory() as state,
        Running(fast, Path(state), base=base, master="local[1]") as running,
    ):
        running.start()
        while min(running.logs[stream].closed for stream in diagram.results) < upto:
            running.check()
            if time.monotonic() > deadline:
                raise Stopped(f"an undisturbed run took longer than {LIMIT_S:.0f} s")
            time.sleep(0.05)
        logs = {stream: running.logs[stream] for stream in diagram.results}
        return {
            stream: (log.schema, dict(log.read(log.truncated_to, upto)))
            for stream, log in logs.items()
        }
