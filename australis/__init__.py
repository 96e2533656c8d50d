"""Australis: federated, fault-tolerant, self-managing stream processing on Spark.

import australis as au

d = au.diagram("hello")
readings = d.source("readings", push=True, schema="room string, celsius double")
d.filter("hot", readings, "celsius > 30")
with au.start(d, state="state") as running:
    running.push("readings", [{"room": "kitchen", "celsius": 31.5}])
    running.end("readings")
    running.wait()
    print(running.table("hot").to_pandas())
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from australis.diagram.build import DiagramBuilder, Stream
from australis.diagram.model import Diagram
from australis.kernel.errors import AustralisError, Stopped, UserError
from australis.live.load import load

if TYPE_CHECKING:
    from australis.live.client import Connection
    from australis.live.run import Running
    from australis.spark.session import SparkSession

__all__ = [
    "AustralisError",
    "Diagram",
    "DiagramBuilder",
    "Stopped",
    "Stream",
    "UserError",
    "connect",
    "diagram",
    "load",
    "register",
    "run",
    "start",
]
__version__ = "0.1.0"

diagram = DiagramBuilder


def start(diagram: Diagram | DiagramBuilder, state: Path | str, **options: Any) -> Running:
    """Start a diagram over a state directory; see `australis.live.run.Running`."""
    from australis.live import run as live

    if isinstance(diagram, DiagramBuilder):
        diagram = diagram.done()
    if diagram.place is not None:
        options.setdefault("base", Path(diagram.place.file).parent)
    return live.start(diagram, state, **options)


def run(diagram: Diagram | DiagramBuilder, state: Path | str, **options: Any) -> None:
    """Run a diagram until all its results are complete."""
    with start(diagram, state, **options) as running:
        running.wait()


def connect(cluster: Path | str, *, identity: str | None = None) -> Connection:
    """A connection to the cluster of this file; see `australis.live.client`."""
    from australis.live import client

    return client.connect(cluster, identity=identity)


def register(spark: SparkSession, name: str = "australis") -> None:
    """Make `spark.readStream.format("australis")` known to a session.

    Options: `cluster` (its file) and `stream`; `client` (of that file: its log is kept until
    Spark has committed it; else a guest), `startingBucket` ('earliest', which is where a client
    begins, 'latest', where a guest does, or a bucket), `maxBytesPerTrigger`, `identity`.
    Spark lets queries that run side by side share one registration, and may stumble over that:
    register another name for each.
    """
    from australis.live.spark_feed import FACTORY
    from australis.spark.reader import register_reader

    register_reader(spark, name, FACTORY)
