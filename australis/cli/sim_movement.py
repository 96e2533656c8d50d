"""`australis sim movement`: components that move while everything fails."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter

import click
from rich.progress import track

from australis.cli.sim import seed_range
from australis.kernel.errors import UserError
from australis.sim.movement.search import VARIANTS, Verdict, search, story


@click.command()
@click.option("--seed", type=click.IntRange(min=0), help="Run one seed and tell its story.")
@click.option(
    "--seeds", callback=seed_range, metavar="A:B", help="Run the seeds A to B, both included."
)
@click.option(
    "--variant",
    metavar="NAME",
    help="Do it wrong on purpose to see the checkers bite; 'list' shows the ways.",
)
@click.option("--keep-going", is_flag=True, help="Go on after the first violation.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Processes for many seeds.  [default: one per core]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def movement(
    seed: int | None,
    seeds: range | None,
    variant: str | None,
    keep_going: bool,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Components that move from node to node under seeded faults.

    Every seed stands for a diagram, nodes, moves and faults in all six phases: crashes, loss,
    repetition, cuts. Clients must get every tuple once and in order, no component may be lost,
    and in the end each has one owner.

    \b
    Examples:
      australis sim movement --seed 7                      one run and its story
      australis sim movement --seeds 0:999                 a thousand runs on all cores
      australis sim movement --variant list                ways to do it wrong
      australis sim movement --seeds 0:99 --variant DropsEarly

    Exit codes: 0 all promises kept, 1 a promise was broken, 2 wrong input.
    """
    if variant == "list":
        says = {name: " ".join((host.__doc__ or "").split()) for name, host in VARIANTS.items()}
        table = "\n".join(f"  {name:16} {text}" for name, text in says.items())
        click.echo(json.dumps({"variants": says}) if as_json else table)
        return
    if (seed is None) == (seeds is None):
        raise UserError("say either --seed N or --seeds A:B")
    began = time.monotonic()
    lines: list[str] = []
    if seed is not None:
        verdict, lines = story(variant, seed)
        verdicts = [verdict]
    else:
        assert seeds is not None
        verdicts = _many(variant, seeds, jobs or len(os.sched_getaffinity(0)), keep_going)
    _tell(verdicts, lines, time.monotonic() - began, as_json)
    sys.exit(1 if any(v.violations for v in verdicts) else 0)


def _many(variant: str | None, seeds: range, jobs: int, keep_going: bool) -> list[Verdict]:
    found: list[Verdict] = []
    shown = sys.stderr.isatty()
    runs = search(variant, seeds, jobs)
    for verdict in track(runs, "seeds", total=len(seeds), disable=not shown, transient=True):
        found.append(verdict)
        if verdict.violations and not keep_going:
            break
    return found


def _tell(verdicts: list[Verdict], lines: list[str], seconds: float, as_json: bool) -> None:
    violations = [one for verdict in verdicts for one in verdict.violations]
    counts: Counter[str] = sum((v.counts for v in verdicts), Counter())
    if as_json:
        told = [{"seed": v.seed, "checker": v.checker, "story": v.story} for v in violations]
        summary = {"seeds": len(verdicts), "violations": told, "seconds": round(seconds, 3)}
        click.echo(json.dumps(summary | {"counts": dict(counts), "lines": lines}))
        return
    for line in lines:
        click.echo(line)
    for one in violations:
        click.echo(f"seed {one.seed}: {one.checker}: {one.story}")
    click.echo(
        f"{len(verdicts):,} seeds in {seconds:.1f} s: {counts['moved']:,} moves done,"
        f" {counts['called off']:,} called off, {counts['crashes']:,} crashes,"
        f" {len(violations)} promises broken"
    )
