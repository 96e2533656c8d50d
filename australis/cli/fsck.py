"""`australis fsck`: check everything stored, and repair what can be."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from australis.cli.kinds import FileKind, expect
from australis.cli.step_line import StepLine
from australis.kernel.errors import Damaged, UserError

if TYPE_CHECKING:
    from australis.runtime.fsck import Checked, Finding, StoredOutput


@click.command()
@click.argument("state", metavar="STATE", type=click.Path(path_type=Path))
@click.option(
    "--repair",
    is_flag=True,
    help="Repair what another file of the same state gives back, and set aside what another node"
    " gives back when this one starts; nothing is deleted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def fsck(state: Path, repair: bool, as_json: bool) -> None:
    """Check every byte of a state directory, and say what would repair it.

    STATE is the state directory of a run or of a cluster, or a cluster file. Nodes must not
    run meanwhile, and a check alone writes nothing. A node checks as well whatever it reads:
    this command also finds damage that nothing has read yet. The exit code is 0 if all is
    whole or was repaired, and 1 if something is damaged.

    \b
    Examples:
      australis fsck .australis/hello                  a run
      australis fsck examples/cluster.yaml             all nodes of a cluster on this machine
      australis fsck examples/cluster.yaml --repair    and repair what can be
    """
    from australis.runtime.fsck import check, find_nodes, locked

    directory, outputs = _stored(state)
    nodes = find_nodes(directory)
    step = StepLine(quiet=as_json or not sys.stderr.isatty())
    with locked(nodes):
        try:
            found = check(directory, nodes, step, outputs)
            if repair:
                _repair(found.findings, step)
        finally:
            step.end()
    if as_json:
        click.echo(json.dumps(_about(directory, found)))
    else:
        _tell(directory, len(nodes), found)
    if _left(found):
        sys.exit(1)


def _stored(state: Path) -> tuple[Path, list[StoredOutput]]:
    """The state directory, and what the sinks of a cluster file write outside of it."""
    if state.is_dir():
        return state, []
    if state.suffix not in (".yaml", ".yml"):
        raise UserError("is neither a state directory nor a cluster file", name=str(state))
    from australis.deployment.sinks import sink_places
    from australis.runtime.client import load_files
    from australis.runtime.fsck import StoredOutput

    expect(state, FileKind.CLUSTER)
    cluster, diagram, base = load_files(state)
    if not (base / cluster.state).is_dir():
        raise UserError("has no state on this machine", name=cluster.name, place=cluster.place)
    nodes = sink_places(cluster, diagram)
    return base / cluster.state, [
        StoredOutput(
            sink.name,
            sink.stream,
            base / Path(str(sink.options["path"])).expanduser(),
            nodes[sink.name],
        )
        for sink in diagram.sinks
        if sink.kind == "jsonl"
    ]


def _repair(findings: list[Finding], step: StepLine) -> None:
    for finding in findings:
        if finding.repair is not None:
            step(f"repairing {finding.file}")
            with suppress(Damaged):  # what it rests on is damaged too
                finding.repair()
                finding.repaired = True


def _left(found: Checked) -> list[Finding]:
    """What is damaged still."""
    return [one for one in found.findings if not (one.harmless or one.repaired)]


def _tell(directory: Path, nodes: int, found: Checked) -> None:
    for finding in found.findings:
        click.echo(str(finding))
        click.echo(f"  {'repaired' if finding.repaired else 'repair'}: {finding.remedy}")
    left = _left(found)
    repaired = sum(one.repaired for one in found.findings)
    said = f"{len(left):,} damaged" if left else "nothing damaged"
    said += f", {repaired:,} repaired" if repaired else ""
    counts = {"log": found.logs, "checkpoint": found.checkpoints, "journal": found.journals}
    checked = ", ".join(_count(count, what) for what, count in counts.items())
    others = f"{_count(found.files, 'other file')} of {_count(nodes, 'node')}"
    click.echo(f"{directory}: {said}; checked {checked} and {others}")
    if any(one.repair is not None and not one.repaired for one in found.findings):
        click.echo("`australis fsck --repair` repairs what can be repaired here")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _about(directory: Path, found: Checked) -> dict[str, object]:
    return {
        "state": str(directory),
        "ok": not _left(found),
        "logs": found.logs,
        "checkpoints": found.checkpoints,
        "journals": found.journals,
        "files": found.files,
        "findings": [one.as_json() for one in found.findings],
    }
