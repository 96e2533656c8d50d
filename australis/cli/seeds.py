"""Commands that run a protocol for one seed or for many, correct or as a broken variant."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from australis.cli.interrupts import terminated_like_interrupted
from australis.kernel.durations import SECOND, parse_duration
from australis.kernel.errors import UserError

if TYPE_CHECKING:
    from australis.sim.harness.model import Model, SeedResult, Setup, Tally
    from australis.sim.harness.story import Story


def seed_range(_ctx: click.Context, param: click.Parameter, value: str | None) -> range | None:
    """The seeds of a range A:B."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+):(\d+)", value)
    if not found or int(found[1]) > int(found[2]):
        raise UserError(f"is not a range A:B of seeds: {value!r}", name=param.opts[0])
    return range(int(found[1]), int(found[2]) + 1)


def _seconds(_ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return parse_duration(value) / SECOND
    except UserError as error:
        raise error.at(None, param.opts[0]) from None


OPTIONS = (
    click.option("--seed", type=click.IntRange(min=0), help="Run one seed and tell its story."),
    click.option(
        "--seeds", callback=seed_range, metavar="A:B", help="Run the seeds A to B, both included."
    ),
    click.option(
        "--preset", default="", metavar="NAME",
        help="What is drawn from a seed; 'list' shows the ways.  [default: the first of them]",
    ),
    click.option(
        "--variant", metavar="NAME",
        help="Break the protocol on purpose to see the checkers bite; 'list' shows the ways, 'all'"
        " runs each until the checkers meant for it have caught it.",
    ),
    click.option("--keep-going", is_flag=True, help="Go on after the first violation."),
    click.option(
        "--tries", type=click.IntRange(min=0), default=200, show_default=True,
        help="The most runs to find the shortest schedule that still fails; 0: do not look.",
    ),
    click.option(
        "--explain", metavar="TEXT", help="Tell how the last entry with this text came about."
    ),
    click.option(
        "--jobs", type=click.IntRange(min=1),
        help="Processes for many seeds.  [default: one per core]",
    ),
    click.option(
        "--time-limit", callback=_seconds, metavar="DURATION", help="End the search after that."
    ),
    click.option(
        "--seed-limit", callback=_seconds, metavar="DURATION", default="120 s", show_default=True,
        help="A seed that needs more processor time is a violation.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)  # fmt: skip
HELP = """{about}

{promises}

\b
Examples:
  australis sim {name} --seed 7                    one run and its story
  australis sim {name} --seed 7 --explain TEXT     how the last TEXT came about
  australis sim {name} --seeds 0:499               500 runs on all cores
  australis sim {name} --variant list              ways to break the protocol
  australis sim {name} --seeds 0:99 --variant {variant}

Exit codes: 0 all promises kept, 1 a promise was broken, 2 wrong input.
"""


def seed_command(name: str, about: str, promises: str, variant: str) -> click.Command:
    """The command of one protocol; all have the same options."""

    def command(**options: Any) -> None:
        from australis.sim.models import load

        _run(load(name), **options)

    for option in reversed(OPTIONS):
        command = option(command)
    text = HELP.format(name=name, about=about, promises=promises, variant=variant)
    return click.command(name, help=text, short_help=about)(command)


def _run(
    model: Model[Any],
    seed: int | None,
    seeds: range | None,
    preset: str,
    variant: str | None,
    explain: str | None,
    seed_limit: float,
    as_json: bool,
    **search: Any,
) -> None:
    from australis.cli import formatting
    from australis.sim.harness.model import Setup

    if variant == "list":
        formatting.say_list("variants", {v.name: v.says for v in model.variants.values()}, as_json)
        return
    if preset == "list":
        formatting.say_list("presets", {n: p.says for n, p in model.presets.items()}, as_json)
        return
    if variant == "all":
        sys.exit(_catch_all(model, as_json))
    if (seed is None) == (seeds is None):
        raise UserError("say either --seed N or --seeds A:B")
    if explain is not None and seed is None:
        raise UserError("goes with --seed only", name="--explain")
    setup = Setup(model, preset, variant)
    if seed is not None:
        sys.exit(_one(setup, seed, explain, seed_limit, as_json))
    assert seeds is not None
    jobs = search.pop("jobs") or len(os.sched_getaffinity(0))
    sys.exit(_many(Hunt(setup, seeds, jobs=jobs, limit_s=seed_limit, **search), as_json))


def _catch_all(model: Model[Any], as_json: bool) -> int:
    from australis.cli.formatting import say_caught
    from australis.sim.harness.variants import catch_all

    missed, found = False, {}
    for caught in catch_all(model):
        missed |= bool(caught.missed)
        found[caught.variant.name] = {"caught_by": caught.seeds, "missed": list(caught.missed)}
        if not as_json:
            say_caught(caught)
    if as_json:
        click.echo(json.dumps({"variants": found}))
    return 1 if missed else 0


# --- one seed ---------------------------------------------------------------------------


def _one(
    setup: Setup[Any], seed: int, containing: str | None, limit_s: float, as_json: bool
) -> int:
    from australis.cli.formatting import run_as_json, say_run
    from australis.sim.harness.model import Tally
    from australis.sim.harness.story import explain, tell

    began = time.monotonic()
    story = tell(setup, setup.scenario(seed), limit_s)
    chain = explain(story, containing)
    if containing is not None and not chain:
        raise UserError(f"is in no entry of the trace of seed {seed}", name=containing)
    if as_json:
        tally = Tally(setup.model)
        tally.add(story.result)
        found = [Found(story.result, story)] if story.violations else []
        summary = _summary(tally, found, time.monotonic() - began)
        click.echo(json.dumps(summary | run_as_json(story, chain)))
    else:
        say_run(setup, story, chain, containing)
    return 1 if story.violations else 0


# --- many seeds --------------------------------------------------------------------------


@dataclass
class Found:
    """A seed that breaks a promise; printed only if it is the first one for its checker."""

    result: SeedResult
    story: Story | None = None
    tries: int = 0

    def as_json(self) -> list[dict[str, Any]]:
        """The entry in `violations`."""
        from australis.sim.harness.story import explain

        violations = self.result.violations
        faults: list[str] = []
        lines: list[str] = []
        if (story := self.story) is not None:
            violations = story.violations or violations
            faults = [str(p).strip() for p in story.model.schedule(story.scenario)]
            lines = [*map(str, story.lines), *explain(story)]
        return [
            {
                "seed": self.result.seed,
                "checker": one.checker,
                "said": one.said,
                "faults": faults,
                "drawn_faults": self.result.planned,
                "story": "\n".join(lines) or one.said,
            }
            for one in violations
        ]


@dataclass
class Hunt:
    """A search over many seeds."""

    setup: Setup[Any]
    seeds: range
    keep_going: bool
    tries: int
    jobs: int
    limit_s: float
    time_limit: float | None
    found: list[Found] = field(default_factory=list)
    doing: Callable[[str], None] = lambda what: None

    def __post_init__(self) -> None:
        from australis.sim.harness.model import Tally

        self.tally: Tally[Any] = Tally(self.setup.model)

    def run(self) -> None:
        """Run all seeds, or up to the first violation."""
        from australis.sim.harness.search import search

        for result in search(self.setup, self.seeds, self.jobs, self.limit_s, self.time_limit):
            self.tally.add(result)
            self.doing("")
            if result.violations:
                self.found.append(Found(result))
                if not self.keep_going:
                    break
        told: set[str] = set()
        for found in self.found:
            kind = found.result.violations[0].kind
            if kind not in told:
                told.add(kind)
                self._look_closer(found)

    def _look_closer(self, found: Found) -> None:
        """Find a short schedule for a violation, and tell its story."""
        from australis.sim.harness.shrink import shrink
        from australis.sim.harness.story import tell

        seed, violation = found.result.seed, found.result.violations[0]

        def say(tries: int, planned: int) -> None:
            self.doing(f"seed {seed} fails; down to {planned} faults after {tries} tries")

        scenario = self.setup.scenario(seed)
        shrunk = shrink(self.setup, scenario, violation, self.tries, say, self.limit_s)
        found.story = tell(self.setup, shrunk.scenario, self.limit_s)
        found.tries = shrunk.tries


def _many(hunt: Hunt, as_json: bool) -> int:
    from australis.cli.formatting import say_search

    began, interrupted = time.monotonic(), False
    try:
        with terminated_like_interrupted(), _progress(hunt):
            hunt.run()
    except KeyboardInterrupt:
        interrupted = True
    seconds = time.monotonic() - began
    if as_json:
        summary = _summary(hunt.tally, hunt.found, seconds)
        click.echo(json.dumps(summary | {"interrupted": interrupted}))
    else:
        say_search(hunt, seconds)
    done = f"{hunt.tally.seeds:,} of {len(hunt.seeds):,} seeds"
    if interrupted:
        click.echo(f"australis: interrupted after {done}", err=True)
        return 130
    if hunt.tally.seeds < len(hunt.seeds) and (hunt.keep_going or not hunt.found):
        click.echo(f"australis: the time was over after {done}", err=True)
    return 1 if hunt.found else 0


@contextmanager
def _progress(hunt: Hunt) -> Iterator[None]:
    """A progress bar on standard error; silent without a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("seeds", total=len(hunt.seeds))

        def show(what: str) -> None:
            bar.update(task, completed=hunt.tally.seeds, description=what or "seeds")

        hunt.doing = show
        yield


def _summary(tally: Tally[Any], found: list[Found], seconds: float) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "seeds": tally.seeds,
        "violations": [violation for one in found for violation in one.as_json()],
        "seconds": round(seconds, 3),
        "counts": dict(tally.counts),
        "coverage": tally.coverage,
    }
