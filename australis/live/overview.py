"""How a cluster is doing, as its nodes tell it."""

from __future__ import annotations

import time
from typing import Any

from australis.diagram.model import Diagram
from australis.live.operate import Operator


def overview(operator: Operator, diagram: Diagram) -> dict[str, Any]:
    """What all nodes say of themselves, asked at the same time."""
    cluster = operator.cluster
    answers = operator.ask_all(cluster.nodes, "status")
    now_us = time.time_ns() // 1000
    nodes = {}
    for name, place in cluster.nodes.items():
        told = answers[name] or {}
        for stream in (*told.get("outputs", {}).values(), *told.get("sources", {}).values()):
            end_us = diagram.buckets.end(stream["end"])
            stream["behind_s"] = round((now_us - end_us) / 1e6, 3)
        nodes[name] = {"answers": bool(told), "address": place.address} | told
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
        if link["dropped"]:
            found.append(f"{link['dropped']:,} dropped to {other}")
    found += [f"{count:,} refused ({why})" for why, count in node["refused"].items()]
    if node["overflowed"]:
        found.append(f"{node['overflowed']:,} messages too many")
    return found
