"""`australis chaos`: rounds of random faults against real clusters."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from australis.cli.interrupts import terminated_like_interrupted
from australis.cli.step_line import StepLine

if TYPE_CHECKING:
    from australis.deployment.cluster import Engine
    from australis.scenarios.rounds import Round, Rounds


@click.command()
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many there are.",
)
@click.option(
    "--engine",
    type=click.Choice(["reference", "spark"]),
    help="What replicas compute with.  [default: reference]",
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the first round.  [default: 0]")
@click.option(
    "--resume",
    "directory",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the state here; rounds that are finished there are not repeated."
    "  [default: a new directory below .australis/chaos]",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="How many rounds run at once.  [default: 1 on Spark, else two for each core, at most 4]",
)
@click.option("--keep-going", is_flag=True, help="Go on after a round that broke a promise.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def chaos(
    rounds: int,
    engine: Engine | None,
    seed: int | None,
    directory: Path | None,
    jobs: int | None,
    keep_going: bool,
    as_json: bool,
) -> None:
    """Let random faults happen to real clusters, and check what they promise.

    Each round draws a small diagram (a chain of two replicated fragments, a join, a count window,
    several outputs, two applications), the nodes of its replicas and sources, and faults: kill -9 of
    nodes, of a whole fragment, of all; pauses; links that are cut, one way too, that flap, that are
    slow; disks that are lost, all of a fragment too where its state can be rebuilt. Some have
    policies, promises for a result, a hedged client, bounded logs, or a clock that is seconds off; in
    some a source has a standby, which takes over when its node is lost. Nodes are processes of this machine. A
    round takes about half a minute, on Spark two; several run at once, each on ports of its own.

    \b
    Judged is, by the checkers of `australis sim dpc` over what was recorded,
      what clients got of all results: every stable tuple once, in order, equal to a run without
        faults, but for what they are told is gone where all replicas lost their state;
      corrections: complete, announced by UNDO and REC_DONE;
      tentative tuples: they follow from what was there, and say what is missing in them;
      the logs on all disks, and by the traces of all nodes their buffers, subscriptions,
        truncation, turns and bounds (in buckets); that no state is given up, and no log said to
        differ, without reason;
      delay: no longer than max_delay and a second while a path works;
      masking: nothing tentative for a failure shorter than max_delay;
      progress: something stable at the latest when a failure is over and settled.

    Judged in simulation only are the entry times that clients know, bounds of logs in bytes,
    sources with times of their own, rows that cannot be asked for again, and that what really differs
    is announced.
    Delay, masking and progress are not judged once a log was full or all replicas of a fragment have
    lost their disks. Each round says how much it judged; what it could not judge is named in the
    end.

    A round is a scenario file: run the one that failed again with `australis scenario run`, live
    and, unless a source has a standby, in the simulated world.

    \b
    Examples:
      australis chaos --rounds 200
      australis chaos --rounds 30 --engine spark --keep-going
      australis chaos --rounds 200 --resume /tmp/chaos     goes on where it was
      australis scenario run /tmp/chaos/scenarios/0007.yaml

    Exit codes: 0 all promises kept, 1 a promise was broken, 2 wrong input.
    """
    from australis.scenarios.rounds import Rounds

    if directory is None:
        directory = Path(".australis") / "chaos" / f"{time.strftime('%Y%m%d-%H%M%S')}"
    opened = Rounds.open(directory, engine, seed)
    jobs = jobs or _jobs(opened.settings.engine)
    interrupted = False
    try:
        with terminated_like_interrupted():
            _run(opened, rounds, jobs, keep_going=keep_going, quiet=as_json)
    except KeyboardInterrupt:
        interrupted = True
    finished = [one for number, one in sorted(opened.finished().items()) if number < rounds]
    if as_json:
        click.echo(json.dumps(_as_json(opened, finished, interrupted)))
    else:
        _show(finished)
    if len(finished) < rounds:
        again = f"australis chaos --rounds {rounds} --resume {directory}"
        done = f"{len(finished)} of {rounds} rounds are finished"
        click.echo(f"australis: {done}; go on with `{again}`", err=True)
    if interrupted:
        sys.exit(130)
    sys.exit(0 if all(one.ok for one in finished) else 1)


def _jobs(engine: Engine) -> int:
    """The number of rounds at once if none is given: nodes mostly wait, but a Spark fills a core."""
    return 1 if engine == "spark" else min(4, 2 * len(os.sched_getaffinity(0)))


def _run(opened: Rounds, rounds: int, jobs: int, *, keep_going: bool, quiet: bool) -> None:
    line = StepLine(quiet=quiet)
    began = time.monotonic()

    def say(number: int, said: str) -> None:
        line(f"round {number + 1} of {rounds}, {time.monotonic() - began:.0f} s: {said}")

    if any(not one.ok for one in opened.finished().values()) and not keep_going:
        return
    with closing(opened.run(rounds, say, jobs)) as results:
        for one in results:
            line.end()
            if not quiet:
                _show_round(one)
            if not one.ok and not keep_going:
                return


def _show_round(one: Round) -> None:
    facts = one.facts
    settled = "never settled" if facts.settled_s is None else f"settled in {facts.settled_s:.1f} s"
    click.echo(f"round {one.round:<4} seed {one.seed:<5} {one.scenario:24} ", nl=False)
    click.secho("ok    " if one.ok else "FAILS ", fg="green" if one.ok else "red", nl=False)
    judged = one.facts.judged
    seen = (
        f", {judged.delays:,} delays and {judged.compared:,} tentative buckets judged"
        if judged
        else ""
    )
    click.echo(
        f"{len(one.faults)} faults, {facts.got:,} of {facts.expected:,} tuples,"
        f" {facts.tentative:,} tentative{seen}, {settled}, {one.took_s:.0f} s, load {one.load:g}"
    )
    if one.unjudged:
        click.secho(f"  judged {', '.join(one.unjudged)}", fg="yellow")
    for miss in one.misses:
        click.echo(f"  {miss}")


def _show(finished: list[Round]) -> None:
    """Print the story of the first failure, and the figures of all rounds."""
    from australis.scenarios.rounds import summary

    failed = next((one for one in finished if not one.ok), None)
    if failed is not None:
        click.secho(f"the story of round {failed.round} (seed {failed.seed})", bold=True)
        for text in (*failed.faults, *failed.story):
            click.echo(f"  {text}")
        for miss in failed.misses:
            click.secho(f"  {miss}", fg="red")
        click.echo(f"  again: australis scenario run {failed.file}; files: {failed.logs}")
    said = summary(finished)
    judged = said["judged"]
    figures = (
        f"{said['rounds']} rounds, {said['faults']} faults, {said['tuples']:,} tuples,"
        f" {said['lost']} lost, {said['duplicated']} duplicated; {said['tentative']} rounds with"
        f" tentative results; judged are {judged['delays']:,} delays"
        f" ({judged['in_failures']:,} during faults), masking for"
        f" {judged['masked_s']:,.0f} s, {judged['compared']:,} tentative buckets by content,"
        f" {judged['precise']:,} by what they say is missing; settled after"
        f" {said['settled_s']['median']} s (median), {said['settled_s']['longest']} s (longest);"
        f" restarted nodes stable within {said['recovered_s']} s"
    )
    click.echo(figures)
    for number, what in said["unjudged"].items():
        click.secho(f"round {number} judged {', '.join(what)}", fg="yellow")
    broken = len(said["broken"])
    verdict = (
        f"{broken} of {said['rounds']} rounds broke a promise" if broken else "all promises kept"
    )
    click.secho(verdict, fg="red" if broken else "green", bold=True)


def _as_json(opened: Rounds, finished: list[Round], interrupted: bool) -> dict[str, Any]:
    from msgspec import to_builtins

    from australis.scenarios.rounds import summary

    settings = {"engine": opened.settings.engine, "seed": opened.settings.seed}
    return {
        "ok": all(one.ok for one in finished),
        "interrupted": interrupted,
        "directory": str(opened.directory),
        **settings,
        **summary(finished),
        "all": [to_builtins(one) for one in finished],
    }
