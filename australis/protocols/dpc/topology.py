"""The configurations of all nodes of a replicated diagram: which node reads from which."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from australis.deployment.cluster import Cluster, LogChoice, sink_machine, witness_machine
from australis.deployment.deployed import Deployment, MemberRole
from australis.diagram.fragments import Fragment, Plan, cut
from australis.diagram.model import Diagram
from australis.kernel.durations import MILLISECOND, SECOND, format_duration
from australis.kernel.errors import UserError
from australis.protocols.dpc.blocking import Box
from australis.protocols.dpc.messages import reader_key
from australis.protocols.dpc.options import DpcOptions, Lease, LogBounds, Policy, WhenFull
from australis.protocols.dpc.outputs import OutputConfig, ReplicaConfig

UNBOUNDED = 1 << 62
"""A number of buckets that no stream reaches."""
SPARK_HOP_US = 500 * MILLISECOND
"""The allowance for a hop on Spark: windows close with a second micro-batch, and each batch takes
about 0.2 s."""


@dataclass(frozen=True)
class ClientConfig:
    """A client proxy: the stream it reads, and the producers of that stream."""

    name: str
    stream: str
    producers: tuple[str, ...]
    hedged: bool = False
    """Whether it follows two replicas at once."""


@dataclass(frozen=True)
class SourcePair:
    """The machines of a source with two proxies, of which the first leads at first."""

    members: tuple[str, str]
    witness: str


@dataclass(frozen=True)
class Topology:
    """A diagram on nodes: one per source, one per replica of a fragment, one per client."""

    diagram: Diagram
    fragments: tuple[Fragment, ...]
    sources: dict[str, tuple[str, ...]]
    """The consumers of each source; a source's node has the name of the source."""
    replicas: tuple[ReplicaConfig, ...]
    clients: tuple[ClientConfig, ...]
    pairs: Mapping[str, SourcePair] = field(default_factory=dict)
    """The sources that have two proxies."""
    joining: frozenset[str] = frozenset()
    """The replicas that nobody reads yet, since they are copying a state."""
    leaving: frozenset[str] = frozenset()
    """The replicas that nobody reads while another one is stable."""

    @property
    def plans(self) -> dict[str, Plan]:
        """The plan that computes each logged stream."""
        return {plan.output: plan for f in self.fragments for plan in f.plans}


def replicate(
    diagram: Diagram,
    replicas: Mapping[str, int],
    default: int = 2,
    pairs: Mapping[str, SourcePair] | None = None,
) -> Topology:
    """Place a diagram: the given number of replicas per fragment, and a client per result."""
    nodes = {
        f.name: tuple(f"{f.name}/{i + 1}" for i in range(replicas.get(f.name, default)))
        for f in cut(diagram)
    }
    clients = {f"client of {stream}": stream for stream in diagram.results}
    return deploy(diagram, nodes, clients, pairs)


def deploy(
    diagram: Diagram,
    nodes_of: Mapping[str, tuple[str, ...]],
    clients: Mapping[str, str],
    pairs: Mapping[str, SourcePair] | None = None,
    hedged: Collection[str] = (),
    *,
    joining: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    leaving: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Topology:
    """Place a diagram on the nodes of each fragment, for clients that each read one stream.

    The clients that are `hedged` follow two replicas at once. Besides the replicas in `nodes_of`
    there are those that are `joining`, which only read, and those that are `leaving`, which are
    read last.
    """
    fragments = cut(diagram)
    pairs = pairs or {}
    home = {plan.output: f.name for f in fragments for plan in f.plans}
    stated = {f.name: nodes_of[f.name] + leaving.get(f.name, ()) for f in fragments}
    everyone = {name: stated[name] + joining.get(name, ()) for name in stated}
    consumers = _consumers(diagram, fragments, everyone, clients)
    hops = _hops(diagram, fragments)
    origins = origins_of(fragments)

    def producers(stream: str, reader: int) -> tuple[str, ...]:
        """The replicas of a stream, rotated so that each reader prefers a different one."""
        if stream not in home:  # all begin with the member that leads at first
            return pairs[stream].members if stream in pairs else (stream,)
        names = nodes_of[home[stream]]
        first = reader % len(names) if names else 0
        return names[first:] + names[:first] + leaving.get(home[stream], ())

    configs = [
        ReplicaConfig(
            node,
            {s: producers(s, i) for s in _inputs(f)},
            tuple(
                OutputConfig(
                    p.output,
                    p.inputs,
                    consumers[p.output],
                    _boxes(p),
                    max(hops[p.output].values(), default=1),
                    span_buckets(p, diagram.bucket_us),
                    hops[p.output],
                    tuple(origins[s] for s in p.inputs),
                )
                for p in f.plans
            ),
            tuple(n for n in stated[f.name] if n != node),
            node not in stated[f.name],
        )
        for f in fragments
        for i, node in enumerate(everyone[f.name])
    ]
    return Topology(
        diagram,
        fragments,
        {s.name: consumers[s.name] for s in diagram.sources},
        tuple(configs),
        tuple(ClientConfig(c, s, producers(s, 0), c in hedged) for c, s in clients.items()),
        pairs,
        frozenset(name for names in joining.values() for name in names),
        frozenset(name for names in leaving.values() for name in names),
    )


def wired(
    diagram: Diagram,
    deployment: Deployment,
    clients: Mapping[str, str],
    pairs: Mapping[str, SourcePair] | None = None,
    hedged: Collection[str] = (),
) -> Topology:
    """Who reads whom in a deployment."""
    return deploy(
        diagram,
        deployment.machines(MemberRole.FULL),
        clients,
        pairs,
        hedged,
        joining=deployment.machines(MemberRole.JOINING),
        leaving=deployment.machines(MemberRole.LEAVING),
    )


def leases_of(cluster: Cluster, diagram: Diagram, topology: Topology) -> dict[str, Lease]:
    """The leases in a topology: those of its replicas name their peers there."""
    silence_us = cluster.leases.replicas_us
    others = {n: one for n, one in _leases(cluster, diagram).items() if one.peers is None}
    return others | {r.name: Lease(silence_us, r.peers) for r in topology.replicas}


def pairs_of(cluster: Cluster) -> dict[str, SourcePair]:
    """The sources of a cluster that have a standby."""
    machines = cluster.source_machines
    return {
        source: SourcePair((first, second), witness_machine(source))
        for source in cluster.standbys
        for first, second in [machines[source]]
    }


def dpc_options(cluster: Cluster, diagram: Diagram) -> DpcOptions:
    """The protocol options for a cluster; raises a `UserError` if its settings contradict.

    Options counted in buckets cover the same time whatever the length of a bucket: a micro-batch
    of Spark may take a third of the accepted delay, and one that catches up should process fifty
    seconds at once. New tuples are delayed during corrections: to process both at once would
    take twice as long, and tuples released after the corrections need none themselves.
    """
    try:
        options = _options(cluster, diagram)
    except UserError as error:
        raise error.at(cluster.place_of("max_delay")) from None
    for result, delay_us in options.delays.items():
        try:
            replace(options, max_delay_us=delay_us or options.max_delay_us)
        except UserError as error:
            raise error.at(cluster.place_of("results", result)) from None
    return options


def waiting(options: DpcOptions) -> DpcOptions:
    """The same options for a diagram that runs on one node, where no input is missing for long.

    Nothing is released before it is stable, and buffers between machines are bounded by
    tuples (a source waits for the lanes), not by buckets: a stream may be quiet for years.
    """
    return replace(
        options,
        up_failure=Policy.SUSPEND,
        stabilization=Policy.SUSPEND,
        batch_buckets=UNBOUNDED,
        input_window=UNBOUNDED,
        send_window=UNBOUNDED,
    )


def _options(cluster: Cluster, diagram: Diagram) -> DpcOptions:
    second = max(1, SECOND // diagram.bucket_us)
    batch = max(16, 50 * second)
    delays = cluster.delays
    given = [cluster.max_delay_us, *(delay for delay in delays.values() if delay is not None)]
    return DpcOptions(
        bucket_us=diagram.bucket_us,
        max_delay_us=cluster.max_delay_us,
        delays=delays,
        hop_us=_hop_us(cluster, diagram),
        up_failure=Policy(cluster.policies.up_failure),
        stabilization=Policy(cluster.policies.stabilization),
        staggered=cluster.policies.staggered,
        hedged=cluster.policies.hedged,
        heartbeat_us=cluster.heartbeat_us,
        clock_bound_us=cluster.clock_bound_us,
        long_failure_us=max(5 * SECOND, *given),
        near_buckets=max(2, min(given) // (3 * diagram.bucket_us)),
        batch_buckets=batch,
        correction_us=min(given) // 3,
        correction_growth=16,
        input_window=2 * batch,
        send_window=max(16, 4 * second),
        log=_bounds(cluster.log),
        logs={stream: _bounds(chosen) for stream, chosen in cluster.logs.items()},
        leases=_leases(cluster, diagram),
    )


def _bounds(chosen: LogChoice) -> LogBounds:
    full = WhenFull(chosen.full)
    return LogBounds(chosen.keep_us, chosen.max_buckets, chosen.max_bytes, full)


def _leases(cluster: Cluster, diagram: Diagram) -> dict[str, Lease]:
    """The leases of clients and replicas, and of sinks only if logs shall not wait for them."""
    given = cluster.leases
    leases = {client: Lease(given.clients_us) for client in cluster.clients}
    if given.sinks_us is not None:
        leases |= {sink_machine(sink.name): Lease(given.sinks_us) for sink in diagram.sinks}
    for names in cluster.machines.values():
        peers = {name: tuple(other for other in names if other != name) for name in names}
        leases |= {name: Lease(given.replicas_us, others) for name, others in peers.items()}
    return leases


def _hop_us(cluster: Cluster, diagram: Diagram) -> int:
    """The allowance for one hop; all hops together get at most half of the accepted delay."""
    ahead = _hops(diagram, cut(diagram)).values()
    delays = dict.fromkeys(diagram.results, cluster.max_delay_us) | cluster.delays
    most = min(
        (
            delay // (2 * hops)
            for results in ahead
            for result, hops in results.items()
            if (delay := delays[result]) is not None
        ),
        default=cluster.max_delay_us // 2,
    )
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
    """The streams that the plans of a fragment read, including those between its own plans."""
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


def origins_of(fragments: Iterable[Fragment]) -> dict[str, tuple[str, ...]]:
    """The original sources of each logged stream, in alphabetical order."""
    plans = {plan.output: plan for f in fragments for plan in f.plans}

    def sources(stream: str) -> set[str]:
        plan = plans.get(stream)
        return {stream} if plan is None else set().union(*map(sources, plan.inputs))

    streams = {s for plan in plans.values() for s in (plan.output, *plan.inputs)}
    return {stream: tuple(sorted(sources(stream))) for stream in sorted(streams)}


def _hops(diagram: Diagram, fragments: tuple[Fragment, ...]) -> dict[str, dict[str, int]]:
    """The number of hops between each output and the clients of each result behind it."""
    plans = [plan for f in fragments for plan in f.plans]
    hops = {p.output: {p.output: 1} if p.output in diagram.results else {} for p in plans}
    for _ in plans:
        for plan in plans:
            for stream in (s for s in plan.inputs if s in hops):
                for result, far in hops[plan.output].items():
                    hops[stream][result] = max(hops[stream].get(result, 0), far + 1)
    return hops


def span_buckets(plan: Plan, bucket_us: int) -> int | None:
    """How many buckets back the state of a plan reaches; None if a tuple may matter for ever.

    Time windows and joins have bounded state (they are convergent-capable, thesis 4.1.3); count
    windows and user-defined functions may not.
    """
    reach_us = 0
    for operator in plan.operators:
        if operator.reach_us is None:
            return None
        reach_us += operator.reach_us
    return -(-reach_us // bucket_us) + (1 if reach_us else 0)


def _boxes(plan: Plan) -> tuple[Box, ...]:
    return tuple(Box(o.inputs, o.outputs, o.blocking_inputs) for o in plan.operators)


def node_of(consumer: str) -> str:
    """The node of a consumer, without the output that reads."""
    return consumer.partition(" for ")[0]
