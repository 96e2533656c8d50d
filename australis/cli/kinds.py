"""The kind of a user's file, by its sections, and a summary of a correct file of each kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml

from australis.kernel.errors import Place, UserError
from australis.runtime.files import read_text

_SECTION = re.compile(r"""^["']?([A-Za-z_][\w-]*)["']?[ \t]*:""", re.MULTILINE)


class FileKind(StrEnum):
    """The kinds of files that commands read."""

    DIAGRAM = "diagram"
    CLUSTER = "cluster"
    SCENARIO = "scenario"
    FEDERATION = "federation"
    PEERS = "peers"
    PLACEMENT = "placement"
    ELASTICITY = "elasticity"


_SECTIONS = {
    "scenario": FileKind.SCENARIO,
    "cluster": FileKind.CLUSTER,
    "federation": FileKind.FEDERATION,
    "participants": FileKind.FEDERATION,
    "peers": FileKind.PEERS,
    "servers": FileKind.PLACEMENT,
    "queries": FileKind.PLACEMENT,
    "modules": FileKind.ELASTICITY,
    "arrivals": FileKind.ELASTICITY,
    "diagram": FileKind.DIAGRAM,
    "sources": FileKind.DIAGRAM,
    "operators": FileKind.DIAGRAM,
}
"""The kind that each section stands for: the first section present in this order decides."""


def kind_of(file: Path) -> FileKind:
    """The kind of a file; a `UserError` if no kind has its sections."""
    if file.suffix not in (".yaml", ".yml") or not file.is_file():
        return FileKind.DIAGRAM  # the command that reads it reports mistakes
    text = read_text(file)
    found = _SECTION.findall(text)
    for section, kind in _SECTIONS.items():
        if section in found:
            return kind
    if not _is_yaml(text):
        return FileKind.DIAGRAM
    has = f"its sections are {', '.join(dict.fromkeys(found))}" if found else "it has no sections"
    raise UserError(
        f"is of no known kind ({has}): a diagram begins with 'diagram:', a cluster with 'cluster:',"
        " a scenario with 'scenario:', a federation with 'federation:'; 'peers:' is of a peers"
        " file, 'servers:' of a placement file, 'modules:' of an elasticity file",
        place=Place(str(file)),
    )


def _is_yaml(text: str) -> bool:
    try:
        return all(True for _ in yaml.parse(text))
    except yaml.YAMLError:
        return False


def expect(file: Path, wanted: FileKind) -> None:
    """Refuse a file that is clearly of another kind, and name the command that takes it."""
    if file.suffix not in (".yaml", ".yml") or not file.is_file():
        return
    try:
        kind = kind_of(file)
    except UserError:  # the command that reads it reports more
        return
    if kind is not wanted and _is_yaml(read_text(file)):
        raise UserError(
            f"is {_named(kind)}, not {_named(wanted)}: try `australis {_COMMANDS[kind]} {file}`",
            place=Place(str(file)),
        )


def _named(kind: FileKind) -> str:
    plain = kind in (FileKind.DIAGRAM, FileKind.CLUSTER, FileKind.SCENARIO, FileKind.FEDERATION)
    return f"{'an' if kind.value[0] in 'aeiou' else 'a'} {kind.value}{'' if plain else ' file'}"


_COMMANDS = {
    FileKind.DIAGRAM: "run",
    FileKind.CLUSTER: "up",
    FileKind.SCENARIO: "scenario run",
    FileKind.FEDERATION: "contracts run",
    FileKind.PEERS: "sim hotspots",
    FileKind.PLACEMENT: "place",
    FileKind.ELASTICITY: "elasticity",
}
"""The command that takes a file of each kind."""


@dataclass(frozen=True)
class FileSummary:
    """The contents of a correct file, as counts."""

    name: str
    """Its name; empty where files of its kind have no name."""
    counts: dict[str, int]

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {what}" for what, count in self.counts.items())


def _scenario(file: Path) -> FileSummary:
    from australis.scenarios.scenario_file import load

    one = load(file)
    return FileSummary(one.name, {"nodes": len(one.cluster.nodes), "faults": len(one.faults)})


def _federation(file: Path) -> FileSummary:
    from australis.protocols.contracts.federation_file import load

    one = load(read_text(file), str(file))
    tasks = sum(len(member.tasks) for member in one.participants.values())
    counts = {"participants": len(one.participants), "contracts": len(one.contracts)}
    return FileSummary(one.name, counts | {"tasks": tasks})


def _peers(file: Path) -> FileSummary:
    from australis.sim.hotspots.peers_file import load

    one = load(read_text(file), str(file))
    counts = {"peers": len(one.peers), "operators": len(one.operators)}
    return FileSummary("", counts | {"applications": len(one.applications)})


def _placement(file: Path) -> FileSummary:
    from australis.sim.ants.placement_file import load

    one = load(read_text(file), str(file))
    return FileSummary("", {"servers": len(one.network.servers), "queries": len(one.queries)})


def _elasticity(file: Path) -> FileSummary:
    from australis.sim.elasticity.elasticity_file import load

    one = load(read_text(file), str(file))
    return FileSummary("", {"modules": len(one.apart.modules), "nodes": len(one.nodes)})


SUMMARIES: dict[FileKind, Callable[[Path], FileSummary]] = {
    FileKind.SCENARIO: _scenario,
    FileKind.FEDERATION: _federation,
    FileKind.PEERS: _peers,
    FileKind.PLACEMENT: _placement,
    FileKind.ELASTICITY: _elasticity,
}
"""The check of each kind of file that stands alone: diagrams and clusters do not."""
