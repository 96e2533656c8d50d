"""`australis status`: how the nodes of a cluster are doing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from australis.cli.cluster import FILE, IDENTITY
from australis.cli.interrupts import terminated_like_interrupted
from australis.cli.kinds import FileKind, expect

EVERY_S = 1.0
WIDE = 140
"""The width of the table without a terminal."""
COLOURS = {
    "STABLE": "green",
    "UP_FAILURE": "yellow",
    "STABILIZATION": "cyan",
    "STARTING": "cyan",
    "CATCHING_UP": "cyan",
    "WAITING": "yellow",
}
HEADINGS = ("node", "up since", "runs", "state", "behind", "tentative", "reads from", "trouble")

Row = tuple[str | Text, ...]


@click.command()
@FILE
@click.option("--watch", is_flag=True, help="Show it anew every second, until Ctrl-C.")
@IDENTITY
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object, with --watch one a second."
)
def status(file: Path, watch: bool, identity: str | None, as_json: bool) -> None:
    """Show what runs where in a cluster, and how it is doing.

    A replica is STARTING, until it hears from its inputs and computes; CATCHING_UP with them;
    STABLE; WAITING for an input that gives nothing or lies behind, with its name under trouble;
    or its results are tentative (UP_FAILURE) or being corrected (STABILIZATION); or it has nothing
    to say, because no input is left (FAILURE).
    A source that is replayed is behind nothing. The exit code is 1 if some node does not answer.

    \b
    Examples:
      australis status examples/cluster.yaml
      australis status examples/cluster.yaml --watch
    """
    from australis.runtime.admin import AdminClient
    from australis.runtime.client import load_cluster
    from australis.runtime.overview import overview

    expect(file, FileKind.CLUSTER)
    cluster, diagram, base = load_cluster(file, needs_epoch=False)
    admin = AdminClient(cluster, base, identity)
    if watch:
        _watch(lambda: overview(admin, diagram, base / cluster.state), as_json)
        return
    found = overview(admin, diagram, base / cluster.state)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _console().print(whole(found))
    if not as_json and not any(node["answers"] for node in found["nodes"].values()):
        click.echo(f"australis: no node answers: `australis up {file}` starts them", err=True)
    if not all(node["answers"] for node in found["nodes"].values()):
        sys.exit(1)


def _watch(look: Callable[[], dict[str, Any]], as_json: bool) -> None:
    """Refresh the table until Ctrl-C."""
    with terminated_like_interrupted():
        try:
            if as_json:
                while True:
                    click.echo(json.dumps(look()))
                    time.sleep(EVERY_S)
            with Live(console=_console(), auto_refresh=False) as live:
                while True:
                    live.update(whole(look()), refresh=True)
                    time.sleep(EVERY_S)
        except KeyboardInterrupt:
            return


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)


def table(found: dict[str, Any]) -> Table:
    """The overview of a cluster as a table, with a line for each machine."""
    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in HEADINGS:
        shown.add_column(heading, justify="right" if heading == "behind" else "left")
    for name, node in found["nodes"].items():
        for row in _rows(name, node):
            shown.add_row(*row)
    return shown


def whole(found: dict[str, Any]) -> Group:
    """The table, and below it the choices in force and the clocks."""
    return Group(table(found), *(Text(line) for line in [*in_force(found), *clocks(found)]))


def clocks(found: dict[str, Any]) -> Iterator[str]:
    """How far the clocks of other nodes are ahead of each node's, one line a node."""
    for name, node in found["nodes"].items():
        seen = [
            f"{peer} {one['offset_s']:+.3f} s ± {one['error_s']:.3f} s"
            for peer, one in node.get("clocks", {}).items()
        ]
        if seen:
            yield f"clocks seen from {name}: {', '.join(seen)}"


def in_force(found: dict[str, Any]) -> list[str]:
    """The choices of the cluster file in force, one line where all nodes have the same."""
    nodes: dict[str, list[str]] = {}
    for name, node in found["nodes"].items():
        if node["answers"]:
            nodes.setdefault(_chosen(node["choices"]), []).append(name)
    alike = len(nodes) == 1
    return [said if alike else f"{', '.join(names)}: {said}" for said, names in nodes.items()]


def _chosen(choices: dict[str, Any]) -> str:
    """The choices in force at a node.

    >>> _chosen({"max_delay_s": 3, "results": {"bill": None}, "up_failure": "process",
    ...     "stabilization": "delay", "staggered": True, "hedged": False})
    'max_delay 3 s, bill never tentative; up_failure process, stabilization delay, staggered'
    """
    delays = [f"max_delay {choices['max_delay_s']:g} s"] + [
        f"{result} never tentative" if delay_s is None else f"{result} {delay_s:g} s"
        for result, delay_s in choices["results"].items()
    ]
    policies = [f"{policy} {choices[policy]}" for policy in ("up_failure", "stabilization")]
    policies += [flag for flag in ("staggered", "hedged") if choices[flag]]
    return f"{', '.join(delays)}; {', '.join(policies)}"


def _rows(name: str, node: dict[str, Any]) -> Iterator[Row]:
    from australis.runtime.overview import troubles

    if not node["answers"]:
        yield name, "", Text(f"does not answer at {node['address']}", style="red")
        if (why := _absent(node)) is not None:
            yield "", "", Text(why, style="red")
        return
    since = f"{datetime.fromisoformat(node['started_at']).astimezone():%Y-%m-%d %H:%M:%S}"
    trouble = Text("; ".join(troubles(node)), style="red")
    head: Row = (name, since)
    rows = [*_parts(node)]
    for application, part in node.get("applications", {}).items():
        rows += [(f"{application}.{row[0]}", *row[1:]) for row in _parts(part)]
    for row in rows or [("nothing", "", "", "", "")]:
        yield (*head, *row, trouble)
        head, trouble = ("", ""), Text()


def _parts(part: dict[str, Any]) -> Iterator[Row]:
    """The rows of one application on a node."""
    if part.get("failed"):
        yield "", Text(part["failed"], style="red"), "", "", ""
    if "outputs" in part:
        yield from _replicas(part)
        yield from _sources(part)
        yield from _sinks(part)


def _absent(node: dict[str, Any]) -> str | None:
    """What is known here of a node that does not answer."""
    from australis.runtime.overview import ended_in_words

    if node.get("process"):
        return str(node["process"])
    return f"it has ended {ended_in_words(node)}" if node.get("ended") else None


def _replicas(node: dict[str, Any]) -> Iterator[Row]:
    for stream, output in node["outputs"].items():
        fragment = output["replica"].partition("@")[0]
        tentative = output["tentative_upto"] is not None
        yield (
            stream if stream == fragment else f"{stream} (of {fragment})",
            Text(output["state"], style=COLOURS.get(output["state"], "red")),
            duration(output["behind_s"]),
            Text(_tentative(output), style="yellow") if tentative else "no",
            ", ".join(output["reads"].values()),
        )


def _tentative(output: dict[str, Any]) -> str:
    """How much of the inputs the last tentative bucket rests on."""
    share = output.get("share")
    return "yes" if share is None else f"yes, on {share:.0%}"


def _sources(node: dict[str, Any]) -> Iterator[Row]:
    for stream, source in node["sources"].items():
        state = f"{source['rows']:,} rows" + (", idle" if source.get("idle") else "")
        state += f", {role}" if (role := source.get("role")) else ""
        state += ", log full" if source.get("full") else ""
        yield f"source {stream}", state, duration(source["behind_s"]), "", ""


def _sinks(node: dict[str, Any]) -> Iterator[Row]:
    for machine, sink in node.get("sinks", {}).items():
        yield machine, f"{sink['rows']:,} rows", duration(sink["behind_s"]), "", sink["stream"]


def duration(seconds: float | None) -> str:
    """A duration in words.

    >>> duration(0.613), duration(45 * 86400), duration(None)
    ('0.6 s', '45 days', '')
    """
    if seconds is None:
        return ""
    return f"{seconds:,.1f} s" if abs(seconds) < 86400 else f"{seconds / 86400:,.0f} days"
