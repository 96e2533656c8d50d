"""`australis status`: how the nodes of a cluster are doing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from australis.cli.cluster import FILE, IDENTITY
from australis.cli.interrupts import terminated_like_interrupted

EVERY_S = 1.0
WIDE = 140
"""How wide the table is where nobody looks at it."""
COLOURS = {"STABLE": "green", "UP_FAILURE": "yellow", "STABILIZATION": "cyan"}
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

    A replica is STABLE, or its results are tentative (UP_FAILURE) or being corrected
    (STABILIZATION), or it has nothing to say: it catches up, or no input is left (FAILURE).
    A source that is replayed is behind nothing. The exit code is 1 if some node does not answer.

    \b
    Examples:
      australis status examples/cluster.yaml
      australis status examples/cluster.yaml --watch
    """
    from australis.live.client import load_cluster
    from australis.live.operate import Operator
    from australis.live.overview import overview

    cluster, diagram, base = load_cluster(file, needs_epoch=False)
    operator = Operator(cluster, base, identity)
    if watch:
        _watch(lambda: overview(operator, diagram), as_json)
        return
    found = overview(operator, diagram)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _console().print(table(found))
    if not all(node["answers"] for node in found["nodes"].values()):
        sys.exit(1)


def _watch(look: Callable[[], dict[str, Any]], as_json: bool) -> None:
    """Show it again and again; Ctrl-C is how this ends."""
    with terminated_like_interrupted():
        try:
            if as_json:
                while True:
                    click.echo(json.dumps(look()))
                    time.sleep(EVERY_S)
            with Live(console=_console(), auto_refresh=False) as live:
                while True:
                    live.update(table(look()), refresh=True)
                    time.sleep(EVERY_S)
        except KeyboardInterrupt:
            return


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)


def table(found: dict[str, Any]) -> Table:
    """The overview of a cluster as a table: a line for each thing that runs."""
    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in HEADINGS:
        shown.add_column(heading, justify="right" if heading == "behind" else "left")
    for name, node in found["nodes"].items():
        for row in _rows(name, node, found["at_us"]):
            shown.add_row(*row)
    return shown


def _rows(name: str, node: dict[str, Any], at_us: int) -> Iterator[Row]:
    from australis.live.overview import troubles

    if not node["answers"]:
        yield name, "", Text(f"does not answer at {node['address']}", style="red")
        return
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_us / 1e6 - node["up_s"]))
    trouble = Text("; ".join(troubles(node)), style="red")
    head: Row = (name, since)
    for row in [*_replicas(node), *_sources(node)] or [("nothing", "", "", "", "")]:
        yield (*head, *row, trouble)
        head, trouble = ("", ""), Text()


def _replicas(node: dict[str, Any]) -> Iterator[Row]:
    for stream, output in node["outputs"].items():
        fragment = output["replica"].partition("@")[0]
        tentative = output["tentative_upto"] is not None
        yield (
            stream if stream == fragment else f"{stream} (of {fragment})",
            Text(output["state"], style=COLOURS.get(output["state"], "red")),
            duration(output["behind_s"]),
            Text("yes", style="yellow") if tentative else "no",
            ", ".join(output["reads"].values()),
        )


def _sources(node: dict[str, Any]) -> Iterator[Row]:
    for stream, source in node["sources"].items():
        yield f"source {stream}", f"{source['rows']:,} rows", duration(source["behind_s"]), "", ""


def duration(seconds: float | None) -> str:
    """A duration as people say it.

    >>> duration(0.613), duration(45 * 86400), duration(None)
    ('0.6 s', '45 days', '')
    """
    if seconds is None:
        return ""
    return f"{seconds:,.1f} s" if abs(seconds) < 86400 else f"{seconds / 86400:,.0f} days"
