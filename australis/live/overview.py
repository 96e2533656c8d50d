"""How a cluster is doing, as its nodes tell it."""

from __future__ import annotations

import time
from typing import Any

from australis.diagram.model import Diagram
from australis.live.operate import Operator


def overview(operator: Operator, diagram: Diagram) -> dict[str, Any]:
    """What all nodes say of themselves, asked at the same time.

    A source is behind the clock, an output behind the source that is furthest (which may replay
    what is long past), or behind the clock if no source answers.
    """
    cluster = operator.cluster
    answers = operator.ask_all(cluster.nodes, "status")
    now_us = time.time_ns() // 1000
    told = {name: answers[name] or {} for name in cluster.nodes}
    sources = [s for one in told.values() for s in one.get("sources", {}).values()]
    outputs = [o for one in told.values() for o in one.get("outputs", {}).values()]
    newest_us = max((diagram.buckets.end(s["end"]) for s in sources), default=now_us)
    for streams, until_us in ((sources, now_us), (outputs, newest_us)):
        for stream in streams:
            late_us = until_us - diagram.buckets.end(stream["end"])
            stream["behind_s"] = max(0.0, round(late_us / 1e6, 3))
    nodes = {
        name: {"answers": bool(told[name]), "address": place.address} | told[name]
        for name, place in cluster.nodes.items()
    }
    return {"cluster": cluster.name, "at_us": now_us, "nodes": nodes}


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
    found += [f"{count:,} refused ({why})" for why, count in node["refused"].items()]
    if node["overflowed"]:
        found.append(f"{node['overflowed']:,} messages too many")
    return found
