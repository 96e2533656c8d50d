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
from australis.runtime.files import make_directory, stopping, write_first
from australis.runtime.sealed import read_sealed, seal, write_sealed
from australis.runtime.sources import open_reader
from australis.runtime.sources.replay import stamped
from australis.runtime.state import StateDirectory
from australis.streams.buckets import stime_values

FILE = "epoch"
BEGAN = "began"


def read_epoch(state: Path) -> int | None:
    """The epoch that was chosen for the cluster with this state."""
    remedy = "remove it, and `australis up` takes the epoch from the state of the nodes"
    found = _read_time(state / FILE, remedy)
    return None if found is None else found // SECOND * SECOND


def began_us(state: Path, now_us: int) -> int:
    """The time at which the cluster's first node started on this machine: now, or as recorded.

    Replayed sources pace themselves from this time, so that they stay in step: one whose node was
    down is afterwards as far as if it had never stopped.
    """
    path = state / BEGAN
    if not path.exists():
        with stopping("write", path):
            make_directory(state)
            write_first(path, seal(BEGAN, _written(now_us)))
    found = read_began(state)
    assert found is not None, "it has just been written"
    return found


def read_began(state: Path) -> int | None:
    """The time at which the cluster began on this machine, if a node has noted it."""
    return _read_time(state / BEGAN, "`australis fsck --repair` takes it from the state of a node")


def write_began(state: Path, began: int) -> None:
    """Store when the cluster began."""
    write_sealed(state / BEGAN, BEGAN, _written(began))


def _read_time(path: Path, remedy: str) -> int | None:
    found = read_sealed(path, path.name, remedy)
    if found is None:
        return None
    return round(datetime.fromisoformat(found.decode().strip()).timestamp() * SECOND)


def _written(time_us: int) -> bytes:
    return f"{datetime.fromtimestamp(time_us / SECOND, UTC).isoformat()}\n".encode()


def write_epoch(state: Path, epoch_us: int) -> None:
    """Store the epoch in whole seconds."""
    with stopping("write", state / FILE):
        make_directory(state)
    write_sealed(state / FILE, FILE, _written(epoch_us // SECOND * SECOND))


def keep_epoch(cluster: Cluster, diagram: Diagram, base: Path) -> None:
    """Choose an epoch if the cluster has none yet; refuse one that is not that of its state."""
    state = base / cluster.state
    epoch_us = read_epoch(state) if cluster.epoch_us is None else cluster.epoch_us
    claims = [StateDirectory(state / node).claimed for node in cluster.nodes]
    for claim in claims:
        if claim is not None and epoch_us is not None:
            claim.refuse_epoch(epoch_us, cluster.place)
    if epoch_us is None:
        claimed = next((claim.epoch_us for claim in claims if claim is not None), None)
        if claimed is None:
            claimed = choose_epoch(diagram, base, time.time_ns() // 1000)
        write_epoch(state, claimed)


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
