"""The nodes of a diagram's sinks, and the streams that each durable client reads."""

from __future__ import annotations

from dataclasses import replace

from australis.deployment.cluster import Cluster, sink_machine
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram


def sink_places(cluster: Cluster, diagram: Diagram) -> dict[str, str]:
    """The node of each sink: as in the cluster file, else the first one that has its stream."""
    homes = {p.output: cluster.replicas[f.name][0] for f in cut(diagram) for p in f.plans}
    homes |= cluster.sources
    said = {name: place.node for name, place in cluster.sinks.items()}
    return {s.name: said.get(s.name) or homes[s.stream] for s in diagram.sinks}


def placed(cluster: Cluster, diagram: Diagram) -> Diagram:
    """The diagram with its sinks writing where the cluster says."""
    paths = {name: place.path for name, place in cluster.sinks.items()}
    sinks = tuple(
        replace(sink, options=dict(sink.options) | {"path": path})
        if (path := paths.get(sink.name)) is not None
        else sink
        for sink in diagram.sinks
    )
    return replace(diagram, sinks=sinks)


def readers(cluster: Cluster, diagram: Diagram) -> dict[str, str]:
    """The stream of each durable client: the clients of the cluster file, and the sinks."""
    return cluster.readers | {sink_machine(s.name): s.stream for s in diagram.sinks}
