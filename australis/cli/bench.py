"""`australis bench`: measure Australis beside what people run today."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

COUNT = click.IntRange(min=1)


@click.group()
def bench() -> None:
    """Measure, side by side, as ratios in one run."""


@bench.command()
@click.option(
    "--rows", type=COUNT, default=4_000_000, show_default=True, help="Rows of the throughput part."
)
@click.option(
    "--rounds", type=COUNT, default=5, show_default=True, help="Rounds of each side, alternating."
)
@click.option(
    "--seconds", type=COUNT, default=45, show_default=True, help="Length of the delay part."
)
@click.option("--scratch", type=click.Path(path_type=Path), help="Directory for data and state.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def engine(rows: int, rounds: int, seconds: int, scratch: Path | None, as_json: bool) -> None:
    """The engine against bare Structured Streaming.

    Windowed count and approximate distinct per source: throughput over stored
    rows, delay at 3,000 tuples/s, and peak memory.
    """
    from australis.bench.engine import measure, table

    result = measure(rows, rounds, seconds, scratch, say=lambda line: click.echo(line, err=True))
    click.echo(json.dumps(result) if as_json else table(result))
    if not all(target["ok"] for target in result["targets"]):
        sys.exit(1)


@bench.command()
@click.option(
    "--nodes", type=click.IntRange(min=2), default=1_000, show_default=True, help="Nodes."
)
@click.option(
    "--messages",
    type=COUNT,
    default=400_000,
    show_default=True,
    help="Messages of each round, about.",
)
@click.option(
    "--rounds", type=COUNT, default=7, show_default=True, help="Rounds of each side, alternating."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def kernel(nodes: int, messages: int, rounds: int, as_json: bool) -> None:
    """The simulator against simpy.

    Nodes in pairs send each other messages over links with latency and jitter:
    messages delivered per second of CPU time.
    """
    from australis.bench.kernel import measure, table

    result = measure(nodes, messages, rounds, say=lambda line: click.echo(line, err=True))
    click.echo(json.dumps(result) if as_json else table(result))
    if not all(target["ok"] for target in result["targets"]):
        sys.exit(1)
