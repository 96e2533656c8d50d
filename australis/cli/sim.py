"""`australis sim`: run the protocols in a simulated world, and look for broken promises."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from australis.cli.interrupts import terminated_like_interrupted
from australis.cli.telling import COLOURS, run_as_json, say_chain, say_folded, say_run, say_timeline
from australis.kernel.errors import UserError
from australis.sim.dpc.broken import VARIANTS
from australis.sim.dpc.probes import Violation
from australis.sim.dpc.search import ENDLESS, Setup, Tally, Verdict, search, shrink, verdict_on
from australis.sim.dpc.story import Telling, Tone, explain, tell

RARE = 100
"""What was taken less often than this was hardly tested."""


@click.group()
def sim() -> None:
    """Run protocols in a simulated world, reproducibly from a seed."""


def seed_range(_ctx: click.Context, param: click.Parameter, value: str | None) -> range | None:
    if value is None:
        return None
    found = re.fullmatch(r"(\d+):(\d+)", value)
    if not found or int(found[1]) > int(found[2]):
        raise UserError(f"is not a range A:B of seeds: {value!r}", name=param.opts[0])
    return range(int(found[1]), int(found[2]) + 1)


@sim.command()
@click.option("--seed", type=click.IntRange(min=0), help="Run one seed and tell its story.")
@click.option(
    "--seeds", callback=seed_range, metavar="A:B", help="Run the seeds A to B, both included."
)
@click.option(
    "--preset",
    default="swarm",
    show_default=True,
    metavar="NAME",
    help="What is drawn from a seed: lite a little, swarm everything, performance a long stream"
    " without faults.",
)
@click.option(
    "--variant",
    metavar="NAME",
    help="Break the protocol on purpose to see the checkers bite; 'list' shows the ways.",
)
@click.option("--keep-going", is_flag=True, help="Go on after the first violation.")
@click.option(
    "--tries",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="At most so many runs to find the shortest schedule that still fails; 0: do not look.",
)
@click.option(
    "--explain", metavar="TEXT", help="Tell how the last entry with this text came about."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Processes for many seeds.  [default: one per core]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def dpc(
    seed: int | None,
    seeds: range | None,
    preset: str,
    variant: str | None,
    keep_going: bool,
    tries: int,
    explain: str | None,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Replicas, failures and corrections: DPC under seeded faults.

    Every seed stands for a diagram, its replicas, its settings and a schedule of
    faults. While it runs, checkers watch every promise: no stable tuple is lost or
    undone, logs are equal, tentative tuples are corrected, delays are bounded.

    \b
    Examples:
      australis sim dpc --seed 7                    one run and its story
      australis sim dpc --seed 7 --explain REC_DONE how the last REC_DONE came about
      australis sim dpc --seeds 1:500               500 runs on all cores
      australis sim dpc --variant list              ways to break the protocol
      australis sim dpc --seeds 1:50 --variant gaps one of them, caught and shrunk

    Exit codes: 0 all promises kept, 1 a promise was broken, 2 wrong input.
    """
    if variant == "list":
        _list_variants(as_json)
        return
    if (seed is None) == (seeds is None):
        raise UserError("say either --seed N or --seeds A:B")
    if explain is not None and seed is None:
        raise UserError("goes with --seed only", name="--explain")

    setup = Setup(preset, variant)
    if seed is not None:
        sys.exit(_one(setup, seed, explain, as_json))
    assert seeds is not None
    hunt = Hunt(setup, seeds, keep_going, tries, jobs or len(os.sched_getaffinity(0)))
    sys.exit(_many(hunt, as_json))


def _list_variants(as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"variants": {v.name: v.says for v in VARIANTS.values()}}))
        return
    for one in VARIANTS.values():
        click.echo(f"  {one.name:22} {one.says}")


# --- one seed ---------------------------------------------------------------------------


def _one(setup: Setup, seed: int, containing: str | None, as_json: bool) -> int:
    began = time.monotonic()
    telling = tell(setup.scenario(seed))
    chain = explain(telling, containing)
    if containing is not None and not chain:
        raise UserError(f"stands in no entry of the trace of seed {seed}", name=containing)
    if not as_json:
        say_run(setup, telling, chain, containing)
        return 0 if telling.outcome.violation is None else 1
    tally, verdict = Tally(), verdict_on(telling.outcome)
    tally.add(verdict)
    found = [Found(verdict, telling)] if verdict.checker else []
    summary = _summary(tally, found, time.monotonic() - began)
    click.echo(json.dumps(summary | run_as_json(telling, chain)))
    return 1 if found else 0


# --- many seeds --------------------------------------------------------------------------


@dataclass
class Found:
    """A seed that breaks a promise; told only if it is the first one for its checker."""

    verdict: Verdict
    telling: Telling | None = None
    tries: int = 0

    def as_json(self) -> dict[str, Any]:
        """As it stands in `violations`."""
        telling, said, faults = self.telling, self.verdict.said, self.verdict.faults
        story: list[str] = []
        if telling is not None and telling.outcome.violation is not None:
            said, faults = telling.outcome.violation.said, telling.outcome.scenario.faults
            story = [*map(str, telling.lines), *explain(telling)]
        return {
            "seed": self.verdict.seed,
            "checker": self.verdict.checker,
            "said": said,
            "faults": [str(fault).strip() for fault in faults],
            "drawn_faults": len(self.verdict.faults),
            "story": "\n".join(story),
        }


@dataclass
class Hunt:
    """A search over many seeds."""

    setup: Setup
    seeds: range
    keep_going: bool
    tries: int
    jobs: int
    tally: Tally = field(default_factory=Tally)
    found: list[Found] = field(default_factory=list)
    doing: Callable[[str], None] = lambda what: None

    def run(self) -> None:
        """Run all seeds, or up to the first violation."""
        for verdict in search(self.setup, self.seeds, self.jobs):
            self.tally.add(verdict)
            self.doing("")
            if verdict.checker:
                self.found.append(Found(verdict))
                if not self.keep_going:
                    break
        told: set[str] = set()
        for found in self.found:
            if found.verdict.checker not in told and found.verdict.checker != ENDLESS:
                told.add(found.verdict.checker)
                self._look_closer(found)

    def _look_closer(self, found: Found) -> None:
        """Find the shortest schedule for a violation, and tell what happens in it."""
        verdict = found.verdict

        def say(tries: int, faults: int) -> None:
            self.doing(f"seed {verdict.seed} fails; down to {faults} faults after {tries} tries")

        scenario = self.setup.scenario(verdict.seed)
        shrunk = shrink(scenario, Violation(verdict.checker, verdict.said), self.tries, say)
        found.telling, found.tries = tell(shrunk.scenario), shrunk.tries


def _many(hunt: Hunt, as_json: bool) -> int:
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
        _say_search(hunt, seconds)
    if interrupted:
        done = f"{hunt.tally.seeds:,} of {len(hunt.seeds):,} seeds"
        click.echo(f"australis: interrupted after {done}", err=True)
        return 130
    return 1 if hunt.found else 0


@contextmanager
def _progress(hunt: Hunt) -> Iterator[None]:
    """A bar on standard error; nothing when not on a terminal."""
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


def _summary(tally: Tally, found: list[Found], seconds: float) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "seeds": tally.seeds,
        "violations": [one.as_json() for one in found],
        "seconds": round(seconds, 3),
        "coverage": {
            "rows": {str(row): n for row, n in tally.rows.items()},
            "turns": dict(tally.turns),
        },
    }


def _say_search(hunt: Hunt, seconds: float) -> None:
    for found in hunt.found:
        _say_found(hunt, found)
    tally, setup = hunt.tally, hunt.setup
    broken = f", variant '{setup.variant}'" if setup.variant else ""
    if hunt.keep_going or not hunt.found:
        _say_coverage(tally)
    click.echo(
        f"{tally.seeds:,} seeds of {setup.preset}{broken} in {seconds:.1f} s"
        f" ({tally.seeds / seconds:.1f} per second on {hunt.jobs} cores):"
        f" {tally.delivered:,} messages, {tally.tentative:,} tentative tuples"
    )
    verdict = f"{len(hunt.found)} broke a promise" if hunt.found else "all promises kept"
    click.secho(verdict, fg="red" if hunt.found else "green", bold=True)


def _say_found(hunt: Hunt, found: Found) -> None:
    verdict, telling = found.verdict, found.telling
    click.secho(f"seed {verdict.seed}: {verdict.checker}: {verdict.said}", **COLOURS[Tone.BROKEN])
    if telling is None:
        return
    faults = telling.outcome.scenario.faults
    click.echo(
        f"the shortest schedule found: {len(faults)} of {len(verdict.faults)} faults"
        f" ({found.tries} tries)"
    )
    for fault in faults:
        click.echo(f"  {fault}")
    say_timeline(telling.lines)
    say_chain(explain(telling))
    variant = f" --variant '{hunt.setup.variant}'" if hunt.setup.variant else ""
    again = f"--preset {hunt.setup.preset}{variant} --seed {verdict.seed}"
    click.echo(f"all of it: australis sim dpc {again}")


def _say_coverage(tally: Tally) -> None:
    click.echo("how often each row of table 4.3 and each turn was taken")
    rows = [f"row {row:<2} {n:>13,}" for row, n in tally.rows.items()]
    turns = [f"{turn:32} {n:>9,}" for turn, n in tally.turns.items()]
    for row, turn in zip_longest(rows, turns, fillvalue=""):
        click.echo(f"  {row:24}{turn}".rstrip())
    rare = tally.rare(RARE)
    if rare:
        said = ", ".join(f"{what} ({n})" for what, n in rare.items())
        say_folded(f"  fewer than {RARE} times: ", said)
