"""`australis move` and `replicas`: change what runs where, while it runs."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from australis.cli.cluster import FILE, IDENTITY
from australis.cli.kinds import FileKind, expect

if TYPE_CHECKING:
    from australis.runtime.changes import Changes

LOOK_S = 0.2
STUCK_S = 90.0
"""The time without a move after which it is said what stays."""
FRAGMENT = click.argument("fragment")
NO_WAIT = click.option("--no-wait", is_flag=True, help="Only begin it; the cluster goes on alone.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def changes_of(file: Path, identity: str | None) -> Changes:
    """The changes of the cluster of a file."""
    from australis.runtime.admin import AdminClient
    from australis.runtime.changes import Changes
    from australis.runtime.client import load_nodes

    expect(file, FileKind.CLUSTER)
    cluster, base = load_nodes(file)
    return Changes(AdminClient(cluster, base, identity), base)


def _carry_out(
    changes: Changes,
    name: str,
    add: tuple[str, ...],
    drop: tuple[str, ...],
    *,
    no_wait: bool,
    as_json: bool,
) -> None:
    from australis.runtime.changes import places

    steps = []
    application, fragment = changes.part(name)
    try:
        for step in changes.carry_out(fragment, add, drop, application):
            steps.append(step)
            change = step.deployment.change
            if not as_json and step.phase not in ("done", "cancelled"):
                number = f"change {change.number}: " if change is not None else ""
                click.echo(f"{step.at_s:7.1f} s  {number}{step.phase}", err=True)
            if no_wait:
                break
    except KeyboardInterrupt:
        click.echo("australis: the cluster goes on with the change by itself", err=True)
        raise
    last = steps[-1]
    members = last.deployment.set_of(fragment).members
    if as_json:
        phases = [{"phase": one.phase, "at_s": round(one.at_s, 3)} for one in steps]
        said = {
            "fragment": name,
            "outcome": last.phase,
            "version": last.deployment.version,
            "nodes": [m.node for m in members],
            "phases": phases,
        }
        click.echo(json.dumps(said))
    elif last.phase in ("done", "cancelled"):
        click.echo(f"{last.phase} in {last.at_s:.1f} s: {name} runs on {places(members)}")
    else:
        click.echo(f"begun: {name} is {last.phase}")
    if last.phase == "cancelled":
        sys.exit(1)


@click.command()
@FILE
@FRAGMENT
@click.option("--from", "source", metavar="NODE", required=True, help="The node that it leaves.")
@click.option("--to", "target", metavar="NODE", required=True, help="The node that it goes to.")
@NO_WAIT
@IDENTITY
@AS_JSON
def move(
    file: Path,
    fragment: str,
    source: str,
    target: str,
    no_wait: bool,
    identity: str | None,
    as_json: bool,
) -> None:
    """Move a replica of a fragment to another node, while clients read.

    The new replica copies the state and catches up, then everybody reads it, then the old one goes.
    Nothing is lost or repeated, and nothing becomes tentative. Ctrl-C leaves the move to the
    cluster. A fragment of a submitted application is called APPLICATION.FRAGMENT.

    \b
    Example:
      australis move examples/cluster.yaml suspects --from a --to c

    Exit codes: 0 done, 1 cancelled by the cluster, 2 wrong input.
    """
    changes = changes_of(file, identity)
    _carry_out(changes, fragment, (target,), (source,), no_wait=no_wait, as_json=as_json)


@click.command()
@FILE
@FRAGMENT
@click.argument("number", type=click.IntRange(min=1))
@NO_WAIT
@IDENTITY
@AS_JSON
def replicas(
    file: Path, fragment: str, number: int, no_wait: bool, identity: str | None, as_json: bool
) -> None:
    """Let a fragment have NUMBER replicas, while clients read.

    New ones go to the nodes that run least.

    \b
    Example:
      australis replicas examples/cluster.yaml suspects 3

    Exit codes: 0 done, 1 cancelled by the cluster, 2 wrong input.
    """
    from australis.runtime.changes import places, to_have

    changes = changes_of(file, identity)
    application, part = changes.part(fragment)
    deployment = changes.newest(application)
    add, drop = to_have(deployment, part, number, changes.nodes)
    if add or drop:
        _carry_out(changes, fragment, add, drop, no_wait=no_wait, as_json=as_json)
        return
    members = deployment.set_of(part).members
    if as_json:
        said = {"fragment": fragment, "outcome": "done", "version": deployment.version}
        click.echo(json.dumps(said | {"nodes": [m.node for m in members], "phases": []}))
    else:
        click.echo(f"nothing to do: {fragment} runs on {places(members)}")


@click.command()
@FILE
@click.argument("node")
@NO_WAIT
@IDENTITY
@AS_JSON
def drain(file: Path, node: str, no_wait: bool, identity: str | None, as_json: bool) -> None:
    """Move all replicas away from NODE, one after the other, while clients read.

    Nothing new goes there until `australis undrain`. Sources and sinks stay where they are; they are
    named in the end. Ctrl-C leaves the moves to the cluster.

    \b
    Example:
      australis drain examples/cluster.yaml b

    Exit codes: 0 no replica is left, 1 some have nowhere to go, 2 wrong input.
    """
    changes = changes_of(file, identity)
    began, said = time.monotonic(), -1
    changes.drain(node)
    left = changes.left_on(node)
    moved_at = began
    while left.replicas and not no_wait and time.monotonic() - moved_at < STUCK_S:
        if len(left.replicas) != said:
            said, moved_at = len(left.replicas), time.monotonic()
            if not as_json:
                told = ", ".join(left.replicas)
                click.echo(f"{moved_at - began:7.1f} s  left on {node}: {told}", err=True)
        time.sleep(LOOK_S)
        left = changes.left_on(node)
    seconds = round(time.monotonic() - began, 3)
    if as_json:
        about = {"node": node, "replicas": left.replicas, "others": left.others}
        click.echo(json.dumps(about | {"seconds": seconds}))
    elif left.replicas:
        stay = ", ".join(left.replicas)
        click.echo(f"{node} is being drained: {stay} still there after {seconds:.1f} s")
    else:
        rest = f"; {', '.join(left.others)} stay there" if left.others else ""
        click.echo(f"no replica is left on {node} after {seconds:.1f} s{rest}")
    if left.replicas and not no_wait:
        sys.exit(1)


@click.command()
@FILE
@click.argument("node")
@IDENTITY
@AS_JSON
def undrain(file: Path, node: str, identity: str | None, as_json: bool) -> None:
    """Let applications use NODE again; nothing moves back by itself.

    \b
    Example:
      australis undrain examples/cluster.yaml b
    """
    changed = changes_of(file, identity).drain(node, drained=False)
    if as_json:
        click.echo(json.dumps({"node": node, "applications": changed}))
    else:
        click.echo(f"{node} may be used again")
