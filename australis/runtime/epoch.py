"""The start of a cluster, in its streams' time and by the wall clock.

The epoch of a cluster whose file names none is chosen at the first `australis up`, then kept.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from australis.deployment.cluster import Cluster
from australis.diagram.model import Diagram, Source
from australis.kernel.durations import SECOND
from australis.kernel.errors import Stopped
from australis.runtime.files import make_directory, replace_file, stopping, write_first
from australis.runtime.sources import open_reader
from australis.runtime.sources.replay import stamped
from australis.streams.buckets import stime_values

FILE = "epoch"
BEGAN = "began"


def read_epoch(state: Path) -> int | None:
    """The epoch that was chosen for the cluster with this state."""
    path = state / FILE
    return _read_time(path) // SECOND * SECOND if path.exists() else None


def began_us(state: Path, now_us: int) -> int:
    """The time at which the cluster's first node started on this machine: now, or as recorded.

    Replayed sources pace themselves from this time, so that they stay in step: one whose node was
    down is afterwards as far as if it had never stopped.
    """
    path = state / BEGAN
    with stopping("write", path):
        make_directory(state)
        if not path.exists():
            moment = datetime.fromtimestamp(now_us / SECOND, UTC)
            write_first(path, f"{moment.isoformat()}\n".encode())
    return _read_time(path)


def _read_time(path: Path) -> int:
    with stopping("read", path):
        text = path.read_text().strip()
    try:
        return round(datetime.fromisoformat(text).timestamp() * SECOND)
    except ValueError:
        raise Stopped(
            f"{path} is damaged: {text!r} is not a time (another machine's copy will do)"
        ) from None


def write_epoch(state: Path, epoch_us: int) -> None:
    """Store the epoch in whole seconds."""
    moment = datetime.fromtimestamp(epoch_us // SECOND, UTC)
    with stopping("write", state / FILE):
        make_directory(state)
        replace_file(state / FILE, f"{moment.isoformat()}\n".encode())


def keep_epoch(cluster: Cluster, diagram: Diagram, base: Path) -> None:
    """Choose an epoch if the cluster has none yet."""
    state = base / cluster.state
    if cluster.epoch_us is None and read_epoch(state) is None:
        write_epoch(state, choose_epoch(diagram, base, time.time_ns() // 1000))


def choose_epoch(diagram: Diagram, base: Path, now_us: int) -> int:
    """Choose now, or for replayed sources the last whole second before their first tuple."""
    first = (_first_us(source, diagram, base) for source in diagram.sources)
    earliest = min([now_us, *(at for at in first if at is not None)])
    return (earliest - 1) // SECOND * SECOND


def _first_us(source: Source, diagram: Diagram, base: Path) -> int | None:
    """The first `_stime` of a source that can be read again."""
    reader = open_reader(source, base)
    if reader is None:
        return None
    for release in stamped(reader, source, diagram.buckets, 0):
        if release.rows.num_rows:
            return int(stime_values(release.rows.column("_stime")).min()) - source.slack_us
    return None
