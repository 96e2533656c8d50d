"""Real networks for placements: topologies of the collection `topohub`, with link lengths."""

from __future__ import annotations

from random import Random

from australis.kernel.errors import UserError
from australis.placement.generate import BOUND, SPEEDS
from australis.placement.network import Network, Server
from australis.queueing.links import Wire

KM_PER_S = 200_000.0
"""The speed of light in glass."""
BYTES_PER_S = 125e6
DEFAULT_KM = 100.0
"""The length of a link whose length is not in the data."""
MIN_LATENCY_S = 0.0002


def measured(name: str, rng: Random) -> Network:
    """A measured network (Topology Zoo, SNDlib, CAIDA), such as `topozoo/Abilene`.

    Its places are servers whose speeds are drawn; the lengths of its links give their latencies.
    """
    from topohub import get

    try:
        found = get(name)
    except KeyError:
        raise UserError("is not a network of topohub", name=name) from None
    names = {node["id"]: str(node["name"]) or str(node["id"]) for node in found["nodes"]}
    if len(set(names.values())) < len(names):
        names = {key: f"{text}.{key}" for key, text in names.items()}
    links: dict[tuple[str, str], Wire] = {}
    for edge in found["edges"]:
        here, there = names[edge["source"]], names[edge["target"]]
        if (here, there) not in links and (there, here) not in links:
            latency_s = max(MIN_LATENCY_S, float(edge.get("dist") or DEFAULT_KM) / KM_PER_S)
            links[here, there] = Wire(BYTES_PER_S, latency_s)
    servers = [Server(text, rng.choice(SPEEDS), BOUND) for text in names.values()]
    return Network.both_ways(servers, links)
