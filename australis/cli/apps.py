"""`australis submit`, `apps` and `withdraw`: the applications of a running cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from australis.cli.change import AS_JSON, changes_of
from australis.cli.cluster import FILE, IDENTITY
from australis.cli.kinds import FileKind, expect
from australis.cli.options import Duration
from australis.kernel.durations import SECOND
from australis.kernel.errors import Stopped, UserError

if TYPE_CHECKING:
    from australis.runtime.changes import Changes

OPEN_TIMEOUT_S = 120.0
LOOK_S = 0.1
NO_WAIT = click.option("--no-wait", is_flag=True, help="Do not wait until all nodes have done it.")


@click.command()
@click.argument("diagram", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "file",
    metavar="CLUSTER",
    required=True,
    type=click.Path(path_type=Path),
    help="The cluster file.",
)
@click.option("--name", metavar="NAME", help="Its name.  [default: that of the diagram]")
@click.option(
    "--replicas",
    metavar="N",
    type=click.IntRange(min=1),
    help="Replicas of each fragment.  [default: 2, or 1 on one node]",
)
@click.option("--on", metavar="NODES", help="The nodes that may compute it, as in a,b.")
@click.option(
    "--place",
    "places",
    metavar="PART=NODES",
    multiple=True,
    help="The node of a source or a sink, or the nodes of a fragment; may be given several times.",
)
@click.option(
    "--max-delay", type=Duration(), help="The accepted delay X.  [default: that of the cluster]"
)
@NO_WAIT
@IDENTITY
@AS_JSON
def submit(
    diagram: Path,
    file: Path,
    name: str | None,
    replicas: int | None,
    on: str | None,
    places: tuple[str, ...],
    max_delay: float | None,
    no_wait: bool,
    identity: str | None,
    as_json: bool,
) -> None:
    """Let a diagram run on a cluster that runs already, beside what it runs.

    Fragments go to the nodes that run least, sources to the first of these, and sinks beside the
    first replica of what they write. Functions of yours travel with the diagram; relative paths
    begin at the diagram's directory, on each node. Its streams are read as NAME.STREAM.

    \b
    Examples:
      australis submit monitoring.yaml --to cluster.yaml
      australis submit monitoring.yaml --to cluster.yaml --on a,b --place site0=edge

    Exit codes: 0 it runs, 1 no node answers, 2 wrong input.
    """
    from australis.runtime.files import read_text
    from australis.runtime.load import load

    expect(diagram, FileKind.DIAGRAM)
    changes = changes_of(file, identity)
    began = time.monotonic()
    loaded = load(diagram)
    text = "" if diagram.suffix == ".py" else read_text(diagram)
    deployment = changes.submit(
        loaded,
        diagram.parent,
        text,
        name=name,
        replicas=replicas,
        on=tuple(filter(None, (on or "").split(","))),
        places=dict(map(_place, places)),
        max_delay_us=None if max_delay is None else round(max_delay * SECOND),
    )
    app = deployment.application
    decided_s = time.monotonic() - began
    if not as_json:
        click.echo(f"{decided_s:7.1f} s  {app} is checked and decided", err=True)
    if not no_wait:
        _until(lambda: changes.is_open(app), f"'{app}' has not been opened everywhere")
    said = {
        "application": app,
        "version": deployment.version,
        "fragments": {s.fragment: [m.node for m in s.members] for s in deployment.sets},
        "sources": dict(deployment.sources),
        "sinks": dict(deployment.sinks),
        "decided_s": round(decided_s, 3),
        "seconds": round(time.monotonic() - began, 3),
    }
    if as_json:
        click.echo(json.dumps(said))
        return
    runs = (f"{s.fragment} on {', '.join(m.node for m in s.members)}" for s in deployment.sets)
    seconds = time.monotonic() - began
    click.echo(f"{app} runs, {seconds:.1f} s after it was submitted: {'; '.join(runs)}")


def _place(text: str) -> tuple[str, tuple[str, ...]]:
    part, equals, nodes = text.partition("=")
    listed = tuple(node for node in nodes.split(",") if node)
    if not equals or not part or not listed:
        raise UserError(f"should be PART=NODE or PART=NODE,NODE, not {text!r}", name="--place")
    return part, listed


def _until(done: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + OPEN_TIMEOUT_S
    while not done():
        if time.monotonic() > deadline:
            raise Stopped(f"{otherwise} after {OPEN_TIMEOUT_S:.0f} s: see `australis apps`")
        time.sleep(LOOK_S)


@click.command()
@FILE
@IDENTITY
@AS_JSON
def apps(file: Path, identity: str | None, as_json: bool) -> None:
    """List the applications of a cluster: what runs where, and what is changing.

    The application of the cluster file stands first.

    \b
    Example:
      australis apps examples/cluster.yaml
    """
    expect(file, FileKind.CLUSTER)
    changes = changes_of(file, identity)
    listed = changes.listed()
    if as_json:
        click.echo(json.dumps(listed))
        return
    for name, one in listed.items():
        click.echo(f"{name}  version {one['version']}{_told(one)}")
        for fragment, members in one["fragments"].items():
            places = ", ".join(
                m["node"] + ("" if m["role"] == "full" else f" ({m['role']})") for m in members
            )
            click.echo(f"  {fragment}: {places}")
        for kind in ("sources", "sinks"):
            for part, node in one[kind].items():
                click.echo(f"  {kind.removesuffix('s')} {part}: {node}")
    if not listed:
        click.echo("nothing runs: `australis submit` lets a diagram run")


def _told(one: dict[str, Any]) -> str:
    change = one["change"]
    return "" if change is None else f", {change['fragment']} is {change['phase']}"


@click.command()
@FILE
@click.argument("application")
@NO_WAIT
@IDENTITY
@AS_JSON
def withdraw(
    file: Path, application: str, no_wait: bool, identity: str | None, as_json: bool
) -> None:
    """Stop an application for good, and remove its state from all nodes.

    \b
    Example:
      australis withdraw examples/cluster.yaml monitoring

    Exit codes: 0 done, 1 no node answers, 2 wrong input.
    """
    expect(file, FileKind.CLUSTER)
    changes: Changes = changes_of(file, identity)
    began = time.monotonic()
    version = changes.withdraw(application)
    if not no_wait:
        _until(lambda: changes.is_gone(application), f"'{application}' has not gone everywhere")
    seconds = round(time.monotonic() - began, 3)
    if as_json:
        said = {"application": application, "version": version, "seconds": seconds}
        click.echo(json.dumps(said))
    else:
        click.echo(f"{application} is withdrawn: gone from all nodes after {seconds:.1f} s")
