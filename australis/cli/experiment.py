"""`australis experiment`: the evaluations of the papers, run again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from australis.cli.research import missing_library_told, use_research
from australis.kernel.errors import UserError

if TYPE_CHECKING:
    from research.claims import Claim, Experiment, Result, Table


@click.group()
@click.pass_context
def experiment(context: click.Context) -> None:
    """Run the papers' experiments again, with a verdict on each of their claims.

    Begin with `australis experiment list`, then for example
    `australis experiment run dpc-single --quick`.
    """
    use_research("experiment")
    context.with_resource(missing_library_told("experiment"))


@experiment.command("list")
def list_all() -> None:
    """Say which experiments there are, what they reproduce, and how long they take.

    \b
    Example:
      australis experiment list
    """
    from research.registry import experiments

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("name", "reproduces", "what", "takes about"):
        grid.add_column(heading, no_wrap=heading == "name")
    for one in experiments():
        grid.add_row(one.name, one.reproduces, one.description, one.duration)
    _console().print(grid)


@experiment.command()
@click.argument("name")
@click.option("--quick", is_flag=True, help="A reduced run, in less than a minute.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also write NAME.json, NAME.md and the plots (SVG) into this directory.",
)
def run(name: str, quick: bool, as_json: bool, out: Path | None) -> None:
    """Run one experiment.

    Prints what was measured, the paper's values beside ours where its text has them,
    and whether each claim holds. Some claims are known not to hold, and say why. The exit code
    is 0 if all ends as expected, 1 if another claim fails or a known miss holds.

    \b
    Examples:
      australis experiment run dpc-single --quick
      australis experiment run dpc-single --out results
    """
    from research.registry import find
    from research.report import as_object

    chosen = find(name)
    say = _Progress()
    result = chosen.run(quick, say)
    say.end()
    if out is not None:
        _write(chosen, result, out)
    if as_json:
        click.echo(json.dumps(as_object(name, result)))
    else:
        _show(chosen, result)
    if not result.ok:
        sys.exit(1)


def _write(chosen: Experiment, result: Result, out: Path) -> None:
    from research.report import write

    try:
        written = write(chosen, result, out)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", name=str(out)) from None
    click.echo(f"wrote {', '.join(str(p) for p in written)}", err=True)


class _Progress:
    """One line on standard error, rewritten as work proceeds; silent without a terminal."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()

    def __call__(self, line: str) -> None:
        if self._on:
            click.echo(f"\r\033[K{line}", nl=False, err=True)

    def end(self) -> None:
        """Clear the line."""
        self("")


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else 140)


def _show(chosen: Experiment, result: Result) -> None:
    console = _console()
    console.print(Text(f"{chosen.name}: {chosen.reproduces}", style="bold"))
    for table in result.tables:
        console.print(_grid(table))
    for drawing in result.drawings:
        console.print(drawing, markup=False)
        console.print()
    console.print(_claims(result.claims))
    for claim in result.claims:
        if claim.known_miss is not None:
            console.print(Text(f"Known miss: {claim.text}: {claim.known_miss}.", style="yellow"))
    for deviation in result.deviations:
        console.print(Text(f"Deviation: {deviation}", style="dim"))
    console.print(Text(_summary(result), style="bold green" if result.ok else "bold red"))


def _summary(result: Result) -> str:
    good = sum(c.ok for c in result.claims)
    known = sum(not c.ok and c.known_miss is not None for c in result.claims)
    parts = [f"{good} of {len(result.claims)} claims hold."]
    if known:
        parts.append(f"{known} {'is a known miss' if known == 1 else 'are known misses'}.")
    if result.surprises:
        parts.append(f"Unexpected: {'; '.join(c.text for c in result.surprises)}.")
    return " ".join(parts)


def _grid(table: Table) -> Grid:
    from research.report import shown

    grid = Grid(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        grid.add_column(column, justify="right")
    for row in table.rows:
        grid.add_row(*(shown(v) for v in row))
    return grid


def _claims(claims: tuple[Claim, ...]) -> Grid:
    from research.claims import ClaimVerdict
    from research.report import shown

    styles = {ClaimVerdict.HOLDS: "green", ClaimVerdict.KNOWN_MISS: "yellow"}

    grid = Grid(
        title="Claims", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, expand=True
    )
    grid.add_column("")
    grid.add_column("claim", ratio=6)
    for heading, ratio in (("paper", 2), ("from", None), ("ours", 2), ("tolerance", 2)):
        grid.add_column(heading, ratio=ratio)
    for c in claims:
        verdict = Text(c.verdict.value, style=styles.get(c.verdict, "bold red"))
        known = shown(c.paper) if c.paper is not None else "-"
        grid.add_row(verdict, c.text, known, c.source.value, shown(c.ours), c.tolerance)
    return grid
