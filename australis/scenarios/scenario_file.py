"""Scenario files: YAML that describes a cluster, its faults, and what its client must observe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from australis.deployment.cluster import ClientPlace, Cluster, Leases, NodePlace
from australis.deployment.cluster_file import (
    Hedge,
    LeaseSettings,
    LogsSettings,
    PolicySettings,
    ResultSettings,
    SourceHome,
    homes,
    promises,
    standbys,
)
from australis.diagram.diagram_file import load_document
from australis.diagram.model import Diagram
from australis.kernel.errors import UserError
from australis.runtime.files import read_text
from australis.runtime.load import load as load_diagram
from australis.scenarios.check import check
from australis.scenarios.model import CLIENT, Expected, Fault, FaultKind, Scenario
from australis.yamlfile.document import Document, parse
from australis.yamlfile.schema import Section, SettingError, Settings, arguments
from australis.yamlfile.schema import read as read_settings
from australis.yamlfile.values import Count, Duration, Name, Span, Text, several

Nodes = Annotated[
    Name | Annotated[tuple[Name, ...], Meta(min_length=1)],
    Meta(description="a node or a list of nodes"),
]

Streams = Annotated[
    Text | Annotated[tuple[Text, ...], Meta(min_length=1)],
    Meta(description="a stream or a list of streams"),
]


class FaultSettings(Settings, frozen=True, kw_only=True):
    """A fault of some nodes, once or several times."""

    kill: Nodes | None = None
    pause: Nodes | None = None
    lose_disk: Nodes | None = None
    cut: Nodes | None = None
    slow: Nodes | None = None
    at: Duration
    lasts: Span = field(name="for")
    times: Count = 1
    every: Span | None = None
    other: Text | None = field(default=None, name="from")
    one_way: bool | None = None
    by: Span | None = None

    def __post_init__(self) -> None:
        kinds = [kind.value for kind in FaultKind if getattr(self, kind.value) is not None]
        if len(kinds) != 1:
            said = f"says more than once ({', '.join(kinds)})" if kinds else "does not say"
            known = ", ".join(kind.value for kind in FaultKind)
            raise UserError(f"{said} what happens (one of: {known})")
        allowed = ["at", "for", "times", "every"]
        allowed += ["from", "one_way"] if self.kind.of_links else []
        allowed += ["by"] if self.kind is FaultKind.SLOW else []
        given = {"from": self.other, "one_way": self.one_way, "by": self.by}
        for setting, value in given.items():
            if value is not None and setting not in allowed:
                said = f"{kinds[0]}, {', '.join(allowed)}"
                raise SettingError(setting, f"has an unknown setting '{setting}' (known: {said})")
        for setting in ("from", "by"):
            if given[setting] is None and setting in allowed:
                raise UserError(f"needs '{setting}'")
        if self.times > 1 and self.every is None:
            raise UserError("needs 'every'")
        if self.times > 1 and self.every_us <= self.lasts.us:
            raise SettingError("every", "begins again ('every') before it is over ('for')")

    @property
    def kind(self) -> FaultKind:
        """The kind of fault."""
        return next(kind for kind in FaultKind if getattr(self, kind.value) is not None)

    @property
    def every_us(self) -> int:
        """The time from one beginning to the next."""
        return self.every.us if self.every else 0


class ExpectedSettings(Settings, frozen=True):
    """What the client must observe."""

    stable: Literal["equal", "told"] | None = None
    tentative: Literal["none", "some"] | None = None
    tentative_at_most: Count | None = None
    corrected: Literal["all"] | None = None
    silence: Span | None = None
    within: Span | None = None


class ClockSettings(Settings, frozen=True):
    """How far a node's clock is off."""

    ahead: Span | None = None
    behind: Span | None = None

    def __post_init__(self) -> None:
        if (self.ahead is None) == (self.behind is None):
            raise UserError("needs 'ahead' or 'behind'")

    @property
    def ahead_us(self) -> int:
        """How far it is ahead; negative if it is behind."""
        return self.ahead.us if self.ahead is not None else -(self.behind.us if self.behind else 0)


class ScenarioFile(Settings, frozen=True, kw_only=True):
    """The sections of a scenario file."""

    scenario: Any
    says: Text
    diagram: Annotated[Text | dict[str, Any], Meta(description="a file, or a diagram itself")]
    replicas: Section[Nodes]
    sources: Section[SourceHome]
    reads: Streams | None = None
    max_delay: Span = Span(Cluster.max_delay_us)
    hop: Span | None = None
    heartbeat: Span = Span(Cluster.heartbeat_us)
    policies: PolicySettings = field(default_factory=PolicySettings)
    results: Section[ResultSettings] = field(default_factory=dict)
    log: LogsSettings = field(default_factory=LogsSettings)
    leases: LeaseSettings = field(default_factory=LeaseSettings)
    hedge: Hedge = ClientPlace.hedge
    clocks: Section[ClockSettings] = field(default_factory=dict)
    lasts: Span
    faults: tuple[FaultSettings, ...] = ()
    expect: ExpectedSettings


def load(path: Path) -> Scenario:
    """The scenario in a file."""
    return read(read_text(path), str(path))


def read(text: str, file: str) -> Scenario:
    """Read a scenario from its text; `file` is its path, beside which its diagram lies."""
    document = parse(text, file)
    said = read_settings(document, ScenarioFile, "a scenario")
    diagram = _diagram(document, said)
    faults = [fault for i, one in enumerate(said.faults) for fault in _faults(document, i, one)]
    scenario = Scenario(
        name=document.word("scenario"),
        says=said.says,
        diagram=diagram,
        cluster=_cluster(document, said, diagram),
        clocks={node: one.ahead_us for node, one in said.clocks.items()},
        lasts_us=said.lasts.us,
        faults=tuple(sorted(faults, key=lambda fault: fault.at_us)),
        expected=_expected(said.expect),
        file=file,
    )
    check(scenario)
    return scenario


def _diagram(document: Document, said: ScenarioFile) -> Diagram:
    """The diagram: a file beside this one, or written in place."""
    if isinstance(said.diagram, dict):
        return load_document(document.within("diagram"))
    return load_diagram(Path(document.origin.file).parent / said.diagram)


def _cluster(document: Document, said: ScenarioFile, diagram: Diagram) -> Cluster:
    replicas = {fragment: several(nodes) for fragment, nodes in said.replicas.items()}
    computing = [node for nodes in replicas.values() for node in nodes]
    names = dict.fromkeys([*computing, *homes(said.sources).values()])
    second = standbys(said.sources, names)
    names |= dict.fromkeys(node for one in second.values() for node in (one.node, one.witness))
    places = document.places
    reads = several(said.reads) if said.reads else (_only_result(document, diagram),)
    clients = [CLIENT, *(f"{CLIENT}_{stream}" for stream in reads[1:])]
    return Cluster(
        name=document.word("scenario"),
        diagram_path="diagram.yaml",
        state="state",
        max_delay_us=said.max_delay.us,
        hop_us=None if said.hop is None else said.hop.us,
        heartbeat_us=said.heartbeat.us,
        nodes={
            n: NodePlace(n, "127.0.0.1", port, engine="reference")
            for port, n in enumerate(names, 1)
        },
        replicas=replicas,
        sources=homes(said.sources),
        standbys=second,
        policies=said.policies.meaning,
        results=promises(said.results),
        log=said.log.chosen(said.log),
        logs={name: said.log.chosen(one) for name, one in said.log.streams.items()},
        leases=Leases(**arguments(said.leases)),
        clients={
            client: ClientPlace(client, stream, said.hedge)
            for client, stream in zip(clients, reads, strict=True)
        },
        faults=True,
        place=document.origin,
        places=places
        | {"cluster": places["scenario"], "nodes": places["replicas"]}
        | {"clients": places.get("reads", places["diagram"])},
    )


def _only_result(document: Document, diagram: Diagram) -> str:
    if len(diagram.results) != 1:
        raise UserError(
            f"has several results ({', '.join(diagram.results)}): say which the client 'reads'",
            name=diagram.name,
            place=document.place("diagram"),
        )
    return diagram.results[0]


def _faults(document: Document, index: int, said: FaultSettings) -> list[Fault]:
    """The faults of one entry of the list: a single fault, or repetitions of it."""
    kind, place = said.kind, document.place("faults", index)
    nodes, other = several(getattr(said, kind.value)), said.other or ""
    by_us = said.by.us if said.by else 0
    begins_us = (said.at.us + i * said.every_us for i in range(said.times))
    return [
        Fault(kind, nodes, at_us, said.lasts.us, other, bool(said.one_way), by_us, place)
        for at_us in begins_us
    ]


def _expected(said: ExpectedSettings) -> Expected:
    given = {key: one for key, one in arguments(said).items() if one is not None}
    silence_us, within_us = given.pop("silence", None), given.pop("within", None)
    at_most = given.pop("tentative_at_most", None)
    return Expected(given, silence_us, at_most, within_us)
