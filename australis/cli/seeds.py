"""Commands that run a simulation for one seed or for many, rightly or wrongly on purpose."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
from rich.progress import track

from australis.cli.sim import seed_range
from australis.kernel.errors import UserError
from australis.sim.seeds import Verdict, search


@dataclass(frozen=True)
class Kind:
    """What is run."""

    variants: Mapping[str, type]
    """Ways to do it wrong,"""
    judge: Callable[[str | None, int], Verdict]
    """one seed of it, by the name of a variant,"""
    story: Callable[[str | None, int], tuple[Verdict, list[str]]]
    """the same with what happened,"""
    summary: Callable[[Counter[str]], str]
    """and what it came to, in a few words."""


def seed_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that all of them have."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            help="Processes for many seeds.  [default: one per core]",
        ),
        click.option("--keep-going", is_flag=True, help="Go on after the first violation."),
        click.option(
            "--variant",
            metavar="NAME",
            help="Do it wrong on purpose to see the checkers bite; 'list' shows the ways.",
        ),
        click.option(
            "--seeds",
            callback=seed_range,
            metavar="A:B",
            help="Run the seeds A to B, both included.",
        ),
        click.option("--seed", type=click.IntRange(min=0), help="Run one seed and tell its story."),
    ):
        command = option(command)
    return command


def run_seeds(
    kind: Kind,
    seed: int | None,
    seeds: range | None,
    variant: str | None,
    keep_going: bool,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Run them, tell what came of it, and exit."""
    if variant == "list":
        says = {name: " ".join((one.__doc__ or "").split()) for name, one in kind.variants.items()}
        table = "\n".join(f"  {name:16} {text}" for name, text in says.items())
        click.echo(json.dumps({"variants": says}) if as_json else table)
        return
    if variant is not None and variant not in kind.variants:
        raise UserError(f"is not a variant (known: {', '.join(kind.variants)})", name=variant)
    if (seed is None) == (seeds is None):
        raise UserError("say either --seed N or --seeds A:B")
    began = time.monotonic()
    lines: list[str] = []
    if seed is not None:
        verdict, lines = kind.story(variant, seed)
        verdicts = [verdict]
    else:
        assert seeds is not None
        verdicts = _many(kind, variant, seeds, jobs or len(os.sched_getaffinity(0)), keep_going)
    _tell(kind, verdicts, lines, time.monotonic() - began, as_json)
    sys.exit(1 if any(v.violations for v in verdicts) else 0)


def _many(
    kind: Kind, variant: str | None, seeds: range, jobs: int, keep_going: bool
) -> list[Verdict]:
    found: list[Verdict] = []
    shown = sys.stderr.isatty()
    runs = search(partial(kind.judge, variant), seeds, jobs)
    for verdict in track(runs, "seeds", total=len(seeds), disable=not shown, transient=True):
        found.append(verdict)
        if verdict.violations and not keep_going:
            break
    return found


def _tell(
    kind: Kind, verdicts: list[Verdict], lines: list[str], seconds: float, as_json: bool
) -> None:
    violations = [one for verdict in verdicts for one in verdict.violations]
    counts: Counter[str] = sum((v.counts for v in verdicts), Counter())
    if as_json:
        told = [{"seed": v.seed, "checker": v.checker, "story": v.story} for v in violations]
        summary: dict[str, Any] = {"seeds": len(verdicts), "violations": told}
        summary |= {"seconds": round(seconds, 3), "counts": dict(counts), "lines": lines}
        click.echo(json.dumps(summary))
        return
    for line in lines:
        click.echo(line)
    for one in violations:
        click.echo(f"seed {one.seed}: {one.checker}: {one.story}")
    click.echo(
        f"{len(verdicts):,} seeds in {seconds:.1f} s: {kind.summary(counts)},"
        f" {counts['crashes']:,} crashes, {len(violations)} promises broken"
    )
