"""Cluster files: YAML with the nodes of a cluster and what runs on each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from australis.deployment.check import check_alone
from australis.deployment.cluster import (
    OPERATOR,
    ClientPlace,
    Cluster,
    Engine,
    Leases,
    LogChoice,
    NodePlace,
    Policies,
    PolicyName,
    ResultPromise,
    SinkPlace,
    StandbyPlace,
    Tls,
)
from australis.kernel.errors import UserError
from australis.streams.buckets import END_OF_STREAM_US
from australis.yamlfile.document import Document, parse
from australis.yamlfile.schema import Section, SettingError, Settings, arguments, read
from australis.yamlfile.values import (
    Address,
    Duration,
    LogSize,
    Memory,
    Moment,
    Port,
    Span,
    SpanOrNever,
    Text,
)

Nodes = Annotated[tuple[Text, ...], Meta(min_length=1, description="a list of nodes")]
Names = Annotated[tuple[Text, ...], Meta(description="a list of names")]
Streams = Annotated[tuple[Text, ...], Meta(description="a list of streams")]
Hedge = Annotated[int, Meta(ge=1, le=2, description="1 or 2")]


class Epoch(Moment):
    """A moment from which on a stream can carry all times."""

    @classmethod
    def read(cls, written: Any) -> Epoch:
        epoch = super().read(written)
        if not 0 < epoch.meaning < END_OF_STREAM_US:
            raise UserError(f"should be a time after 1970 that a stream can carry, not {written!r}")
        return epoch


class ClusterNodeSettings(Settings, frozen=True):
    """One node."""

    address: Address
    master: Text = field(default=NodePlace.master, name="spark")
    engine: Engine = NodePlace.engine
    memory_mb: Memory = field(default=Memory(NodePlace.memory_mb), name="memory")
    owner: Text | None = None
    metrics: Port | None = None
    trace: bool = False


class ClientSettings(Settings, frozen=True):
    """One durable reader."""

    stream: Text
    hedge: Hedge = ClientPlace.hedge
    reads: Streams | None = None


class PolicySettings(Settings, frozen=True):
    """What replicas do about failures."""

    up_failure: PolicyName = Policies.up_failure
    stabilization: PolicyName | None = None
    staggered: bool = Policies.staggered
    hedged: bool = Policies.hedged

    def __post_init__(self) -> None:
        if self.up_failure == "suspend":
            for setting, given in (
                ("stabilization", self.stabilization is not None),
                ("staggered", self.staggered),
            ):
                if given:
                    sentence = f"has '{setting}' without effect: with 'up_failure: suspend' nothing is tentative, so nothing is corrected"
                    raise SettingError(setting, sentence)

    @property
    def meaning(self) -> Policies:
        """The policies, with defaults for what is not said."""
        given = arguments(self)
        given["stabilization"] = self.stabilization or Policies.stabilization
        return Policies(**given)


class ResultSettings(Settings, frozen=True):
    """What is promised for one result."""

    max_delay_us: Span | None = field(default=None, name="max_delay")
    tentative: Literal["allowed", "never"] = ResultPromise.tentative

    def __post_init__(self) -> None:
        if self.tentative == "never" and self.max_delay_us is not None:
            sentence = "has a 'max_delay' without effect: its results are never tentative"
            raise SettingError("max_delay", sentence)


def promises(said: dict[str, ResultSettings]) -> dict[str, ResultPromise]:
    """The promises for results, by their names."""
    return {name: ResultPromise(name, **arguments(one)) for name, one in said.items()}


class SinkSettings(Settings, frozen=True):
    """What a cluster says of a sink of its diagram."""

    node: Text | None = None
    path: Text | None = None


class SourceSettings(Settings, frozen=True):
    """The nodes of a source's proxies."""

    node: Text
    standby: Text | None = None
    witness: Text | None = None

    def __post_init__(self) -> None:
        if self.witness is not None and self.standby is None:
            sentence = "has a 'witness' without effect: it has no 'standby'"
            raise SettingError("witness", sentence)


SourceHome = Annotated[Text | SourceSettings, Meta(description="a node, or 'node' and 'standby'")]


class LogSettings(Settings, frozen=True):
    """How long a log is kept, and how much of it."""

    keep: Duration | None = None
    max: LogSize | None = None
    full: Literal["wait", "skip"] | None = None


class LogsSettings(LogSettings, frozen=True):
    """The same for all logs, and for those of single streams."""

    streams: Section[LogSettings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, one in {"": self, **self.streams}.items():
            if one.full is not None and one.max is None and self.max is None:
                setting = f"streams.{name}.full" if name else "full"
                sentence = f"has '{setting}' without effect: without 'max' no log is ever full"
                raise SettingError("streams" if name else "full", sentence)

    def chosen(self, own: LogSettings) -> LogChoice:
        """What is chosen for a log, given its own settings."""
        keep, most, full = (
            getattr(self, one) if getattr(own, one) is None else getattr(own, one)
            for one in ("keep", "max", "full")
        )
        max_bytes, max_buckets = (None, None) if most is None else most.meaning
        keep_us = 0 if keep is None else keep.us
        return LogChoice(keep_us, max_bytes, max_buckets, full or LogChoice.full)


class LeaseSettings(Settings, frozen=True):
    """The silence after which logs no longer wait for consumers of each kind."""

    clients_us: SpanOrNever = field(default=SpanOrNever(Leases.clients_us), name="clients")
    sinks_us: SpanOrNever = field(default=SpanOrNever(Leases.sinks_us), name="sinks")
    replicas_us: SpanOrNever = field(default=SpanOrNever(Leases.replicas_us), name="replicas")


class TlsSettings(Settings, frozen=True):
    """The files of certificates."""

    ca: Text
    certificates: Text


class ParticipantSettings(Settings, frozen=True):
    """One participant, which has no settings but its name."""


class ClusterFile(Settings, frozen=True, kw_only=True):
    """The sections of a cluster file."""

    cluster: Any
    diagram_path: Text = field(default="", name="diagram")
    state: Text = ""
    max_delay_us: Span = field(default=Span(Cluster.max_delay_us), name="max_delay")
    hop_us: Span | None = field(default=None, name="hop")
    heartbeat_us: Span = field(default=Span(Cluster.heartbeat_us), name="heartbeat")
    clock_bound_us: Span = field(default=Span(Cluster.clock_bound_us), name="clock_bound")
    policies: PolicySettings = field(default_factory=PolicySettings)
    results: Section[ResultSettings] = field(default_factory=dict)
    log: LogsSettings = field(default_factory=LogsSettings)
    leases: LeaseSettings = field(default_factory=LeaseSettings)
    epoch_us: Epoch | None = field(default=None, name="epoch")
    nodes: Section[ClusterNodeSettings]
    operators: Names | None = None
    keepers: Names | None = None
    participants: Section[ParticipantSettings] = field(default_factory=dict)
    replicas: Section[Nodes] = field(default_factory=dict)
    sources: Section[SourceHome] = field(default_factory=dict)
    clients: Section[ClientSettings] = field(default_factory=dict)
    sinks: Section[SinkSettings] = field(default_factory=dict)
    tls: TlsSettings | None = None
    faults: Literal["allowed", "refused"] = "refused"

    def __post_init__(self) -> None:
        for setting in ("replicas", "sources", "sinks", "clients", "results"):
            if not self.diagram_path and getattr(self, setting):
                sentence = f"has '{setting}' without effect: it names no 'diagram'"
                raise SettingError(setting, sentence)


def load(text: str, file: str) -> Cluster:
    """Read a cluster file and check what can be checked without its diagram."""
    document = parse(text, file)
    cluster = _cluster(document, read(document, ClusterFile, "a cluster"))
    check_alone(cluster)
    return cluster


def _cluster(document: Document, said: ClusterFile) -> Cluster:
    name, given = document.word("cluster"), arguments(said)
    del given["cluster"]
    owners = dict.fromkeys(node.owner for node in said.nodes.values() if node.owner is not None)
    return Cluster(
        name=name,
        **given
        | {"state": said.state or f".australis/{name}"}
        | {"nodes": {node: _node(node, one) for node, one in said.nodes.items()}}
        | {"clients": {one: ClientPlace(one, **arguments(c)) for one, c in said.clients.items()}}
        | {"sinks": {sink: SinkPlace(sink, **arguments(s)) for sink, s in said.sinks.items()}}
        | {"log": said.log.chosen(said.log), "leases": Leases(**arguments(said.leases))}
        | {"logs": {name: said.log.chosen(one) for name, one in said.log.streams.items()}}
        | {"policies": said.policies.meaning, "results": promises(said.results)}
        | {"participants": tuple(said.participants or owners)}
        | {"operators": operators(said), "keepers": keepers(said)}
        | {"sources": homes(said.sources), "standbys": standbys(said.sources, said.nodes)}
        | {"tls": None if said.tls is None else Tls(**arguments(said.tls))}
        | {"faults": said.faults == "allowed"},
        place=document.origin,
        places=document.places,
    )


def operators(said: ClusterFile) -> tuple[str, ...]:
    """The operators; if none are named the one of that name, unless it is a node or a client."""
    if said.operators is not None:
        return said.operators
    return () if OPERATOR in said.nodes or OPERATOR in said.clients else (OPERATOR,)


def keepers(said: ClusterFile) -> tuple[str, ...]:
    """The keepers; if none are named the first three nodes, or the first where there are fewer."""
    if said.keepers is not None:
        return said.keepers
    nodes = tuple(said.nodes)
    return nodes[:3] if len(nodes) >= 3 else nodes[:1]


def homes(sources: Mapping[str, str | SourceSettings]) -> dict[str, str]:
    """The node of each source, that of the first proxy if there are two."""
    return {name: one if isinstance(one, str) else one.node for name, one in sources.items()}


def standbys(
    sources: Mapping[str, str | SourceSettings], nodes: Collection[str]
) -> dict[str, StandbyPlace]:
    """The standbys, each with a witness: the first node that is neither, if none is named."""
    found = {}
    for source, one in sources.items():
        if isinstance(one, str) or one.standby is None:
            continue
        others = (node for node in nodes if node not in (one.node, one.standby))
        found[source] = StandbyPlace(one.standby, one.witness or next(others, ""))
    return found


def _node(name: str, said: ClusterNodeSettings) -> NodePlace:
    given = arguments(said)
    return NodePlace(name, *given.pop("address"), **given)
