"""Contract graphs shaped like real peering: networks measured by CAIDA, from `topohub`."""

from __future__ import annotations

import numpy as np

from research.thesis_contracts.arrays.graphs import Graph, from_edges

LARGEST = {"AT&T": "7018", "Lumen": "3356", "Comcast": "7922"}
"""Some of the largest networks, by the number of their autonomous system."""
SNAPSHOT = "caida/2024-08"


def peering_graph(system: str) -> Graph:
    """The places of an autonomous system, with a contract along each link.

    Places without links are left out.
    """
    import topohub

    found = topohub.get(f"{SNAPSHOT}/{system}")
    links = {
        (min(e["source"], e["target"]), max(e["source"], e["target"]))
        for e in found["edges"]
        if e["source"] != e["target"]
    }
    names = _largest_part(links)
    number = {name: n for n, name in enumerate(sorted(names))}
    pairs = sorted((number[a], number[b]) for a, b in links if a in names)
    a, b = np.array(pairs, np.int32).T
    return from_edges(len(number), a, b)


def _largest_part(links: set[tuple[int, int]]) -> set[int]:
    """The places of the largest connected component."""
    partners: dict[int, set[int]] = {}
    for a, b in links:
        partners.setdefault(a, set()).add(b)
        partners.setdefault(b, set()).add(a)
    best: set[int] = set()
    left = set(partners)
    while left:
        part, frontier = set(), [next(iter(left))]
        while frontier:
            one = frontier.pop()
            if one not in part:
                part.add(one)
                frontier += partners[one] - part
        left -= part
        best = max(best, part, key=len)
    return best
