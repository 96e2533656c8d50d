"""The status of a cluster, as reported by its nodes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from australis.diagram.model import Diagram
from australis.protocols.dpc.states import Phase
from australis.runtime.admin import AdminClient
from australis.streams.buckets import Buckets

STARTING = "STARTING"
"""The state of an output that has not heard from all its inputs, or whose lane has done nothing
yet."""
CATCHING_UP = "CATCHING_UP"
"""The state of an output whose lane works, and has not reached its inputs."""
LIVE = ("tcp", "push")
"""The kinds of sources whose tuples are live; others are replayed, from any time."""
WAITING_S = 1.0
"""The time, beyond two buckets, after which a wait of an output for an input is trouble."""
SILENT_S = 10.0
"""The silence after which it is trouble that a full log waits for a consumer."""
RECENT_REFUSALS_S = 600
"""The age after which a refusal is still counted, but no longer reported as trouble."""


def overview(admin: AdminClient, diagram: Diagram) -> dict[str, Any]:
    """The status of all nodes, asked concurrently.

    `behind_s` is the lag of a live source behind the clock, and of an output behind the source
    that is furthest ahead; it is None where that is unknown. The `state` of an output is for
    people; `advertised` is the state that the node reports to its consumers.
    """
    cluster = admin.cluster
    answers = admin.ask_all(cluster.nodes, "status")
    now_us = time.time_ns() // 1000
    told = {name: answers[name] or {} for name in cluster.nodes}
    buckets, kinds = diagram.buckets, {s.name: s.kind for s in diagram.sources}
    sources = {name: s for one in told.values() for name, s in one.get("sources", {}).items()}
    newest_us = max((buckets.end(s["end"]) for s in sources.values()), default=None)
    for one in told.values():
        for name, source in one.get("sources", {}).items():
            source["behind_s"] = _behind_s(now_us if kinds[name] in LIVE else None, source, buckets)
        for output in one.get("outputs", {}).values():
            output["behind_s"] = _behind_s(newest_us, output, buckets)
            output["advertised"], output["state"] = output["state"], state_of(output)
            wait = output["waits_for"]
            wait["source"] = _awaited(wait["stream"], told, sources)
            wait["long"] = (wait["waits_s"] or 0) >= WAITING_S + 2 * buckets.size_us / 1e6
        for sink in one.get("sinks", {}).values():
            sink["behind_s"] = _behind_s(newest_us, {"end": sink["upto"]}, buckets)
    nodes = {
        name: {"answers": bool(told[name]), "address": place.address} | told[name]
        for name, place in cluster.nodes.items()
    }
    return {"cluster": cluster.name, "at_us": now_us, "nodes": nodes}


def state_of(output: Mapping[str, Any]) -> str:
    """The state of an output in a word, which tells starting and catching up from failure."""
    if output["phase"] != Phase.RECOVERING.name:
        return str(output["state"])
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


def _waits(outputs: dict[str, Any]) -> Iterator[str]:
    """The outputs that wait for a source, with the time since their input last advanced."""
    for stream, output in outputs.items():
        wait = output.get("waits_for", {})
        if wait.get("long"):
            yield f"{stream} waits for {wait['source'] or wait['stream']} ({wait['waits_s']:,.0f} s)"
