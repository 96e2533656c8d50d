"""`australis tail`: the tuples of a stream as they come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from australis.cli.cluster import FILE, IDENTITY
from australis.cli.interrupts import terminated_like_interrupted
from australis.cli.kinds import FileKind, expect

if TYPE_CHECKING:
    from australis.runtime.client import Change
    from australis.streams.buckets import Buckets

COLOURS = {"INSERTION": "green", "TENTATIVE": "yellow", "UNDO": "magenta", "REC_DONE": "cyan"}
MEANINGS = {
    "UNDO": "all tentative tuples after {_stime} are taken back",
    "REC_DONE": "what was tentative has been corrected",
    "SKIPPED": "what came up to {_stime} is no longer kept",
}

Line = dict[str, Any]


@click.command()
@FILE
@click.argument("stream")
@click.option("--rows", type=click.IntRange(min=1), help="Stop after this number of tuples.")
@click.option("--stable", is_flag=True, help="Only stable tuples, which are never taken back.")
@click.option("--oldest", is_flag=True, help="Begin with the oldest tuples that are kept.")
@IDENTITY
@click.option("--json", "as_json", is_flag=True, help="Print each tuple as a JSON object.")
def tail(
    file: Path,
    stream: str,
    rows: int | None,
    stable: bool,
    oldest: bool,
    identity: str | None,
    as_json: bool,
) -> None:
    """Print the tuples of a stream as they come, with their types.

    INSERTION is stable. TENTATIVE may change: an UNDO takes it back, stable tuples
    follow in its place, and REC_DONE says that all are there. At the end of a tentative
    tuple stand the sources that are missing in it, and what part of all is there. Any stream that is logged
    can be read, a source too; no log is kept for this reader.

    \b
    Examples:
      australis tail examples/cluster.yaml suspects
      australis tail examples/cluster.yaml site0 --rows 10 --json
    """
    from australis.runtime.client import OLDEST, connect

    expect(file, FileKind.CLUSTER)
    with terminated_like_interrupted(), connect(file, identity=identity) as cluster:
        try:
            changes = cluster.subscribe(stream, guest=True, after=OLDEST if oldest else None)
            _print(_lines(changes, cluster.diagram.buckets, stable), rows, as_json)
        except KeyboardInterrupt:
            return


def _print(lines: Iterator[Line], rows: int | None, as_json: bool) -> None:
    left = rows
    for line in lines:
        click.echo(json.dumps(line) if as_json else _said(line))
        if left is not None and line["_type"] in ("INSERTION", "TENTATIVE"):
            left -= 1
            if not left:
                return


def _lines(changes: Iterable[Change], buckets: Buckets, stable: bool) -> Iterator[Line]:
    """Every tuple and every message between tuples, without those before the first."""
    from australis.runtime.client import ChangeKind

    begun = False
    for change in changes:
        if stable and change.kind not in (ChangeKind.INSERTION, ChangeKind.SKIPPED):
            continue
        if change.kind in (ChangeKind.INSERTION, ChangeKind.TENTATIVE):
            yield from _tuples(change)
        elif begun:
            yield _between(change, buckets)
        begun = True


def _tuples(change: Change) -> Iterator[Line]:
    from australis.runtime.client import ChangeKind
    from australis.runtime.json_values import json_objects

    about: Line = {}
    if change.kind is ChangeKind.TENTATIVE:
        about = {"_missing": list(change.missing), "_share": round(change.share, 4)}
    if change.batch is not None:
        for row in json_objects(change.batch, ("_id", "_stime")):
            yield {"_type": change.kind.value} | row | about


def _between(change: Change, buckets: Buckets) -> Line:
    from australis.runtime.client import ChangeKind
    from australis.runtime.json_values import iso_time

    if change.kind is ChangeKind.REC_DONE:
        return {"_type": change.kind.value}
    return {"_type": change.kind.value, "_stime": iso_time(buckets.end(change.bucket))}


def _said(line: Line) -> str:
    kind = line["_type"]
    if kind in MEANINGS:
        text = MEANINGS[kind].format_map(line)
    else:
        values = " ".join(f"{k}={v}" for k, v in line.items() if not k.startswith("_"))
        text = f"{line['_stime']}  {values}"
        if line.get("_missing"):
            text += f"  (without {', '.join(line['_missing'])}: {line['_share']:.0%} is there)"
    return click.style(f"{kind:<9}", fg=COLOURS.get(kind)) + f"  {text}"
