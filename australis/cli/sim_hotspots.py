"""`australis sim hotspots`: peers that relieve each other, with and without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from australis.cli.kinds import FileKind, expect
from australis.cli.options import Duration, former
from australis.kernel.errors import UserError
from australis.runtime.files import read_text

if TYPE_CHECKING:
    from australis.sim.hotspots.simulation import HotspotsOutcome


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--for", "seconds", type=Duration(), default="30 min", show_default=True,
    help="Simulated time after everything is composed.",
)  # fmt: skip
@former("--minutes", into="seconds", each_s=60.0, kind=click.IntRange(min=1))
@click.option(
    "--changes", type=click.FloatRange(min=0), default=10.0, show_default=True,
    help="The mean time between changes of rates and background load, in minutes; 0: never.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True,
    help="Another one: other rates, other work of others.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def hotspots(file: Path, seconds: float, changes: float, seed: int, as_json: bool) -> None:
    """Simulate the peers of FILE with load management and without.

    Applications are composed of what the peers offer, found through their ring; components move
    away from peers that have too much to do. Beside it, the same run in which nothing moves, and
    one in which a centre that knows everything moves them at once.

    \b
    Examples:
      australis sim hotspots examples/peers.yaml
      australis sim hotspots examples/peers.yaml --for '2 h' --changes 0
    """
    from australis.sim.hotspots.peers_file import load
    from australis.sim.hotspots.simulation import HotspotsSetting, HotspotsSimulation, Managed

    minutes = max(1, round(seconds / 60))
    expect(file, FileKind.PEERS)
    plan = load(read_text(file), str(file))
    if plan.utilisation >= 1:
        raise UserError(
            f"{file}: the applications need {plan.utilisation:.2f} times what all peers together can"
            " do: fewer or slower ones, please"
        )
    found: dict[str, HotspotsOutcome] = {}
    ways = list(Managed)
    shown = sys.stderr.isatty()
    for way in track(ways, "runs", disable=not shown, transient=True, console=Console(stderr=True)):
        setting = HotspotsSetting(seed=seed, managed=way, minutes=minutes, changes_min=changes)
        found[way.value] = HotspotsSimulation(setting, plan).run()
    summaries = {way: _summary(one) for way, one in found.items()}
    moves = found[Managed.PEERS.value].moves
    if as_json:
        listed = [dict(zip(("at_s", "component", "from", "to"), m, strict=True)) for m in moves]
        click.echo(json.dumps({"minutes": minutes, "managed_by": summaries, "moves": listed}))
        return
    _tell(summaries, moves)


def _summary(one: HotspotsOutcome) -> dict[str, Any]:
    loads = [load for _, load in one.loads]
    return {
        "delay_s": fmean(one.delays_s) if one.delays_s else None,
        "delivered": one.delivered,
        "load": fmean(loads),
        "spread": pstdev(loads),
        "moved": one.moved,
        "messages": one.migration_messages + one.updates,
    }


def _tell(summaries: dict[str, dict[str, Any]], moves: list[tuple[float, str, str, str]]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    for at_s, component, source, target in moves:
        console.print(f"{at_s / 60:6.1f} min  {component} moves from {source} to {target}")
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("balanced by", "delay", "delivered", "mean load", "spread", "moves"):
        grid.add_column(heading, justify="left" if heading == "balanced by" else "right")
    for way, one in summaries.items():
        delay = "-" if one["delay_s"] is None else f"{one['delay_s']:.2f} s"
        grid.add_row(
            way,
            delay,
            f"{one['delivered']:,}",
            f"{one['load']:.2f}",
            f"{one['spread']:.2f}",
            f"{one['moved']:,}",
        )
    console.print(grid)
