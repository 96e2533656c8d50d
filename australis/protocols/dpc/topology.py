"""Who reads from whom: the configurations of all nodes of a replicated diagram."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from australis.catalog.cluster import Cluster
from australis.diagram.fragments import Fragment, Plan, counts_tuples, cut
from australis.diagram.model import Aggregate, Diagram, Join, Spark, TimeWindow
from australis.kernel.durations import MILLISECOND, SECOND, format_duration
from australis.kernel.errors import UserError
from australis.protocols.dpc.messages import reader_key
from australis.protocols.dpc.options import DpcOptions, Policy
from australis.protocols.dpc.outputs import OutputConfig
from australis.protocols.dpc.replica import ReplicaConfig

SPARK_HOP_US = 500 * MILLISECOND
"""Windows close with a second micro-batch, and each takes Spark a fifth of a second."""


@dataclass(frozen=True)
class ClientConfig:
    """A client proxy: which stream it reads, and who produces that."""

    name: str
    stream: str
    producers: tuple[str, ...]


@dataclass(frozen=True)
class Topology:
    """A diagram on nodes: one per source, one per replica of a fragment, one per client."""

    diagram: Diagram
    fragments: tuple[Fragment, ...]
    sources: dict[str, tuple[str, ...]]
    """The consumers of each source; its node is called as the source."""
    replicas: tuple[ReplicaConfig, ...]
    clients: tuple[ClientConfig, ...]

    @property
    def plans(self) -> dict[str, Plan]:
        """What computes each logged stream."""
        return {plan.output: plan for f in self.fragments for plan in f.plans}


def replicate(diagram: Diagram, replicas: Mapping[str, int], default: int = 2) -> Topology:
    """Place a diagram: so many replicas of each fragment, and a client for each result."""
    nodes = {
        f.name: tuple(f"{f.name}/{i + 1}" for i in range(replicas.get(f.name, default)))
        for f in cut(diagram)
    }
    return deploy(diagram, nodes, {f"client of {stream}": stream for stream in diagram.results})


def deploy(
    diagram: Diagram, nodes_of: Mapping[str, tuple[str, ...]], clients: Mapping[str, str]
) -> Topology:
    """Place a diagram on the nodes of each fragment, for clients that each read one stream."""
    fragments = cut(diagram)
    home = {plan.output: f.name for f in fragments for plan in f.plans}
    consumers = _consumers(diagram, fragments, nodes_of, clients)
    hops = _hops(fragments)

    def producers(stream: str, reader: int) -> tuple[str, ...]:
        """The replicas of a stream, each reader preferring another one."""
        names = nodes_of[home[stream]] if stream in home else (stream,)
        first = reader % len(names)
        return names[first:] + names[:first]

    configs = [
        ReplicaConfig(
            node,
            {s: producers(s, i) for s in _inputs(f)},
            tuple(
                OutputConfig(
                    p.output,
                    p.inputs,
                    consumers[p.output],
                    _blocking(p),
                    hops[p.output],
                    span_buckets(p, diagram.bucket_us),
                )
                for p in f.plans
            ),
            tuple(n for n in nodes_of[f.name] if n != node),
        )
        for f in fragments
        for i, node in enumerate(nodes_of[f.name])
    ]
    return Topology(
        diagram,
        fragments,
        {s.name: consumers[s.name] for s in diagram.sources},
        tuple(configs),
        tuple(ClientConfig(c, s, producers(s, 0)) for c, s in clients.items()),
    )


def dpc_options(cluster: Cluster, diagram: Diagram) -> DpcOptions:
    """What the protocol is told of a cluster; a `UserError` if that does not fit together.

    What counts in buckets covers the same time however short they are: a micro-batch of Spark
    may take a third of the accepted delay, and one that catches up should do fifty seconds at
    once. New tuples are delayed while old ones are corrected: both at once would take twice as
    long, and when the corrections are through there is nothing to correct about these.
    """
    try:
        return _options(cluster, diagram)
    except UserError as error:
        raise error.at(cluster.place_of("max_delay")) from None


def _options(cluster: Cluster, diagram: Diagram) -> DpcOptions:
    second = max(1, SECOND // diagram.bucket_us)
    batch = max(16, 50 * second)
    return DpcOptions(
        bucket_us=diagram.bucket_us,
        max_delay_us=cluster.max_delay_us,
        hop_us=_hop_us(cluster, diagram),
        stabilization=Policy.DELAY,
        heartbeat_us=cluster.heartbeat_us,
        long_failure_us=max(5 * SECOND, cluster.max_delay_us),
        near_buckets=max(2, cluster.max_delay_us // (3 * diagram.bucket_us)),
        batch_buckets=batch,
        correction_us=cluster.max_delay_us // 3,
        correction_growth=8,
        input_window=2 * batch,
        send_window=max(16, 4 * second),
    )


def _hop_us(cluster: Cluster, diagram: Diagram) -> int:
    """What is allowed for a hop; all together no more than half of the accepted delay."""
    deepest = max(_hops(cut(diagram)).values(), default=1)
    most = cluster.max_delay_us // (2 * deepest)
    if cluster.hop_us is None:
        computing = {node for nodes in cluster.replicas.values() for node in nodes}
        on_spark = any(cluster.nodes[node].engine == "spark" for node in computing)
        return min(most, SPARK_HOP_US if on_spark else DpcOptions.hop_us)
    if cluster.hop_us > most:
        raise UserError(
            f"is too long: from the first node to the client all hops together may take half of"
            f" the accepted delay, so here {format_duration(most)} each",
            name="hop",
            place=cluster.place_of("hop"),
        )
    return cluster.hop_us


def _inputs(fragment: Fragment) -> tuple[str, ...]:
    """What a node reads from other nodes; streams between its own plans included."""
    return tuple(dict.fromkeys(s for plan in fragment.plans for s in plan.inputs))


def _consumers(
    diagram: Diagram,
    fragments: tuple[Fragment, ...],
    nodes: Mapping[str, tuple[str, ...]],
    clients: Mapping[str, str],
) -> dict[str, tuple[str, ...]]:
    readers: dict[str, dict[str, None]] = {s.name: {} for s in diagram.sources}
    for fragment in fragments:
        for plan in fragment.plans:
            readers.setdefault(plan.output, {})
    for fragment in fragments:
        for plan in fragment.plans:
            reader = plan.output if len(fragment.plans) > 1 else ""
            for stream in plan.inputs:
                names = (reader_key(node, reader) for node in nodes[fragment.name])
                readers[stream].update(dict.fromkeys(names))
    for client, stream in clients.items():
        readers[stream][client] = None
    return {stream: tuple(names) for stream, names in readers.items()}


def _hops(fragments: tuple[Fragment, ...]) -> dict[str, int]:
    """How many hops lie between each output and the furthest client."""
    plans = [plan for f in fragments for plan in f.plans]
    hops = {plan.output: 1 for plan in plans}
    for _ in plans:
        for plan in plans:
            for stream in plan.inputs:
                if stream in hops:
                    hops[stream] = max(hops[stream], hops[plan.output] + 1)
    return hops


def span_buckets(plan: Plan, bucket_us: int) -> int | None:
    """How far back the state of a plan reaches; None if a tuple may matter for ever.

    Windows of time and joins forget (they are convergent-capable, thesis 4.1.3); windows of
    so many tuples and the user's own functions may not.
    """
    reach_us = 0
    for operator in plan.operators:
        if isinstance(operator, Spark) or counts_tuples(operator):
            return None
        if isinstance(operator, Aggregate) and isinstance(operator.window, TimeWindow):
            reach_us += operator.window.size_us
        elif isinstance(operator, Join):
            reach_us += operator.within_us
    return -(-reach_us // bucket_us) + (1 if reach_us else 0)


def _blocking(plan: Plan) -> frozenset[str]:
    """The inputs without which a join has nothing on one side.

    Behind a union of several inputs a join goes on when one of them is missing.
    """
    blocked: set[str] = set()
    comes_from: dict[str, set[str]] = {stream: {stream} for stream in plan.inputs}
    for operator in plan.operators:
        sides = [comes_from[stream] for stream in operator.inputs]
        for stream in operator.outputs:
            comes_from[stream] = set().union(*sides)
        if isinstance(operator, Join):
            blocked.update(*(side for side in sides if len(side) == 1))
    return frozenset(blocked)


def node_of(consumer: str) -> str:
    """The node of a consumer, whichever of its outputs reads."""
    return consumer.partition(" for ")[0]
