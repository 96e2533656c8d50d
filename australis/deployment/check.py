"""The checks of a cluster: alone, and against the diagram it runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from australis.deployment.cluster import LOOPBACK, SERVICES, Cluster
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.errors import UserError, unknown_name
from australis.kernel.names import known_names

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")


def check_name(application: str) -> None:
    """Raise a `UserError` for an application's name that cannot be one."""
    if not _NAME.fullmatch(application):
        sentence = "is not a name: use up to 100 letters, digits, _ and -, and begin with a letter"
        raise UserError(sentence, name=application)


def check_alone(cluster: Cluster) -> None:
    """Raise a `UserError` for the first mistake that can be found without the diagram."""
    _owners(cluster)
    _names(cluster)
    _addresses(cluster)
    _metrics(cluster)
    _known_nodes(cluster)
    _keepers(cluster)


def _keepers(cluster: Cluster) -> None:
    """Check that the keepers are nodes, and as many as decide something."""
    place = cluster.place_of("keepers")
    for name in cluster.keepers:
        if name not in cluster.nodes:
            sentence = "is not a node of this cluster, so it keeps nothing"
            raise unknown_name(name, cluster.nodes, sentence, heading="nodes", place=place)
    number = len(cluster.keepers)
    if len({*cluster.keepers}) < number or number not in (0, 1, 3, 5):
        sentence = f"has {number} keepers, but 1, 3 or 5 different nodes decide without a tie"
        raise UserError(sentence, name=cluster.name, place=place)


def check(cluster: Cluster, diagram: Diagram) -> None:
    """Raise a `UserError` for the first mistake."""
    check_alone(cluster)
    fragments, sources = [f.name for f in cut(diagram)], [s.name for s in diagram.sources]
    for name in sorted({*fragments} & {*SERVICES}):
        sentence = "is the name of a service of every node: give the fragment another one"
        raise UserError(sentence, name=name, place=diagram.place)
    _placed(cluster, "replicas", cluster.replicas, fragments, "a fragment")
    _placed(cluster, "sources", cluster.sources, sources, "a source")
    sinks = [sink.name for sink in diagram.sinks]
    for sink in cluster.sinks:
        if sink not in sinks:
            sentence = f"is not a sink of the diagram{_hint(sink, sinks)}"
            raise _wrong(cluster, "sinks", sink, sentence)
    for one in diagram.sinks:
        said = cluster.sinks.get(one.name)
        if said is not None and said.path is not None and "path" not in one.options:
            sentence = f"is given a path, but a sink of the kind '{one.kind}' has none"
            raise _wrong(cluster, "sinks", one.name, sentence)
    streams = {sink.name: sink.stream for sink in diagram.sinks}
    computing = {node for nodes in cluster.replicas.values() for node in nodes}
    for place in cluster.sinks.values():
        near = computing | {cluster.sources.get(streams[place.name], "")} - {""}
        if place.node is not None and place.node not in near:
            sentence = (
                f"is placed on '{place.node}', which computes nothing: a sink runs beside a replica,"
                f" or beside the source that it reads ({', '.join(sorted(near))})"
            )
            raise _wrong(cluster, "sinks", place.name, sentence)
    _results(cluster, diagram)
    logged = [*sources, *(plan.output for f in cut(diagram) for plan in f.plans)]
    for stream in cluster.logs:
        if stream not in logged:
            sentence = f"has an unknown stream '{stream}'{_hint(stream, logged)}"
            raise UserError(sentence, name="log", place=cluster.place_of("log", "streams"))
    for client in cluster.clients.values():
        if client.stream not in diagram.results:
            raise _wrong(
                cluster,
                "clients",
                client.name,
                f"reads '{client.stream}', which is not a result of the diagram"
                f"{_hint(client.stream, diagram.results)}",
            )
        for stream in client.reads or ():
            if stream not in logged:
                sentence = f"may read '{stream}', which has no log{_hint(stream, logged)}"
                raise _wrong(cluster, "clients", client.name, sentence)


def _results(cluster: Cluster, diagram: Diagram) -> None:
    """Check that what is promised for results concerns results, and has an effect."""
    nodes = {p.output: cluster.replicas[f.name] for f in cut(diagram) for p in f.plans}
    for result in cluster.results:
        if result not in diagram.results:
            sentence = f"is not a result of the diagram{_hint(result, diagram.results)}"
            raise _wrong(cluster, "results", result, sentence)
        if cluster.policies.up_failure == "suspend":
            sentence = (
                "is promised something of its own, but with 'up_failure: suspend' no result is ever"
                " tentative"
            )
            raise _wrong(cluster, "results", result, sentence)
    for client in cluster.clients.values():
        if client.hedge > 1 and len(nodes.get(client.stream, ())) == 1:
            sentence = f"follows two replicas of '{client.stream}', which has one only"
            raise _wrong(cluster, "clients", client.name, sentence)
    _policies(cluster, diagram, {s for s, replicas in nodes.items() if len(replicas) > 1})


def _policies(cluster: Cluster, diagram: Diagram, replicated: set[str]) -> None:
    read = {stream for fragment in cut(diagram) for p in fragment.plans for stream in p.inputs}
    why = ""
    if cluster.policies.staggered and not replicated:
        why = "has 'staggered' without effect: no fragment has two replicas"
    elif cluster.policies.hedged and not replicated & read:
        why = "has 'hedged' without effect: no fragment reads from another one with two replicas"
    if why:
        raise UserError(why, name="policies", place=cluster.place_of("policies"))


def _wrong(cluster: Cluster, section: str, name: str, sentence: str) -> UserError:
    return UserError(sentence, name=name, place=cluster.place_of(section, name))


def _hint(name: str, known: Collection[str]) -> str:
    return f" ({known_names(name, known)})"


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
        "operators": cluster.operators,
    }
    for section, names in named.items():
        for name in names:
            if not _NAME.fullmatch(name):
                sentence = (
                    "is not a name: use up to 100 letters, digits, _ and -, and begin with a letter"
                )
                raise _wrong(cluster, section, name, sentence)
    _unique(cluster, "nodes", cluster.nodes, {})
    sources = {source.lower(): "a source" for source in cluster.sources}
    _unique(cluster, "clients", cluster.clients, sources)


def _unique(cluster: Cluster, section: str, names: Iterable[str], taken: dict[str, str]) -> None:
    """Check that names, which files and machines get, differ in more than case."""
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
    """Check that each node serves its metrics at a port of its own on its machine's loopback."""
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
    placed += [("sinks", one.name, (one.node,)) for one in cluster.sinks.values() if one.node]
    for name, standby in cluster.standbys.items():
        if not standby.witness:
            sentence = "has a standby, but there is no third node to decide which of the two leads"
            raise _wrong(cluster, "sources", name, sentence)
        placed.append(("sources", name, (cluster.sources[name], standby.node, standby.witness)))
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
