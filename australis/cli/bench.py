"""`australis bench`: measure Australis beside what people run today."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from australis.cli.interrupts import terminated_like_interrupted
from australis.cli.options import Duration, former
from australis.cli.research import missing_library_told, use_research
from australis.deployment.cluster import Engine

COUNT = click.IntRange(min=1)


ALONE = click.option("--alone", is_flag=True, help="Without bare Structured Streaming beside it.")
ENGINE = click.option(
    "--engine",
    type=click.Choice(["spark", "reference"]),
    default="spark",
    show_default=True,
    help="The engine of the replicas.",
)
PEERS = click.option("--peers", is_flag=True, help="With Flink too; `make peers` installs it.")


@click.group()
@click.pass_context
def bench(context: click.Context) -> None:
    """Measure, side by side, as ratios in one run."""
    use_research("bench")
    context.with_resource(missing_library_told("bench"))
    context.with_resource(terminated_like_interrupted())


@bench.command()
@click.option(
    "--rows", type=COUNT, default=4_000_000, show_default=True, help="Rows of the throughput part."
)
@click.option(
    "--rounds", type=COUNT, default=5, show_default=True, help="Rounds of each side, alternating."
)
@click.option(
    "--for", "seconds", type=Duration(least_s=1), default="45 s", show_default=True,
    help="Length of the delay part.",
)  # fmt: skip
@former("--seconds", into="seconds", kind=COUNT)
@click.option("--scratch", type=click.Path(path_type=Path), help="Directory for data and state.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def engine(rows: int, rounds: int, seconds: float, scratch: Path | None, as_json: bool) -> None:
    """The engine against bare Structured Streaming.

    Windowed count and approximate distinct per source: throughput over stored
    rows, delay at 3,000 tuples/s, and peak memory.
    """
    from research.bench.engine import measure, table

    result = measure(rows, rounds, round(seconds), scratch, say=_to_stderr)
    _tell(result, table(result), as_json)


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
    from research.bench.kernel import measure, table

    result = measure(nodes, messages, rounds, say=_to_stderr)
    _tell(result, table(result), as_json)


@bench.command()
@click.option(
    "--rounds", type=COUNT, default=5, show_default=True, help="Failures of each kind and side."
)
@ENGINE
@ALONE
@PEERS
@click.option("--scratch", type=click.Path(path_type=Path), help="Directory for data and state.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def failover(
    rounds: int, engine: Engine, alone: bool, peers: bool, scratch: Path | None, as_json: bool
) -> None:
    """Two replicas against bare Structured Streaming that is restarted.

    How long a client hears nothing after kill -9 and after SIGSTOP of the replica it
    reads from, and when it follows both replicas at once. About a quarter of an hour.
    """
    from research.bench.failover import measure, table

    result = measure(rounds, scratch, _to_stderr, engine=engine, baseline=not alone, peers=peers)
    _tell(result, table(result), as_json)


@bench.command()
@click.option(
    "--failure", "failures", type=click.FloatRange(min=1), multiple=True,
    default=(2, 5, 15, 30, 60), show_default=True, help="Seconds; may be given several times.",
)  # fmt: skip
@ENGINE
@ALONE
@PEERS
@click.option("--scratch", type=click.Path(path_type=Path), help="Directory for data and state.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def partition(
    failures: tuple[float, ...],
    engine: Engine,
    alone: bool,
    peers: bool,
    scratch: Path | None,
    as_json: bool,
) -> None:
    """One of two inputs of a chain is disconnected for a while.

    When the first tentative result comes, how late new results are, and how long it
    takes until all is corrected; and what others make of it. About four minutes for each.
    """
    from research.bench.partition import measure, table

    result = measure(failures, scratch, _to_stderr, engine=engine, baseline=not alone, peers=peers)
    _tell(result, table(result), as_json)


@bench.command()
@click.option("--rows", type=COUNT, default=8_000_000, show_default=True, help="Rows of a round.")
@click.option(
    "--rounds", type=COUNT, default=3, show_default=True, help="Rounds of each side, alternating."
)
@click.option("--scratch", type=click.Path(path_type=Path), help="Directory for data and state.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def replicated(rows: int, rounds: int, scratch: Path | None, as_json: bool) -> None:
    """Two replicas against one unreplicated engine, a core for each.

    How many rows per second each replica works off, as a ratio. Needs two cores.
    """
    from research.bench.replicated import measure, table

    result = measure(rows, rounds, scratch, _to_stderr)
    _tell(result, table(result), as_json)


@bench.command()
@click.option(
    "--for", "seconds", type=Duration(least_s=60), default="20 min", show_default=True,
    help="How long.",
)  # fmt: skip
@former("--minutes", into="seconds", each_s=60.0, kind=click.FloatRange(min=1))
@click.option(
    "--warm-up", type=Duration(), default="10 min", show_default=True,
    help="The time before that, in which a JVM still compiles.",
)  # fmt: skip
@click.option("--scratch", type=click.Path(path_type=Path), help="Directory for data and state.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def steady(seconds: float, warm_up: float, scratch: Path | None, as_json: bool) -> None:
    """Two replicas for a long time: do memory and disk stay as they are?

    3,000 tuples/s; the memory of each node's processes and the size of its files, and
    how they grow in a minute once everything is warm.
    """
    from research.bench.steady import measure, table

    result = measure(seconds / 60, warm_up / 60, scratch, _to_stderr)
    _tell(result, table(result), as_json)


@bench.command()
@click.option(
    "--rounds", type=COUNT, default=3, show_default=True, help="Rounds of each side, alternating."
)
@click.option("--small", is_flag=True, help="Without the run of a million participants.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def contracts(rounds: int, small: bool, as_json: bool) -> None:
    """Contracts in simulation: how fast, how many, and beside simpy.

    All runs of the thesis' figure 7-1, one run of a million participants with ten contracts
    each, and 995 participants beside a model with a simpy process for each. Two minutes.
    """
    from research.bench.contracts import measure, table

    with _bar("figure 7-1") as done:
        result = measure(rounds, not small, _to_stderr, done)
    _tell(result, table(result), as_json)


@bench.command()
@click.option("--peers", type=COUNT, default=10_000, show_default=True, help="Peers of the ring.")
@click.option("--lookups", type=COUNT, default=100_000, show_default=True, help="Lookups.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def ring(peers: int, lookups: int, as_json: bool) -> None:
    """Lookups in a large ring of simulated peers: hops, and how long it takes."""
    from research.bench.ring import measure, table

    with _bar("lookups") as done:
        result = measure(peers, lookups, done)
    _tell(result, table(result), as_json)


@bench.command()
@click.option(
    "--instances",
    type=COUNT,
    default=100,
    show_default=True,
    help="Random queries beside the optimum.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def placement(instances: int, as_json: bool) -> None:
    """Placements by ants beside the optimum, steepest descent and a solver.

    How near to the optimum, and how long and how many evaluations of the queueing model it takes, from
    10 to 150 tasks. Some minutes.
    """
    from research.bench.placement import measure, table

    with _bar("queries") as done:
        result = measure(instances, _to_stderr, done)
    _tell(result, table(result), as_json)


@bench.command()
@click.option("--repetitions", type=COUNT, default=100, show_default=True, help="By the model.")
@click.option("--queued", type=COUNT, default=10, show_default=True, help="Task by task.")
@click.option(
    "--compared", type=COUNT, default=5, show_default=True, help="Repetitions beside rivals."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def elasticity(repetitions: int, queued: int, compared: int, as_json: bool) -> None:
    """Cores that modules decide on themselves, beside rivals and the optimum.

    How long a control step takes with 5, 50 and 1,000 modules, how long 600 of them with both
    strategies and three loads, and what all that costs. Some minutes.
    """
    from research.bench.elasticity import measure, table

    with _bar("repetitions") as done:
        result = measure(repetitions, queued, compared, _to_stderr, done)
    _tell(result, table(result), as_json)


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error, called with the number done and the total."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _to_stderr(line: str) -> None:
    click.echo(line, err=True)


def _tell(result: dict[str, Any], text: str, as_json: bool) -> None:
    """Print a result; exit with code 1 if a target was missed."""
    click.echo(json.dumps(result) if as_json else text)
    if not all(target["ok"] for target in result["targets"]):
        sys.exit(1)
