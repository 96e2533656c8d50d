"""Formats the story of a simulated run, and the summary of many, for terminals and programs."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from australis.sim.harness.model import Setup, Tally
from australis.sim.harness.story import Line, Story, Tone, explain
from australis.sim.harness.variants import Caught

if TYPE_CHECKING:
    from australis.cli.seeds import Found, Hunt

COLOURS: dict[Tone, dict[str, Any]] = {
    Tone.FAULT: {"fg": "red"},
    Tone.MENDED: {"fg": "cyan"},
    Tone.PLAIN: {},
    Tone.STABLE: {"fg": "green"},
    Tone.TENTATIVE: {"fg": "yellow"},
    Tone.BROKEN: {"fg": "red", "bold": True},
}
RARE = 100
"""Events counted less often than this were hardly tested."""


def say_list(what: str, says: Mapping[str, str], as_json: bool) -> None:
    """Print the variants or presets."""
    if as_json:
        click.echo(json.dumps({what: says}))
        return
    for name, text in says.items():
        click.echo(f"  {name:22} {' '.join(text.split())}")


def say_caught(caught: Caught) -> None:
    """Print whether the checkers meant for a variant have caught it."""
    by = ", ".join(f"{checker} (seed {seed})" for checker, seed in caught.seeds.items())
    text = f"caught by {by}" if by else "caught by nothing"
    if caught.missed:
        text += f", not by {', '.join(caught.missed)}"
    colour = COLOURS[Tone.BROKEN if caught.missed else Tone.PLAIN]
    say_folded(f"  {caught.variant.name:22} ", text, **colour)


# --- one seed ---------------------------------------------------------------------------


def say_run(setup: Setup[Any], story: Story, chain: list[str], containing: str | None) -> None:
    """Print the whole story of one seed."""
    say_heading(setup, story)
    say_timeline(story.lines)
    say_chain(chain, containing)
    say_end(story)


def say_heading(setup: Setup[Any], story: Story) -> None:
    """Print what was drawn."""
    model, scenario = story.model, story.scenario
    title = model.title(scenario)
    click.echo(f"seed {scenario.seed} of {_name(setup)}{f': {title}' if title else ''}")
    for section, pairs in model.drawn(scenario).items():
        if pairs:
            click.echo(section)
        for name, text in pairs.items():
            say_folded(f"  {name:16} ", text)
    say_schedule(story)


def _name(setup: Setup[Any]) -> str:
    return f"{setup.preset}, variant '{setup.variant}'" if setup.variant else setup.preset


def say_schedule(story: Story) -> None:
    """Print the schedule."""
    schedule = story.model.schedule(story.scenario)
    click.echo("faults" if schedule else "no faults")
    for planned in schedule:
        click.echo(f"  {planned}")


def say_timeline(lines: list[Line]) -> None:
    """Print the timeline."""
    click.echo("story")
    for line in lines:
        before = f"{line.at_us / 1e6:8.2f} s  {line.who:16} "
        say_folded(before, line.text, **COLOURS[line.tone])


def say_chain(chain: list[str], containing: str | None = None) -> None:
    """Print the causal chain of an entry."""
    if chain:
        what = "the violation" if containing is None else f"the last '{containing}'"
        click.echo(f"how {what} came about")
    room = _width()
    for line in chain:
        click.echo(line if len(line) <= room else line[: room - 3] + "...")


def say_end(story: Story) -> None:
    """Print the promises that were kept, and the figures of the run."""
    model, counts = story.model, story.result.counts
    click.echo("promises")
    for name, (kept, says) in story.promises.items():
        colour = COLOURS[Tone.BROKEN] if kept == "BROKEN" else {}
        say_folded(f"  {name:12} {kept:12} ", says, **colour)
    simulated_s = story.simulation.world.now / 1e6
    measured = model.measured(story.simulation).items()
    times = {name: value for name, value in measured if name.endswith("_s")}
    more = "".join(f", {n[:-2].replace('_', ' ')} {value:.2f} s" for n, value in times.items())
    say_folded("", f"{simulated_s:.0f} s simulated, {model.summary(counts)}{more}")
    for group, keys in model.coverage.items():
        happened = {label: counts[key] for label, key in keys.items() if counts[key]}
        text = ", ".join(f"{label}: {n:,}" for label, n in happened.items())
        say_folded(f"{group:10} ", text)
    click.echo(f"trace {story.trace.digest}")
    _say_verdict(len(story.violations))


def _say_verdict(broken: int) -> None:
    verdict = f"{broken:,} broke a promise" if broken else "all promises kept"
    click.secho(verdict, fg="red" if broken else "green", bold=True)


def say_folded(before: str, text: str, **colour: Any) -> None:
    """Print a line, folded under its own text at the terminal's width."""
    indent = " " * min(len(before), 30)
    for line in textwrap.wrap(before + text, _width(), subsequent_indent=indent):
        click.secho(line, **colour)


def _width() -> int:
    return max(60, shutil.get_terminal_size((100, 24)).columns)


def run_as_json(story: Story, chain: list[str]) -> dict[str, Any]:
    """The keys that `--seed N --json` adds to those of a search."""
    model, scenario = story.model, story.scenario
    return {
        **model.drawn(scenario),
        "faults": [str(planned).strip() for planned in model.schedule(scenario)],
        "story": [str(line) for line in story.lines],
        "explained": chain,
        "promises": {name: kept for name, (kept, _) in story.promises.items()},
        **model.measured(story.simulation),
        "trace": story.trace.digest,
    }


# --- many seeds --------------------------------------------------------------------------


def say_search(hunt: Hunt, seconds: float) -> None:
    """Print the summary of a search."""
    for found in hunt.found:
        _say_found(hunt, found)
    tally = hunt.tally
    if hunt.keep_going or not hunt.found:
        _say_coverage(tally)
    click.echo(
        f"{tally.seeds:,} seeds of {_name(hunt.setup)} in {seconds:.1f} s"
        f" ({tally.seeds / seconds:.1f} per second on {hunt.jobs} cores):"
        f" {hunt.setup.model.summary(tally.counts)}"
    )
    if tally.seeds:
        _say_verdict(len(hunt.found))


def _say_found(hunt: Hunt, found: Found) -> None:
    story, seed = found.story, found.result.seed
    for violation in found.result.violations:
        click.secho(f"seed {seed}: {violation}", **COLOURS[Tone.BROKEN])
    if story is None:
        return
    faults = story.model.schedule(story.scenario)
    click.echo(
        f"the shortest schedule found: {len(faults)} of {found.result.planned} faults"
        f" ({found.tries} tries)"
    )
    for fault in faults:
        click.echo(f"  {fault}")
    say_timeline(story.lines)
    say_chain(explain(story))
    variant = f" --variant '{hunt.setup.variant}'" if hunt.setup.variant else ""
    again = f"{story.model.name} --preset {hunt.setup.preset}{variant} --seed {seed}"
    click.echo(f"all of it: australis sim {again}")


def _say_coverage(tally: Tally[Any]) -> None:
    groups = tally.coverage
    if not groups:
        return
    click.echo("how often what is to be tested has happened")
    columns = [
        [f"{key:32} {tally.counts[key]:>9,}" for key in keys.values()]
        for keys in tally.model.coverage.values()
    ]
    for cells in zip_longest(*columns, fillvalue=" " * 42):
        click.echo(f"  {'  '.join(cells)}".rstrip())
    rare = tally.rare(RARE)
    if rare:
        said = ", ".join(f"{what} ({n})" for what, n in rare.items())
        say_folded(f"  fewer than {RARE} times: ", said)
