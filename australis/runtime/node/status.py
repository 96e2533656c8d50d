"""The status of a node's parts, for `australis status` and the metrics.

Everything is read on request from state that the parts keep anyway, while the driver
thread runs: numbers that belong together may be one event apart.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from australis.kernel.durations import SECOND
from australis.protocols.dpc.digests import Comparison
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import WentBack
from australis.protocols.dpc.missing import share
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.subscribers import Subscribers
from australis.runtime.node.engine import LiveEngine
from australis.runtime.node.feed import SourceFeed
from australis.runtime.node.links import Link
from australis.runtime.node.mailbox import Mailbox
from australis.runtime.node.phase_log import PhaseLog
from australis.runtime.node.server import NodeServer
from australis.runtime.node.sinks import SinkFollower
from australis.runtime.node.waits import of_wait
from australis.streams.buckets import Buckets


def of_refusals(server: NodeServer | None) -> dict[str, Any]:
    """The requests refused in this incarnation, by reason, and the time since the last one."""
    if server is None:
        return {"refused": {}, "refused_ago_s": None, "connections": 0, "refused_connections": {}}
    at = server.refused_at
    ago_s = None if at is None else round(time.monotonic() - at, 1)
    return {
        "refused": dict(server.refused),
        "refused_ago_s": ago_s,
        "connections": len(server.listener),
        "refused_connections": dict(server.listener.refused),
    }


def of_choices(options: DpcOptions) -> dict[str, Any]:
    """The choices of the cluster file that are in force at a node."""
    return {
        "max_delay_s": options.max_delay_us / SECOND,
        "results": {
            result: None if delay_us is None else delay_us / SECOND
            for result, delay_us in options.delays.items()
        },
        "up_failure": options.up_failure.value,
        "stabilization": options.stabilization.value,
        "staggered": options.staggered,
        "hedged": options.hedged,
    }


def of_output(
    output: Output,
    engine: LiveEngine,
    phases: PhaseLog,
    stream: str,
    buckets: Buckets,
    now_us: int,
) -> dict[str, Any]:
    """The status of an output of a replica."""
    counts = engine.work.counts[stream]
    return {
        "replica": engine.machine,
        "state": output.state.name,
        "phase": output.phase.name,
        "upto": output.upto,
        "trimmed_upto": output.trimmed_upto,
        "end": output.end,
        "checkpointed": output.checkpointed,
        "tentative_upto": output.tentative_upto if output.forked else None,
        **of_missing(output),
        "reads": {i.stream: i.choice.curr for i in output.inputs},
        "inputs": {i.stream: of_input(i) for i in output.inputs},
        "sources": sorted({name for names in output.config.origins for name in names}),
        "waits_for": of_wait(output, buckets, now_us),
        "phases_s": {phase.name: round(s, 3) for phase, s in phases.seconds.items()},
        "micro_batches": counts.micro_batches,
        "stable_s": round(counts.stable_s, 3),
        "differs": of_differences(output.comparison),
        "lost": of_loss(output, now_us),
        "full": output.full,
        "log_waits_for": output.subscribers.waits_for(output.full_upto) if output.full else [],
        "consumers": of_consumers(output.subscribers, now_us),
        "stalled_s": engine.lanes.stalled_s(stream),
        "rejected": engine.lanes.rejected(stream),
        "forks": counts.forks,
        "tentative_buckets": counts.tentative_buckets,
        "tentative_tuples": counts.tentative_tuples,
    }


def of_loss(output: Output, now_us: int) -> dict[str, Any] | None:
    """What an output without its state waits for, or by when it is right; None if it has it."""
    if output.state_lost:
        silent = output.loss.silent(now_us)
        return {"waits_for": silent, "for_good": output.loss.for_good, "right_from": None}
    if output.upto < output.converges_at:
        return {"waits_for": [], "for_good": False, "right_from": output.converges_at}
    return None


def of_sink(sink: SinkFollower) -> dict[str, Any]:
    """The status of a sink that runs here."""
    return {
        "stream": sink.stream,
        "rows": sink.rows,
        "taken": sink.taken,
        "upto": sink.upto,
        "gone": list(sink.gone),
    }


def of_input(one: Input) -> dict[str, Any]:
    """The status of an input: the buckets it holds, and the replicas it reads from."""
    return {
        "have": one.have,
        "from": one.choice.curr,
        "replicas": list(one.monitors),
        "heard": any(monitor.heard for monitor in one.monitors.values()),
        "differs": of_differences(one.comparison),
        "went_back": of_went_back(one.stream, one.went_back),
    }


def of_went_back(stream: str, found: WentBack | None) -> str | None:
    """What is wrong with the log of a source that has gone back, and what to do."""
    return None if found is None else found.told(stream)


def of_missing(output: Output) -> dict[str, Any]:
    """The sources of which something is missing in its last tentative bucket."""
    said = output.said
    if said is None:
        return {"missing": [], "share": None}
    sources = {source for those in output.config.origins for source in those}
    there = share(said.missing, said.number, len(sources))
    return {"missing": [one.source for one in said.missing], "share": round(there, 4)}


def of_differences(comparison: Comparison) -> list[dict[str, Any]]:
    """The replicas whose logs differ from one's own, and where."""
    return [
        {
            "replica": one.replica,
            "after": one.after,
            "bucket": one.bucket,
            "mine": f"{one.mine:016x}",
            "theirs": f"{one.theirs:016x}",
        }
        for one in list(comparison.differing.values())
    ]


def of_consumers(subscribers: Subscribers, now_us: int) -> dict[str, Any]:
    """The consumers for which a log is kept: how long each is silent, and how far it got."""
    return {
        name: {
            "silent_s": round(max(0, now_us - one.heard_us) / SECOND, 1),
            "acknowledged": one.acknowledged,
            "lease_s": None if lease is None else lease / SECOND,
            "lapsed": one.lapsed,
        }
        for name, one in list(subscribers.all.items())
        for lease in (subscribers.silence_us(one),)
    }


def of_source(feed: SourceFeed, log: Path, now_us: int) -> dict[str, Any]:
    """The status of a source."""
    stats, listener = feed.proxy.stats, feed.proxy.listener
    return {
        "trimmed_upto": feed.log("").trimmed_upto,
        "end": feed.closed,
        "due": feed.due,
        "ahead_s": round(stats.ahead_us / SECOND, 3),
        "rows": stats.rows,
        "rejected": stats.rejected,
        "late": stats.late,
        "idle": stats.idle,
        "refused_connections": 0 if listener is None else listener.refused.total(),
        "leads": None,
        "full": feed.full,
        "log_waits_for": feed.waits_for,
        "consumers": of_consumers(feed.subscribers, now_us),
        "went_back": of_went_back(feed.proxy.source.name, feed.went_back),
        "log_bytes": log_bytes(log),
    }


def of_link(link: Link, *, deaf: bool) -> dict[str, Any]:
    """The status of the link to another node."""
    up = link.up if link.tried else None
    return _sent(link) | {"up": up, "slow_s": link.slow_s, "deaf": deaf}


def of_client(mailbox: Mailbox, *, deaf: bool) -> dict[str, Any]:
    """The status of the mailbox of a client."""
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
    """The number of bytes in the files of a log, which may be truncated meanwhile."""
    size = 0
    with suppress(FileNotFoundError), os.scandir(directory) as files:
        for file in files:
            with suppress(FileNotFoundError):
                size += file.stat().st_size
    return size
