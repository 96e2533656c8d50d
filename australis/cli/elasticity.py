"""`australis elasticity`: how many cores the modules of a graph get, and what they cost."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from australis.cli.kinds import FileKind, expect
from australis.elasticity.cost import Module
from australis.elasticity.equilibrium import Stability, integer_optimum, social_optimum
from australis.elasticity.game import Degrees, Game
from australis.elasticity.incentives import IncentiveOutcome, cooperate
from australis.elasticity.performance import TIED, Performance
from australis.elasticity.rounding import Rounding, whole_cores
from australis.elasticity.service import Feed, Paced
from australis.elasticity.shared import Node
from australis.kernel.errors import UserError, unknown_name
from australis.runtime.files import read_text

if TYPE_CHECKING:
    from australis.sim.elasticity.elasticity_file import ElasticityFile

REASONS = {
    "limit": "it may have no more",
    "fastest": "more would not make it faster",
    "node": "its node has too few",
    "asked": "these were asked about",
    "rounding": "they were rounded down",
    "price": "it takes no more at their price",
}
MAX_DIGITS = 9
"""The largest number of digits in a number of cores."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--cores", "asked", multiple=True, metavar="MODULE=N",
    help="The number of cores of a module; may be repeated. The others have as many as with"
    " incentives.",
)  # fmt: skip
@click.option(
    "--rounding", type=click.Choice([one.value for one in Rounding]), default="up",
    show_default=True, help="How parts of a core become whole cores.",
)  # fmt: skip
@click.option(
    "--increment", type=float, metavar="PART",
    help="By which part of a core's price incentives grow in a round.  [default: what FILE says,"
    " else 0.1]",
)  # fmt: skip
@click.option(
    "--rounds", type=click.IntRange(min=1),
    help="The number of rounds in which incentives grow; with 1 there are none.  [default: what FILE"
    " says, else 50]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def elasticity(
    file: Path,
    asked: tuple[str, ...],
    rounding: str,
    increment: float | None,
    rounds: int | None,
    as_json: bool,
) -> None:
    """Say how many cores the modules of FILE should have, and what that costs.

    FILE describes modules through which tasks flow, what they take for a task, and what they pay for
    cores and for delay. For each module the answer is how many cores it would take alone, how many
    where each looks after itself, and how many if the slowest are paid for taking more; then, in
    whole cores, how busy it is, what it pays, and by how much one more core for it would change what
    all pay together. In the end all of that is held against the least that could be paid.

    \b
    Examples:
      australis elasticity examples/elasticity.yaml
      australis elasticity examples/elasticity.yaml --cores recognizer=20 --cores edge-detector=12
      australis elasticity examples/elasticity.yaml --rounding nearest --json

    Exit codes: 0 done, 2 wrong input.
    """
    from australis.sim.elasticity.elasticity_file import load

    expect(file, FileKind.ELASTICITY)
    plan = load(read_text(file), str(file))
    given = plan.incentives
    outcome = cooperate(
        plan.game,
        given.increment if increment is None else increment,
        given.rounds if rounds is None else rounds,
    )
    answers = _Answers(plan, Rounding(rounding), _asked(asked, plan), outcome)
    answers.check_room()
    found = answers.summary()
    if as_json:
        click.echo(json.dumps(found))
    else:
        _tell(found)


def _asked(written: Iterable[str], plan: ElasticityFile) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in written:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal() or len(number) > MAX_DIGITS:
            raise UserError(f"should be MODULE=N, not {text!r}", name="--cores")
        module = plan.apart.modules.get(name)
        if module is None or isinstance(module.service, Feed):
            known = [
                m for m, one in plan.apart.modules.items() if not isinstance(one.service, Feed)
            ]
            raise unknown_name(name, known, "is asked about but is no module", heading="modules")
        if name in found:
            raise UserError("is asked about twice", name=name)
        if not 1 <= int(number) <= module.most:
            raise UserError(f"may have 1 to {module.most} cores, not {int(number)}", name=name)
        found[name] = int(number)
    return found


# --- answers ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Answers:
    """The answers for a plan with the given whole cores."""

    plan: ElasticityFile
    rounding: Rounding
    asked: Mapping[str, int]
    outcome: IncentiveOutcome

    @cached_property
    def modules(self) -> dict[str, Module]:
        """The modules without a virtual source, as if each had its cores for itself."""
        modules = self.plan.apart.modules
        return {name: m for name, m in modules.items() if not isinstance(m.service, Feed)}

    @cached_property
    def cores(self) -> dict[str, int]:
        """The cores to which all other answers refer."""
        return {**self._whole(self.outcome.profile.degrees), **self.asked}

    @cached_property
    def performance(self) -> Performance:
        """The performance with these cores."""
        return self.plan.apart.performance(self.cores)

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """The node of each module."""
        return {name: node for node in self.plan.nodes for name in node.modules}

    @cached_property
    def one_more(self) -> dict[str, float]:
        """How one more core of a module changes the total cost, if there is room for it."""
        return {
            name: change
            for name, change in self.plan.apart.one_more(self.cores).items()
            if name not in self.nodes or self.room(self.nodes[name])
        }

    def check_room(self) -> None:
        """Refuse cores beyond what a node has."""
        for node in self.plan.nodes:
            if self.room(node) < 0:
                each = ", ".join(f"{name}: {self.cores[name]}" for name in node.modules)
                raise UserError(f"has only {node.cores} cores ({each})", name=node.name)

    def room(self, node: Node) -> int:
        """The number of unused cores of a node."""
        return node.cores - sum(self.cores[name] for name in node.modules)

    def why(self, name: str) -> str:
        """Why a module that holds up others is no faster."""
        module, cores, node = self.modules[name], self.cores[name], self.nodes.get(name)
        if cores >= module.most:
            return "limit"
        if module.service.time_s(cores + 1) >= module.service.time_s(cores):
            return "fastest"
        if node and self.room(node) < len({*self.performance.bottlenecks} & {*node.modules}):
            return "node"
        if name in self.asked:
            return "asked"
        rounded = cores < self.outcome.profile.degrees[name] * (1 - TIED)
        return "rounding" if rounded else "price"

    # --- JSON -------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        game, outcome = self.plan.game, self.outcome
        optimum = social_optimum(game)
        selfish, played = Stability(outcome.first, optimum), Stability(outcome.profile, optimum)
        modules = self._each()
        return {
            "arrivals_per_s": 1 / self.plan.every_s,
            "completed_per_s": self.performance.throughput,
            "cost": self.plan.apart.total(self.cores),
            "bottlenecks": self._bottlenecks(),
            "busiest": max(modules, key=lambda name: modules[name]["busy"]),
            "modules": modules,
            "nodes": {n.name: {"cores": n.cores, "free": self.room(n)} for n in self.plan.nodes},
            "choices": self._choices(selfish, outcome.profile.degrees),
            "price_of_stability": selfish.price,
            "price_of_stability_reported": selfish.reported,
            "price_of_stability_with_incentives": played.price,
            "rounds": outcome.rounds,
            "rounding": self.rounding.value,
        }

    def _each(self) -> dict[str, dict[str, Any]]:
        costs = self.plan.apart.costs(self.cores)
        return {
            name: {
                "part": self.plan.apart.graph.ratios[name],
                "alone": _unpaced(module).ideal_degree(),
                "selfish": self.outcome.first.degrees[name],
                "with_incentives": self.outcome.profile.degrees[name],
                "incentive": self.outcome.incentives[name],
                "most": module.most,
                "node": self.nodes[name].name if name in self.nodes else None,
                "asked": name in self.asked,
                "cores": self.cores[name],
                "busy": _unpaced(module).service.time_s(self.cores[name])
                / self.performance.departures_s[name],
                "pays": costs[name],
                "one_more": self._one_more(name),
            }
            for name, module in self.modules.items()
        }

    def _one_more(self, name: str) -> dict[str, Any] | None:
        change = self.one_more.get(name)
        return None if change is None else {"changes_cost": change, "is_worth_it": change < 0}

    def _bottlenecks(self) -> list[dict[str, Any]]:
        """The bottlenecks: none if all arriving tasks are completed; a module that is slow only
        because the others cannot be faster is not one.
        """
        if self.performance.pace_s <= self.plan.every_s * (1 + TIED):
            return [{"module": None, "why": "arrivals"}]
        found = {name: self.why(name) for name in self.performance.bottlenecks}
        forced = {name: why for name, why in found.items() if why != "price"}
        return [{"module": name, "why": why} for name, why in (forced or found).items()]

    def _choices(self, selfish: Stability, played: Degrees) -> dict[str, dict[str, Any]]:
        game, apart = self.plan.game, self.plan.apart
        optimum = selfish.optimum.degrees
        parts = {"selfish": selfish.equilibrium.degrees, "incentives": played, "optimum": optimum}
        whole: dict[str, Degrees] = {
            "selfish": self._whole(selfish.equilibrium.degrees),
            "incentives": self._whole(played),
            "optimum": integer_optimum(game).degrees,
        }
        if self.asked:
            whole["asked"] = self.cores
        return {
            name: {
                "parts": _figures(apart, parts[name]) if name in parts else None,
                "whole": _figures(apart, degrees),
            }
            for name, degrees in whole.items()
        }

    def _whole(self, degrees: Degrees) -> dict[str, int]:
        return whole_cores(self.plan.game, degrees, self.rounding)


def _unpaced(module: Module) -> Module:
    """The module as if enough tasks arrived at it."""
    service = module.service
    return replace(module, service=service.service if isinstance(service, Paced) else service)


def _figures(game: Game, degrees: Degrees) -> dict[str, float]:
    found = game.profile(degrees)
    return {
        "cores": sum(degrees.values()),
        "completed_per_s": 1 / found.pace_s,
        "cost": found.cost,
    }


# --- text -----------------------------------------------------------------------------------------

CHOICES = {
    "selfish": "each for itself",
    "incentives": "with incentives",
    "optimum": "social optimum",
    "asked": "as asked",
}


def _tell(found: dict[str, Any]) -> None:
    console = Console(
        highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 120
    )
    console.print(_modules_table(found))
    console.print(
        f"{found['arrivals_per_s']:.4g} tasks a second come, {found['completed_per_s']:.4g} are"
        " completed."
    )
    for one in found["bottlenecks"]:
        console.print(_bottleneck(found, one["module"], one["why"]))
    console.print(_choices_table(found))
    console.print(
        f"Price of stability: {found['price_of_stability']:.3f}, upside down as the paper reports it"
        f" {found['price_of_stability_reported']:.3f};"
        f" with incentives {found['price_of_stability_with_incentives']:.3f},"
        f" after {_counted(found['rounds'], 'round')}."
    )


def _modules_table(found: dict[str, Any]) -> Table:
    asked = any(one["asked"] for one in found["modules"].values())
    cores = ["alone", "selfish", "incentives", "asked" if asked else "whole cores"]
    table = _table("module", "tasks", *cores, "busy", "pays", "cost of one more core")
    for name, one in found["modules"].items():
        table.add_row(
            name,
            f"{one['part'] * 100:.3g}%",
            f"{one['alone']:.2f}",
            f"{one['selfish']:.2f}",
            f"{one['with_incentives']:.2f}",
            f"{one['cores']}",
            f"{one['busy']:.1%}",
            f"{one['pays']:.4g}",
            _worth(one["one_more"]),
        )
    return table


def _worth(one_more: dict[str, Any] | None) -> str:
    if one_more is None:
        return ""
    said = "is worth it" if one_more["is_worth_it"] else "is not worth it"
    return f"{one_more['changes_cost']:+.4g}, {said}"


def _bottleneck(found: dict[str, Any], name: str | None, why: str) -> str:
    if name is None:
        busiest = found["busiest"]
        busy = found["modules"][busiest]["busy"]
        return f"Nothing holds them up; {busiest} has the least time to spare ({busy:.1%} busy)."
    one = found["modules"][name]
    worth = one["one_more"] is not None and one["one_more"]["is_worth_it"]
    more = "; one more would be worth it" if worth else ""
    where = f" ({one['node']})" if why == "node" else ""
    cores = _counted(one["cores"], "core")
    return f"The bottleneck is {name} with {cores}: {REASONS[why]}{where}{more}."


def _choices_table(found: dict[str, Any]) -> Table:
    table = _table("", *("cores", "tasks/s", "cost"), *("whole cores", "tasks/s", "cost"))
    for choice, one in found["choices"].items():
        parts, whole = one["parts"], one["whole"]
        table.add_row(
            CHOICES[choice],
            *((f"{parts['cores']:.2f}", *_rate_and_cost(parts)) if parts else ("", "", "")),
            f"{whole['cores']}",
            *_rate_and_cost(whole),
        )
    return table


def _rate_and_cost(figures: dict[str, float]) -> tuple[str, str]:
    return f"{figures['completed_per_s']:.4g}", f"{figures['cost']:.4f}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _table(*headings: str) -> Table:
    """A table of numbers by name."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for at, heading in enumerate(headings):
        table.add_column(heading, justify="right" if at else "left")
    return table
