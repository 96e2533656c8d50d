"""How the parts of a node are doing: what `australis status` and its metrics are made of.

Everything is read from what the parts know anyway, when somebody asks, while the driver
goes on: numbers that belong together may be one event apart.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from australis.live.node.feed import SourceFeed
from australis.live.node.hosts import ReplicaHost
from australis.live.node.links import Link
from australis.live.node.mailbox import Mailbox
from australis.live.node.server import NodeServer
from australis.live.node.turns import Turns
from australis.protocols.dpc.inputs import Input


def of_refusals(server: NodeServer | None) -> dict[str, Any]:
    """What the node refused in this life, by reason, and how long ago the last of it was."""
    if server is None:
        return {"refused": {}, "refused_ago_s": None}
    at = server.refused_at
    ago_s = None if at is None else round(time.monotonic() - at, 1)
    return {"refused": dict(server.refused), "refused_ago_s": ago_s}


def of_output(host: ReplicaHost, stream: str, turns: Turns, log: Path) -> dict[str, Any]:
    """An output of a replica."""
    output = host.machine.outputs[stream]
    counts = host.work.counts[stream]
    return {
        "replica": host.name,
        "state": output.state.name,
        "phase": output.phase.name,
        "upto": output.upto,
        "begins": output.begins,
        "end": output.end,
        "checkpointed": output.checkpointed,
        "tentative_upto": output.tentative_upto if output.forked else None,
        "reads": {i.stream: i.choice.curr for i in output.inputs},
        "inputs": {i.stream: of_input(i) for i in output.inputs},
        "phases_s": {phase.name: round(s, 3) for phase, s in turns.seconds.items()},
        "micro_batches": counts.micro_batches,
        "stable_s": round(counts.stable_s, 3),
        "forks": counts.forks,
        "tentative_buckets": counts.tentative_buckets,
        "tentative_tuples": counts.tentative_tuples,
        "log_bytes": log_bytes(log),
    }


def of_input(one: Input) -> dict[str, Any]:
    """An input of an output: what there is of it, and whose it may be."""
    return {"have": one.have, "from": one.choice.curr, "replicas": list(one.monitors)}


def of_source(feed: SourceFeed, log: Path) -> dict[str, Any]:
    """A source."""
    stats = feed.proxy.stats
    return {
        "begins": feed.log.begins,
        "end": feed.closed,
        "rows": stats.rows,
        "rejected": stats.rejected,
        "late": stats.late,
        "log_bytes": log_bytes(log),
    }


def of_link(link: Link, *, deaf: bool) -> dict[str, Any]:
    """What goes to another node."""
    up = link.up if link.tried else None
    return _sent(link) | {"up": up, "slow_s": link.slow_s, "deaf": deaf}


def of_client(mailbox: Mailbox, *, deaf: bool) -> dict[str, Any]:
    """What goes to a client."""
    return _sent(mailbox) | {"deaf": deaf}


def _sent(way: Link | Mailbox) -> dict[str, Any]:
    return {
        "sent": way.sent,
        "sent_bytes": way.sent_bytes,
        "dropped": way.dropped,
        "waiting_bytes": way.waiting_bytes,
        "cut": way.cut,
    }


def log_bytes(directory: Path) -> int:
    """How many bytes the files of a log have; it may be truncated meanwhile."""
    size = 0
    with suppress(FileNotFoundError), os.scandir(directory) as files:
        for file in files:
            with suppress(FileNotFoundError):
                size += file.stat().st_size
    return size
