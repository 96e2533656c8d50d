"""How a cluster is doing, as its nodes tell it."""

from __future__ import annotations

import time
from typing import Any

from australis.diagram.model import Diagram
from australis.live.operate import Operator
from australis.streams.buckets import Buckets

LIVE = ("tcp", "push")
"""Sources whose tuples come as they happen; others are replayed, from whatever time."""
RECENT_S = 600
"""What was refused longer ago is counted, but is no trouble any more."""


def overview(operator: Operator, diagram: Diagram) -> dict[str, Any]:
    """What all nodes say of themselves, asked at the same time.

    A source is behind the clock, if it is not one that is replayed; an output is behind the
    source that is furthest. Where that cannot be known, `behind_s` is None.
    """
    cluster = operator.cluster
    answers = operator.ask_all(cluster.nodes, "status")
    now_us = time.time_ns() // 1000
    told = {name: answers[name] or {} for name in cluster.nodes}
    buckets, kinds = diagram.buckets, {s.name: s.kind for s in diagram.sources}
    sources = {name: s for one in told.values() for name, s in one.get("sources", {}).items()}
    newest_us = max((buckets.end(s["end"]) for s in sources.values()), default=None)
    for name, source in sources.items():
        source["behind_s"] = _behind_s(now_us if kinds[name] in LIVE else None, source, buckets)
    for one in told.values():
        for output in one.get("outputs", {}).values():
            output["behind_s"] = _behind_s(newest_us, output, buckets)
    nodes = {
        name: {"answers": bool(told[name]), "address": place.address} | told[name]
        for name, place in cluster.nodes.items()
    }
    return {"cluster": cluster.name, "at_us": now_us, "nodes": nodes}


def _behind_s(until_us: int | None, stream: dict[str, Any], buckets: Buckets) -> float | None:
    if until_us is None:
        return None
    return max(0.0, round((until_us - buckets.end(stream["end"])) / 1e6, 3))


def troubles(node: dict[str, Any]) -> list[str]:
    """What is not as it should be at a node, in a few words each."""
    found = []
    for other, link in (node["links"] | node["clients"]).items():
        if link["cut"] or link["deaf"]:
            how = {(True, True): "cut off from", (True, False): "not heard by"}
            found.append(f"{how.get((link['cut'], link['deaf']), 'deaf to')} {other}")
        if link.get("slow_s"):
            found.append(f"slow to {other} ({link['slow_s']:g} s)")
        elif link.get("up") is False:
            found.append(f"cannot reach {other}")
    ago_s = node["refused_ago_s"]
    if ago_s is not None and ago_s < RECENT_S:
        found += [f"{count:,} refused ({why})" for why, count in node["refused"].items()]
    if node["overflowed"]:
        found.append(f"{node['overflowed']:,} messages too many")
    return found
