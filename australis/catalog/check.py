"""The mistakes in a cluster: alone, and against the diagram it runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from australis.catalog.cluster import LOOPBACK, Cluster
from australis.diagram.check import nearest
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.errors import UserError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def check_alone(cluster: Cluster) -> None:
    """Raise a `UserError` for the first mistake that shows without the diagram."""
    _owners(cluster)
    _names(cluster)
    _addresses(cluster)
    _metrics(cluster)
    _known_nodes(cluster)


def check(cluster: Cluster, diagram: Diagram) -> None:
    """Raise a `UserError` for the first mistake."""
    check_alone(cluster)
    fragments, sources = [f.name for f in cut(diagram)], [s.name for s in diagram.sources]
    _placed(cluster, "replicas", cluster.replicas, fragments, "a fragment")
    _placed(cluster, "sources", cluster.sources, sources, "a source")
    for client in cluster.clients.values():
        if client.stream not in diagram.results:
            raise _wrong(
                cluster,
                "clients",
                client.name,
                f"reads '{client.stream}', which is not a result of the diagram"
                f"{_hint(client.stream, diagram.results)}",
            )


def _wrong(cluster: Cluster, section: str, name: str, sentence: str) -> UserError:
    return UserError(sentence, name=name, place=cluster.place_of(section, name))


def _hint(name: str, known: Collection[str]) -> str:
    close = nearest(name, known)
    return f" (did you mean '{close}'?)" if close else f" (known: {', '.join(known) or 'none'})"


def _owners(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        if node.owner is None:
            continue
        if not _NAME.fullmatch(node.owner):
            sentence = f"has an owner '{node.owner}', which is not a name"
            raise _wrong(cluster, "nodes", node.name, sentence)
        if node.owner not in cluster.participants:
            hint = _hint(node.owner, cluster.participants)
            sentence = f"has an owner '{node.owner}' who is no participant{hint}"
            raise _wrong(cluster, "nodes", node.name, sentence)


def _names(cluster: Cluster) -> None:
    named: dict[str, Iterable[str]] = {
        "cluster": [cluster.name],
        "nodes": cluster.nodes,
        "participants": cluster.participants,
        "replicas": cluster.replicas,
        "clients": cluster.clients,
    }
    for section, names in named.items():
        for name in names:
            if not _NAME.fullmatch(name):
                sentence = "is not a name: use letters, digits, _ and -, and begin with a letter"
                raise _wrong(cluster, section, name, sentence)
    _unique(cluster, "nodes", cluster.nodes, {})
    sources = {source.lower(): "a source" for source in cluster.sources}
    _unique(cluster, "clients", cluster.clients, sources)


def _unique(cluster: Cluster, section: str, names: Iterable[str], taken: dict[str, str]) -> None:
    """Files and machines are called by these names, so they differ in more than capitals."""
    for name in names:
        if name.lower() in taken:
            holder = taken[name.lower()]
            sentence = f"has a name that is taken: {holder} has it already"
            raise _wrong(cluster, section, name, sentence)
        taken[name.lower()] = f"a {section.removesuffix('s')}"


def _addresses(cluster: Cluster) -> None:
    at: dict[tuple[str, int], str] = {}
    for node in cluster.nodes.values():
        if cluster.tls is None and not node.loopback:
            raise _wrong(
                cluster,
                "nodes",
                node.name,
                f"has the address '{node.address}', which other machines can reach: without 'tls'"
                " only loopback addresses are allowed (127.0.0.1, [::1], localhost)",
            )
        host = LOOPBACK if node.host == "localhost" else node.host
        other = at.setdefault((host, node.port), node.name)
        if other != node.name:
            raise _wrong(
                cluster,
                "nodes",
                node.name,
                f"has the address '{node.address}', which '{other}' has already",
            )


def _metrics(cluster: Cluster) -> None:
    """A node serves its metrics at its own machine's loopback address, at a port of its own."""
    nodes = cluster.nodes.values()
    at = {
        ("", node.port): f"'{node.name}' listens there"
        for node in nodes
        if node.host in ("localhost", LOOPBACK)
    }
    for node in nodes:
        if node.metrics is None:
            continue
        place = ("" if node.loopback else node.host, node.metrics)
        if place in at:
            sentence = f"has the port {node.metrics} for its metrics, but {at[place]}"
            raise _wrong(cluster, "nodes", node.name, sentence)
        at[place] = f"'{node.name}' has it for its own"


def _known_nodes(cluster: Cluster) -> None:
    placed = [("replicas", name, nodes) for name, nodes in cluster.replicas.items()]
    placed += [("sources", name, (node,)) for name, node in cluster.sources.items()]
    for section, name, nodes in placed:
        for node in nodes:
            if node not in cluster.nodes:
                hint = _hint(node, cluster.nodes)
                raise _wrong(cluster, section, name, f"names an unknown node '{node}'{hint}")
            if nodes.count(node) > 1:
                raise _wrong(cluster, section, name, f"is placed on '{node}' twice")


def _placed(
    cluster: Cluster, section: str, placed: Collection[str], parts: Collection[str], what: str
) -> None:
    for name in placed:
        if name not in parts:
            hint = _hint(name, parts)
            raise _wrong(cluster, section, name, f"is not {what} of the diagram{hint}")
    for name in parts:
        if name not in placed:
            raise _wrong(cluster, section, name, f"is {what} of the diagram but on no node")
