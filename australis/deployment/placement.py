"""Where the parts of an application begin to run, before anything that moves them knows better."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from australis.deployment.cluster import Cluster
from australis.deployment.deployed import Deployment, submitted
from australis.diagram.fragments import Fragment, cut
from australis.diagram.model import Diagram, Spark
from australis.kernel.errors import UserError, unknown_name
from australis.kernel.names import known_names

DEFAULT_REPLICAS = 2


def first_deployment(
    application: str,
    cluster: Cluster,
    diagram: Diagram,
    *,
    replicas: int | None = None,
    on: Collection[str] = (),
    places: Mapping[str, tuple[str, ...]],
    others: Iterable[Deployment] = (),
) -> Deployment:
    """The first version of an application's deployment.

    Replicas go to the nodes that run least of `others`, or only to those named by `on`; what
    `places` says of a fragment, a source or a sink counts before that. A source is read on the
    first node, a sink stands beside the first replica that has its stream.
    """
    fragments = {f.name: f for f in cut(diagram)}
    _refuse_unknown(cluster, diagram, fragments, on, places)
    runs = dict.fromkeys(cluster.nodes, 0)
    for other in others:
        for node in other.nodes & runs.keys():
            runs[node] += len(other.on(node))
    order = list(cluster.nodes)
    chosen: dict[str, tuple[str, ...]] = {}
    for name, fragment in fragments.items():
        nodes = places.get(name) or _least(cluster, fragment, runs, order, on, replicas)
        for node in nodes:
            runs[node] += 1
        chosen[name] = nodes
    home = next(iter(chosen.values()))[0]
    sources = {s.name: places.get(s.name, (home,))[0] for s in diagram.sources}
    makes = {p.output: chosen[f.name][0] for f in fragments.values() for p in f.plans} | sources
    sinks = {s.name: places.get(s.name, (makes[s.stream],))[0] for s in diagram.sinks}
    return submitted(application, "", chosen, sources, sinks)


def _least(
    cluster: Cluster,
    fragment: Fragment,
    runs: Mapping[str, int],
    order: list[str],
    on: Collection[str],
    replicas: int | None,
) -> tuple[str, ...]:
    """The nodes that run least, among those that can run a fragment."""
    needs_spark = any(isinstance(o, Spark) for plan in fragment.plans for o in plan.operators)
    able = [n for n in on or order if not needs_spark or cluster.nodes[n].engine == "spark"]
    if not able:
        raise UserError("needs Spark, and none of these nodes has it", name=fragment.name)
    number = min(DEFAULT_REPLICAS, len(able)) if replicas is None else replicas
    if number > len(able):
        raise UserError(
            f"can have {len(able)} replicas at most, one on each of {', '.join(able)}",
            name=fragment.name,
        )
    ranked = sorted(able, key=lambda node: (runs[node], order.index(node)))
    return tuple(ranked[:number])


def _refuse_unknown(
    cluster: Cluster,
    diagram: Diagram,
    fragments: Collection[str],
    on: Collection[str],
    places: Mapping[str, tuple[str, ...]],
) -> None:
    for node in [*on, *(node for nodes in places.values() for node in nodes)]:
        if node not in cluster.nodes:
            sentence = "is not a node of this cluster"
            raise unknown_name(node, cluster.nodes, sentence, heading="nodes")
    parts = [*fragments, *(s.name for s in diagram.sources), *(s.name for s in diagram.sinks)]
    for part, nodes in places.items():
        if part not in parts:
            hint = known_names(part, parts)
            raise UserError(f"is no fragment, source or sink of the diagram ({hint})", name=part)
        if part not in fragments and len(nodes) != 1:
            raise UserError("is a source or a sink, and runs on one node", name=part)
