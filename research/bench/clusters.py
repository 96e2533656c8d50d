"""Clusters on this machine for the benches, each in its own directory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from australis.kernel.errors import Stopped
from australis.runtime.testbed import free_ports

HOURS = 24
"""The duration of the sources, longer than any bench."""


@contextmanager
def scratch_directory(parent: Path | None) -> Iterator[Path]:
    """A directory for what a bench writes; it stays if a side stopped, for a look at the reason."""
    root = Path(tempfile.mkdtemp(prefix="australis-bench-", dir=parent))
    try:
        yield root
    except Stopped as error:
        raise Stopped(f"{error} (what it wrote is kept in {root})") from error
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    shutil.rmtree(root, ignore_errors=True)


def write(
    directory: Path,
    *,
    operators: str,
    nodes: Mapping[str, str],
    replicas: Mapping[str, Sequence[str]],
    sources: Mapping[str, str],
    stream: str,
    rate: int,
    bucket: str,
    max_delay: str,
    heartbeat: str = "100 ms",
    fragments: str = "none",
    speed: str = "1",
    duration: str = f"{HOURS} h",
    memory: str = "1g",
) -> Path:
    """Write the files of a cluster whose sources generate connections from now on; return its path.

    `nodes` has the engine of each, `sources` the node of each.
    """
    start = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    directory.mkdir(parents=True, exist_ok=True)
    lines = [f"diagram: bench\nbucket: {bucket}\nfragments: {fragments}\nsources:"]
    lines += [
        f"  {name}: {{generate: connections, site: {site}, rate: {rate}, duration: {duration},"
        f' speed: {speed}, seed: 7, scans: 0, floods: 0, start: "{start}"}}'
        for site, name in enumerate(sources)
    ]
    (directory / "diagram.yaml").write_text("\n".join([*lines, "operators:", operators, ""]))
    ports = free_ports(len(nodes))
    places = [
        f'  {name}: {{address: "127.0.0.1:{port}", engine: {engine}, memory: {memory}}}'
        for (name, engine), port in zip(nodes.items(), ports, strict=True)
    ]
    sets = [f"  {fragment}: [{', '.join(names)}]" for fragment, names in replicas.items()]
    homes = [f"  {source}: {node}" for source, node in sources.items()]
    path = directory / "cluster.yaml"
    path.write_text(
        "\n".join(
            [
                "cluster: bench\ndiagram: diagram.yaml\nstate: state\nfaults: allowed",
                f"max_delay: {max_delay}\nheartbeat: {heartbeat}",
                "nodes:", *places, "replicas:", *sets, "sources:", *homes,
                f"clients:\n  client: {{stream: {stream}}}\n",
            ]
        )
    )  # fmt: skip
    return path
