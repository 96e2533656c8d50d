"""`australis contracts`: plan contracts, check them, and see where load would go."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from australis.cli.kinds import FileKind, expect
from australis.cli.options import Duration, former
from australis.kernel.durations import SECOND
from australis.kernel.errors import Place, UserError
from australis.runtime.files import read_text

if TYPE_CHECKING:
    from australis.protocols.contracts.planning import Advice

FILE = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def contracts() -> None:
    """Share load with others under contracts: plan, check, try.

    Begin with `australis contracts advise` and a record of your load, then write a federation
    file such as examples/federation.yaml and look where load would go with
    `australis contracts run`.
    """


@contracts.command()
@FILE
def check(file: Path) -> None:
    """Check a federation file.

    \b
    Example:
      australis contracts check examples/federation.yaml
    """
    members = _load(file)
    click.echo(
        f"{file}: ok, {len(members.participants)} participants with {len(members.contracts)}"
        f" contracts and {sum(len(m.tasks) for m in members.participants.values()):,} tasks"
    )


@contracts.command()
@FILE
@click.option(
    "--for", "seconds", type=Duration(), default="10 min", show_default=True,
    help="Simulated time at most; it ends earlier when nothing moves any more.",
)  # fmt: skip
@former("--seconds", into="seconds", kind=click.FloatRange(min=1))
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Who wakes up when."
)
@click.option(
    "--loss", type=click.FloatRange(0, 0.9), default=0.0, show_default=True,
    help="The part of the messages that get lost.",
)  # fmt: skip
@JSON
def run(file: Path, seconds: float, seed: int, loss: float, as_json: bool) -> None:
    """Simulate the participants of a federation file until movements stop.

    Where the tasks are in the end, what each participant saves, and who owes whom.

    \b
    Example:
      australis contracts run examples/federation.yaml --for '5 min' --loss 0.1
    """
    from australis.sim.contracts.trial import simulate_members

    found = simulate_members(_load(file), int(seconds * SECOND), seed, loss)
    if as_json:
        click.echo(json.dumps(found))
        return
    console = _console()
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("participant", "tasks before", "after", "cost before", "after", "earned"):
        grid.add_column(heading, justify="left" if heading == "participant" else "right")
    for name, one in found["participants"].items():
        grid.add_row(
            name,
            f"{one['tasks_before']:,}",
            f"{one['tasks']:,}",
            f"{one['cost_before']:,.1f}",
            f"{one['cost']:,.1f}",
            f"{one['earned_per_s']:+,.1f}/s",
        )
    console.print(grid)
    for one in found["owed"]:
        console.print(f"{one['debtor']} owes {one['creditor']} {one['amount']:,.0f}")
    console.print(
        f"{found['movements']:,} movements of {found['tasks_moved']:,} tasks with"
        f" {found['messages']:,} messages, the last after {found['last_s']:.1f} s; the whole costs"
        f" {found['cost']:,.1f} instead of {found['cost_before']:,.1f}"
    )
    if not found["stopped"]:
        console.print(f"movements had not stopped after {seconds:g} s: see --for")


@contracts.command()
@click.argument("record", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--capacity", type=click.FloatRange(min=1), required=True, help="Tasks you can do.")
@click.option(
    "--queue", is_flag=True,
    help="Costs are those of a queue (tuples in flight); without it a price is a load level.",
)  # fmt: skip
@click.option(
    "--each-costs", type=click.FloatRange(min=0), default=0.1, show_default=True,
    help="What keeping up one contract costs, in tasks of overload avoided.",
)  # fmt: skip
@click.option(
    "--diameter", type=click.IntRange(min=1), default=5, show_default=True,
    help="Contracts between the two participants that are furthest from each other.",
)  # fmt: skip
@JSON
def advise(
    record: Path, capacity: float, queue: bool, each_costs: float, diameter: int, as_json: bool
) -> None:
    """Say how many contracts to sign and at what price, from a record of past load.

    RECORD has one number of tasks a line, measured at regular times. Partners are taken to be
    loaded as you are.

    \b
    Example:
      australis contracts advise load.txt --capacity 100
    """
    import numpy as np

    from australis.protocols.contracts.costs import Costs, InFlight, Levels, Load
    from australis.protocols.contracts.planning import advise as find

    # The queue's curve ends a tenth above capacity, since it must be finite at capacity.
    curve: Any = InFlight(capacity * 1.1) if queue else Levels()
    costs, task = Costs(cpu=curve), Load(cpu=1.0)
    rng = np.random.default_rng(1)
    numbers = np.array(_numbers(record))
    advice = find(numbers, capacity, costs, task, diameter, each_costs, rng)
    if as_json:
        click.echo(json.dumps(_as_object(advice)))
    else:
        _tell(advice)


def _numbers(path: Path) -> list[float]:
    found = []
    for line, text in enumerate(read_text(path).splitlines(), 1):
        if not text.strip():
            continue
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            sentence = f"is no load: {text.strip()[:40]!r}"
            raise UserError(sentence, name="record", place=Place(str(path), line))
        found.append(number)
    if not found:
        raise UserError("is empty", name="record", place=Place(str(path)))
    return found


def _as_object(advice: Advice) -> dict[str, Any]:
    return {
        "samples": advice.samples,
        "median": advice.median,
        "above_capacity": advice.spikes,
        "largest": advice.largest,
        "contracts": advice.contracts,
        "price": advice.price,
        "range": list(advice.range),
        "benefits": [
            {"contracts": b.contracts, "overloaded": b.overloaded, "excess": b.excess, "saved": b.saved}
            for b in advice.benefits
        ],
    }  # fmt: skip


def _tell(advice: Advice) -> None:
    console = _console()
    console.print(
        f"{advice.samples:,} loads: {advice.median:g} tasks in the middle, {advice.largest:g} at most,"
        f" above capacity {advice.spikes:.1%} of the time"
    )
    if not advice.spikes:
        console.print("You were never overloaded: no contract to buy is worth anything to you.")
        return
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("contracts", "still overloaded in a spike", "by tasks, on average", "saves"):
        grid.add_column(heading, justify="right")
    for one in advice.benefits[: advice.contracts + 4]:
        grid.add_row(
            f"{one.contracts}", f"{one.overloaded:.1%}", f"{one.excess:,.2f}", f"{one.saved:,.3f}"
        )
    console.print(grid)
    low, high = advice.range
    console.print(
        f"Sign {advice.contracts} contracts as a buyer, at a price of {advice.price:,.4g} a task, or"
        f" between {low:,.4g} and {high:,.4g} so that load can cross the whole network."
    )


def _load(file: Path) -> Any:
    from australis.protocols.contracts.federation_file import load

    expect(file, FileKind.FEDERATION)
    return load(read_text(file), str(file))


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)
