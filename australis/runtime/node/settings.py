"""The settings of a node: one of a cluster, or the only one, within a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from australis.runtime.node.lanes import ROWS_PER_BATCH
from australis.spark.session import SparkSession


@dataclass(frozen=True)
class NodeSettings:
    """The settings that are not in a cluster file; the defaults are those of a cluster's node."""

    listen: bool = True
    """Whether other nodes and clients can reach the node."""
    bounded: bool = False
    """Whether a stream ends with its source, instead of continuing with the clock."""
    tentative: bool = True
    """Whether lanes are ready to release tentative buckets."""
    keep: tuple[str, ...] = ()
    """The streams whose logs are never truncated."""
    fresh: bool = False
    """Whether to delete the state of earlier runs."""
    rows_per_batch: int = ROWS_PER_BATCH
    spark: SparkSession | None = None
    """A session of the user's, used instead of one of the node's own."""
    spark_settings: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    """The address at which Spark's workers reach this machine; empty: the node's own."""
    on_step: Callable[[str], None] = lambda step: None
    """Called with a description of each step of a slow start."""
    on_stop: Callable[[], None] = lambda: None
    """Called before the node stops, for whatever reason."""


@dataclass(frozen=True)
class Layout:
    """The layout of a node's directory."""

    root: Path
    flat: bool
    """Whether all logs are in one directory, as where there is only one node."""

    def lanes(self, machine: str) -> Path:
        """The directory of a replica's lanes, with `logs`, `checkpoints` and `forks` below it."""
        return self.root if self.flat else self.root / machine

    def source(self, stream: str) -> Path:
        """The directory of a source, with `journal`, `rejected` and `late` below it."""
        return self.root if self.flat else self.root / "sources" / stream

    def source_log(self, stream: str) -> Path:
        """The directory of a source's log."""
        return self.root / "logs" / stream if self.flat else self.source(stream) / "log"
