"""The story of a simulated run, for a terminal and for programs."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping
from typing import Any

import click

from australis.sim.dpc.search import Setup
from australis.sim.dpc.story import Line, Telling, Tone, nodes_of, options_of, promises_of

COLOURS: dict[Tone, dict[str, Any]] = {
    Tone.FAULT: {"fg": "red"},
    Tone.MENDED: {"fg": "cyan"},
    Tone.PLAIN: {},
    Tone.STABLE: {"fg": "green"},
    Tone.TENTATIVE: {"fg": "yellow"},
    Tone.BROKEN: {"fg": "red", "bold": True},
}


def say_run(setup: Setup, telling: Telling, chain: list[str], containing: str | None) -> None:
    """All there is to say about one seed."""
    say_heading(setup, telling)
    say_timeline(telling.lines)
    say_chain(chain, containing)
    say_end(telling)


def say_heading(setup: Setup, telling: Telling) -> None:
    """What was drawn."""
    scenario = telling.outcome.scenario
    broken = f", variant '{setup.variant}'" if setup.variant else ""
    click.echo(
        f"seed {scenario.seed} of {setup.preset}{broken}: diagram {scenario.topology.diagram.name}"
    )
    _say_pairs(nodes_of(scenario))
    click.echo("settings")
    _say_pairs(options_of(scenario))
    click.echo("faults" if scenario.faults else "no faults")
    for fault in scenario.faults:
        click.echo(f"  {fault}")


def _say_pairs(pairs: Mapping[str, str]) -> None:
    for name, text in pairs.items():
        say_folded(f"  {name:16} ", text)


def say_timeline(lines: list[Line]) -> None:
    """What happened."""
    click.echo("story")
    for line in lines:
        before = f"{line.at_us / 1e6:8.2f} s  {line.who:16} "
        say_folded(before, line.text, **COLOURS[line.tone])


def say_chain(chain: list[str], containing: str | None = None) -> None:
    """How one thing came about."""
    if chain:
        what = "the violation" if containing is None else f"the last '{containing}'"
        click.echo(f"how {what} came about")
    room = _width()
    for line in chain:
        click.echo(line if len(line) <= room else line[: room - 3] + "...")


def say_end(telling: Telling) -> None:
    """Which promises were kept, and what the run was like."""
    outcome = telling.outcome
    click.echo("promises")
    for name, (kept, says) in promises_of(telling).items():
        colour = COLOURS[Tone.BROKEN] if kept == "BROKEN" else {}
        say_folded(f"  {name:12} {kept:12} ", says, **colour)
    click.echo(
        f"{outcome.simulated_us / 1e6:.0f} s simulated, {outcome.delivered:,} messages,"
        f" {outcome.tentative:,} tentative tuples, worst delay"
        f" {telling.worst_delay_us / 1e6:.2f} s ({telling.delay_bound_us / 1e6:.2f} s allowed)"
    )
    rows = ", ".join(f"{row}: {n:,}" for row, n in sorted(outcome.rows.items()))
    turns = ", ".join(f"{turn}: {n}" for turn, n in sorted(outcome.turns.items()))
    say_folded("rows of table 4.3  ", rows)
    say_folded("turns              ", turns)
    click.echo(f"trace {telling.trace.digest}")


def say_folded(before: str, text: str, **colour: Any) -> None:
    """A line that goes on below its own text where the terminal ends."""
    indent = " " * min(len(before), 30)
    for line in textwrap.wrap(before + text, _width(), subsequent_indent=indent):
        click.secho(line, **colour)


def _width() -> int:
    return max(60, shutil.get_terminal_size((100, 24)).columns)


def run_as_json(telling: Telling, chain: list[str]) -> dict[str, Any]:
    """What `--seed N --json` says beyond a search."""
    scenario = telling.outcome.scenario
    return {
        "nodes": nodes_of(scenario),
        "settings": options_of(scenario),
        "faults": [str(fault).strip() for fault in scenario.faults],
        "story": [str(line) for line in telling.lines],
        "explained": chain,
        "promises": {name: kept for name, (kept, _) in promises_of(telling).items()},
        "messages": telling.outcome.delivered,
        "tentative": telling.outcome.tentative,
        "worst_delay_s": telling.worst_delay_us / 1e6,
        "delay_bound_s": telling.delay_bound_us / 1e6,
        "trace": telling.trace.digest,
    }
