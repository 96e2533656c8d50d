"""The status of a cluster, as reported by its nodes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from australis.diagram.model import Diagram
from australis.protocols.dpc.states import Phase, State
from australis.runtime.admin import AdminClient
from australis.runtime.node.waits import in_words
from australis.runtime.supervise import process_of, supervised
from australis.streams.buckets import Buckets

STARTING = "STARTING"
"""The state of an output that has not heard from all its inputs, or whose lane has done nothing
yet."""
CATCHING_UP = "CATCHING_UP"
"""The state of an output whose lane works, and has not reached its inputs."""
WAITING = "WAITING"
"""The state of an output that would be STABLE, and waits for an input."""
CLOCK_S = 1.0
"""The difference of a node's clock to this machine's, beyond what is uncertain, that is trouble."""
SILENT_S = 10.0
"""The silence after which it is trouble that a full log waits for a consumer."""
RECENT_ENDS_S = 600
"""The age after which an end of a node's process is no longer reported as trouble."""
RECENT_REFUSALS_S = 600
"""The age after which a refusal is still counted, but no longer reported as trouble."""


def overview(admin: AdminClient, diagram: Diagram, state: Path | None = None) -> dict[str, Any]:
    """The status of all nodes, asked concurrently; with what is known here of their processes.

    `behind_s` is the lag of a source behind the clock that it follows, and of an output behind
    the furthest of its sources, where these are or where the clock says that they should be; it
    is None where that is unknown. The `state` of an output is for people; `advertised` is the
    state that the node reports to its consumers. Processes are known by the `state` directory.
    """
    cluster = admin.cluster
    asked_us = time.time_ns() // 1000
    answers = admin.ask_all(cluster.nodes, "status")
    now_us = time.time_ns() // 1000
    told = {name: answers[name] or {} for name in cluster.nodes}
    for one in told.values():
        if one:
            one["clock_s"] = _clock_s(one["clock_us"], asked_us, now_us)
    _judge(told, diagram.buckets, now_us)
    for application in {app for one in told.values() for app in one.get("applications", {})}:
        parts = {
            node: part | {"clock_s": one["clock_s"]}
            for node, one in told.items()
            if (part := one.get("applications", {}).get(application)) is not None and part["here"]
        }
        sizes = [part["bucket_us"] for part in parts.values()]
        if sizes:
            _judge(parts, Buckets(sizes[0]), now_us)
    nodes = {
        name: {"answers": bool(told[name]), "address": place.address}
        | told[name]
        | ({} if state is None else _process(state, name, now_us))
        for name, place in cluster.nodes.items()
    }
    return {"cluster": cluster.name, "at_us": now_us, "nodes": nodes}


def _judge(told: dict[str, dict[str, Any]], buckets: Buckets, now_us: int) -> None:
    """Add to what nodes tell of one application how far everything is behind, and for whom it waits."""
    sources: dict[str, dict[str, Any]] = {}
    for one in told.values():
        for name, source in one.get("sources", {}).items():
            due_us = _due_us(source, one["clock_s"], now_us, buckets, live=source["live"])
            source["behind_s"] = _behind_s(due_us, source, buckets)
            source["newest_us"] = max(due_us or 0, buckets.end(source["end"]))
            if source.get("leads") is not False or name not in sources:
                sources[name] = source
    outputs = [found for one in told.values() for found in one.get("outputs", {}).items()]
    rests_on = {stream: output["sources"] for stream, output in outputs}
    newest = {name: source.pop("newest_us") for name, source in sources.items()}

    def newest_us(stream: str) -> int | None:
        """The newest time of the sources that a stream rests on."""
        names = rests_on.get(stream) or ([stream] if stream in newest else newest)
        return max((newest[name] for name in names if name in newest), default=None)

    for one in told.values():
        for stream, output in one.get("outputs", {}).items():
            output["behind_s"] = _behind_s(newest_us(stream), output, buckets)
            output["advertised"], output["state"] = output["state"], state_of(output)
            wait = output["waits_for"]
            wait["source"] = _awaited(wait["stream"], told, sources)
        for sink in one.get("sinks", {}).values():
            until_us = newest_us(sink["stream"])
            sink["behind_s"] = _behind_s(until_us, {"end": sink["upto"]}, buckets)
        for source in one.get("sources", {}).values():
            source.pop("newest_us", None)


def _process(state: Path, name: str, now_us: int) -> dict[str, Any]:
    """What is known on this machine of the process of a node."""
    known = supervised(state).get(name)
    told = {"process": process_of(state, name), "ended": 0, "ended_why": "", "ended_ago_s": None}
    if known is None or not known.ended:
        return told
    ago_s = round((now_us - known.at_us) / 1e6, 1)
    return told | {"ended": known.ended, "ended_why": known.why, "ended_ago_s": ago_s}


def _clock_s(clock_us: int, asked_us: int, answered_us: int) -> float:
    """How far a node's clock is for certain ahead of this machine's, by one round trip."""
    if clock_us > answered_us:
        return (clock_us - answered_us) / 1e6
    return min(0, clock_us - asked_us) / 1e6


def _due_us(
    source: dict[str, Any], clock_s: float, now_us: int, buckets: Buckets, *, live: bool
) -> int | None:
    """The time up to which a source should have closed its buckets by this machine's clock.

    It is None for one that is read at full speed, whose tuples may be of any time.
    """
    if live:
        return now_us
    due = source.get("due")
    return None if due is None else buckets.end(due) - int(clock_s * 1e6)


def state_of(output: Mapping[str, Any]) -> str:
    """The state of an output in a word, which tells starting and catching up from failure."""
    if output["phase"] != Phase.RECOVERING.name:
        waits = output["state"] == State.STABLE.name and output["waits_for"]["long"]
        return WAITING if waits else str(output["state"])
    heard = all(one["heard"] for one in output["inputs"].values())
    return CATCHING_UP if heard and output["micro_batches"] else STARTING


def _awaited(stream: str, told: dict[str, Any], sources: Collection[str]) -> str | None:
    """The source at the end of the chain of inputs that hold each other back, if it is known."""
    outputs = [found for one in told.values() for found in one.get("outputs", {}).items()]
    while stream not in sources:
        waits = [out["waits_for"]["stream"] for name, out in outputs if name == stream]
        if not waits:
            return None
        stream = waits[0]
    return stream


def _behind_s(until_us: int | None, stream: dict[str, Any], buckets: Buckets) -> float | None:
    if until_us is None:
        return None
    return max(0.0, round((until_us - buckets.end(stream["end"])) / 1e6, 3))


def _differences(told: dict[str, Any]) -> list[str]:
    return [
        f"{one['replica']} (first in bucket {one['after'] + 1}..{one['bucket']})"
        for one in told.get("differs", ())
    ]


def troubles(node: dict[str, Any]) -> list[str]:
    """The problems of a node, in a few words each."""
    found = []
    for other, link in (node["links"] | node["clients"]).items():
        if link["cut"] or link["deaf"]:
            how = {(True, True): "cut off from", (True, False): "not heard by"}
            found.append(f"{how.get((link['cut'], link['deaf']), 'deaf to')} {other}")
        if link.get("slow_s"):
            found.append(f"slow to {other} ({link['slow_s']:g} s)")
        elif link.get("up") is False:
            found.append(f"cannot reach {other}")
    for stream, output in node["outputs"].items():
        if output.get("stalled_s") is not None:
            found.append(f"{stream} makes no progress ({output['stalled_s']:.0f} s)")
        found += _loss(stream, output.get("lost"))
        found += [f"{stream} differs from {text}" for text in _differences(output)]
        for name, one in output.get("inputs", {}).items():
            found += [
                f"{name}, as {stream} has read it, differs from {t}" for t in _differences(one)
            ]
    for name, sink in node.get("sinks", {}).items():
        found += [f"{name} lacks buckets {a + 1}..{upto}" for a, upto in sink.get("gone", ())]
    found += _waits(node["outputs"])
    for stream, log in (node["outputs"] | node["sources"]).items():
        if log.get("went_back") is not None:
            found.append(log["went_back"])
        if log.get("damaged") is not None:
            found.append(f"{stream} was damaged: {log['damaged']['why']}")
        found += _consumers(stream, log)
    found += _clocks(node["clocks"])
    found += _own_clock(node)
    if node.get("ended") and node["ended_ago_s"] < RECENT_ENDS_S:
        found.append(f"has ended {ended_in_words(node)}")
    ago_s = node["refused_ago_s"]
    if ago_s is not None and ago_s < RECENT_REFUSALS_S:
        found += [f"{count:,} refused ({why})" for why, count in node["refused"].items()]
    if node["overflowed"]:
        found.append(f"{node['overflowed']:,} messages too many")
    return found


def _loss(stream: str, lost: dict[str, Any] | None) -> Iterator[str]:
    """What an output without its state waits for, if it is without."""
    if lost is None:
        return
    if lost["for_good"]:
        yield f"{stream} has lost its state for good"
    elif lost["waits_for"]:
        yield f"{stream} has lost its state; {', '.join(lost['waits_for'])} may have it"
    elif lost["right_from"] is not None:
        yield f"{stream} has begun anew and says nothing up to bucket {lost['right_from']}"
    else:
        yield f"{stream} has lost its state"


def _consumers(stream: str, log: dict[str, Any]) -> Iterator[str]:
    """The silent consumers for which a full log waits, or for which no log waits any more."""
    for name, one in log.get("consumers", {}).items():
        silent = f"silent for {one['silent_s']:,.0f} s"
        if one["lapsed"]:
            yield f"the lease of {name} for {stream} has lapsed ({silent})"
        elif name in log["log_waits_for"] and one["silent_s"] >= SILENT_S:
            yield f"the log of {stream} is full and waits for {name} ({silent})"


def _clocks(clocks: dict[str, Any]) -> Iterator[str]:
    """The nodes whose clocks are beyond the bound."""
    for peer, one in clocks.items():
        if one["beyond"]:
            where = "ahead of" if one["offset_s"] > 0 else "behind"
            sources = f" (source {', '.join(one['sources'])})" if one["sources"] else ""
            yield f"{peer}'s clock{sources} is {abs(one['offset_s']):,.1f} s {where} this one's"


def _own_clock(node: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the node's own clock, and with sources that follow it."""
    off_s, jumped_s = node.get("clock_s", 0.0), node.get("clock_jumped_s", 0.0)
    if abs(off_s) > CLOCK_S:
        where = "ahead of" if off_s > 0 else "behind"
        yield f"its clock is {abs(off_s):,.1f} s {where} this machine's: synchronise it (NTP)"
    if abs(jumped_s) > CLOCK_S:
        yield f"the wall clock has jumped by {jumped_s:+,.1f} s since it was started"
    for name, source in node["sources"].items():
        if (ahead_s := source.get("ahead_s", 0.0)) > CLOCK_S:
            yield f"{name} is {ahead_s:,.1f} s ahead of its clock, and waits for it at half speed"


def ended_in_words(node: dict[str, Any]) -> str:
    """How often the process of a node has ended, and why the last time.

    >>> ended_in_words({"ended": 2, "ended_ago_s": 4.2, "ended_why": "killed by signal 9"})
    '2 times, the last time 4 s ago: killed by signal 9'
    >>> ended_in_words({"ended": 1, "ended_ago_s": 4.2, "ended_why": "killed by signal 9"})
    '4 s ago: killed by signal 9'
    """
    times = f"{node['ended']} times, the last time " if node["ended"] > 1 else ""
    return f"{times}{node['ended_ago_s']:.0f} s ago: {node['ended_why']}"


def _waits(outputs: dict[str, Any]) -> Iterator[str]:
    """The outputs that wait for a source, since when, or how far it is behind."""
    for stream, output in outputs.items():
        wait = output.get("waits_for", {})
        if wait.get("long"):
            yield f"{stream} {in_words(wait, wait['source'])}"
