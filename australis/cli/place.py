"""`australis place`: where ants would place the queries of a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from australis.cli.files import write_text
from australis.cli.kinds import FileKind, expect
from australis.cli.options import Duration, former
from australis.cli.research import use_research
from australis.kernel.errors import UserError
from australis.runtime.files import read_text


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--svg", metavar="FILE",
    help="Draw it as SVG into this file; - is standard output, instead of the tables.",
)  # fmt: skip
@click.option(
    "--for", "seconds", type=Duration(), default="60 s", show_default=True,
    help="Simulated time in which ants look for something better.",
)  # fmt: skip
@former("--seconds", into="seconds", kind=click.FloatRange(min=0))
@click.option(
    "--beside", is_flag=True,
    help="Show the centralized optimum beside it, as far as a local search finds it; slow for many"
    " tasks, and needs a checkout.",
)  # fmt: skip
@click.option("--no-reuse", is_flag=True, help="Let every query do all of its own tasks.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Seed of all chance.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def place(
    file: Path,
    svg: str | None,
    seconds: float,
    beside: bool,
    no_reuse: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Place the queries of FILE on its servers, as a colony of ants would.

    The ants run in simulation, on the network the file describes: queries are placed one after the
    other, and moved while something better is found. Tasks that several queries have in common run
    once where that is better. What comes out is where each task runs, how long results take, and how
    much servers are used.

    \b
    Examples:
      australis place examples/placement.yaml
      australis place examples/placement.yaml --svg placement.svg --beside

    Exit codes: 0 all queries are placed, 1 some are not, 2 wrong input.
    """
    from australis.protocols.ants.events import AntOptions
    from australis.sim.ants.draw import svg as drawn
    from australis.sim.ants.placement_file import load
    from australis.sim.ants.simulation import AntsSimulation

    if svg == "-" and as_json:
        raise UserError("goes with --svg FILE: both cannot be on standard output", name="--json")
    if beside:
        use_research("place --beside")
    expect(file, FileKind.PLACEMENT)
    plan = load(read_text(file), str(file))
    colony = AntsSimulation(plan.network, seed, AntOptions(reuse=not no_reuse))
    colony.settle()
    for query in plan.queries:
        colony.submit(query)
        colony.run(1)
    colony.run_until_placed()
    colony.run(seconds)
    found = _summary(colony, _best(colony, seed) if beside else {})
    if svg is not None:
        queries = {name: colony.left(name) for name in colony.placements}
        write_text(drawn(plan.network, queries, colony.placements), svg)
    if as_json:
        click.echo(json.dumps(found))
    elif svg != "-":
        _tell(found)
    sys.exit(1 if found["unplaced"] else 0)


def _best(colony: Any, seed: int) -> dict[str, float]:
    """The latency of each query if a centralized local search placed it anew."""
    from australis.placement.model import Placement
    from research.ants.search import local_search

    books = colony.books()
    found = {}
    for name, placement in colony.placements.items():
        query = colony.left(name)
        books.remove(name)
        hosts, _ = local_search(query, books, Random(seed), [dict(placement.hosts)], kicks=5)
        books.add(query, Placement(hosts))
        found[name] = books.latency_s(name)
        books.remove(name)
        books.add(query, placement)
    return found


def _summary(colony: Any, best: dict[str, float]) -> dict[str, Any]:
    books = colony.books()
    queries = {}
    for name, placement in colony.placements.items():
        queries[name] = {
            "hosts": dict(placement.hosts),
            "takes": {
                task: {"task": tap.of, "query": tap.query, "at": tap.at}
                for task, tap in colony.taps[name].items()
            },
            "latency_ms": books.latency_s(name) * 1e3,
            "placed_after_s": (colony.placed_us[name] - colony.submitted_us[name]) / 1e6,
        }
        if name in best:
            queries[name]["best_latency_ms"] = best[name] * 1e3
    servers = {
        name: {"load": books.use(name).load, "speed": server.speed, "bound": server.bound}
        for name, server in colony.ground.servers.items()
    }
    unplaced = {
        name: colony.refusals.get(name, "no scout has come back")
        for name in colony.queries
        if name not in colony.placements
    }
    return {"queries": queries, "servers": servers, "unplaced": unplaced, "moves": colony.moves}


def _tell(found: dict[str, Any]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    queries = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    beside = any("best_latency_ms" in one for one in found["queries"].values())
    for heading in ("query", "tasks", "latency", *(["best known"] if beside else [])):
        queries.add_column(heading, justify="left" if heading in ("query", "tasks") else "right")
    for name, one in found["queries"].items():
        by_host: dict[str, list[str]] = {}
        for task, host in one["hosts"].items():
            by_host.setdefault(host, []).append(task)
        where = "; ".join(f"{', '.join(tasks)} at {host}" for host, tasks in by_host.items())
        for task, taken in one["takes"].items():
            same = taken["task"] if taken["task"] != task else "it"
            where = f"{task}: takes {same} of {taken['query']} at {taken['at']}" + (
                f"; {where}" if where else ""
            )
        row = [name, where, f"{one['latency_ms']:.2f} ms"]
        queries.add_row(*row, *([f"{one['best_latency_ms']:.2f} ms"] if beside else []))
    console.print(queries)
    servers = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("server", "speed", "used", "at most"):
        servers.add_column(heading, justify="left" if heading == "server" else "right")
    for name, one in found["servers"].items():
        if one["load"] > 0:
            servers.add_row(name, f"{one['speed']:g}", f"{one['load']:.0%}", f"{one['bound']:.0%}")
    console.print(servers)
    for name, why in found["unplaced"].items():
        console.print(f"{name} is not placed: {why}")
