"""`australis scenario`: the same failures in the simulated world and in the real one."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from australis.cli.interrupts import terminated_like_interrupted
from australis.cli.kinds import FileKind, expect
from australis.cli.step_line import StepLine

if TYPE_CHECKING:
    from australis.deployment.cluster import Engine
    from australis.scenarios.model import Scenario
    from australis.scenarios.verdict import Facts, Verdict

World = Literal["sim", "live"]
WORLDS: tuple[World, ...] = ("sim", "live")


@click.group()
def scenario() -> None:
    """Let a cluster fail as a file says, and look at what its client sees.

    A scenario file names a diagram, its nodes, what fails when, and what is expected all the
    same; examples/scenarios has some.

    \b
    Example:
      australis scenario run examples/scenarios/replica_killed.yaml
    """


@scenario.command()
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--world",
    type=click.Choice([*WORLDS, "both"]),
    default="both",
    show_default=True,
    help="Simulated (well under a second), live with real processes (their time), or both.",
)
@click.option(
    "--engine",
    type=click.Choice(["reference", "spark"]),
    default="reference",
    show_default=True,
    help="What live replicas compute with; the simulated ones have the reference engine.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def run(files: tuple[Path, ...], world: str, engine: Engine, as_json: bool) -> None:
    """Run scenarios: each as expected, and the same in both worlds?

    The simulated world checks the promises of the protocol too. The live one starts every node
    as a process of this machine, on ports that are free; where something is not as expected,
    the logs of the nodes are kept.

    \b
    Examples:
      australis scenario run examples/scenarios/disk_lost.yaml
      australis scenario run --world sim examples/scenarios/*.yaml
      australis scenario run --world live --engine spark examples/scenarios/source_cut_long.yaml

    Exit codes: 0 all as expected, 1 not so, or the worlds differ, 2 wrong input.
    """
    from australis.scenarios.scenario_file import load

    for file in files:
        expect(file, FileKind.SCENARIO)
    scenarios = [load(file) for file in files]
    worlds = WORLDS if world == "both" else tuple(w for w in WORLDS if w == world)
    say = StepLine(quiet=as_json)
    results = []
    with terminated_like_interrupted():
        for one in scenarios:
            verdicts = [_run(one, w, engine, say) for w in worlds]
            say.end()
            results.append(_Result.of(one, verdicts))
            if not as_json:
                _show(results[-1])
    ok = all(result.ok for result in results)
    if as_json:
        click.echo(json.dumps({"ok": ok, "scenarios": [r.as_json() for r in results]}))
    else:
        _show_sum(results, worlds)
    sys.exit(0 if ok else 1)


def _run(one: Scenario, world: World, engine: Engine, say: StepLine) -> Verdict:
    from australis.scenarios import real, simulated

    say(f"{one.name}, {world}")
    if world == "sim":
        return simulated.run(one)
    began = time.monotonic()

    def doing(what: str) -> None:
        say(f"{one.name}, live, {time.monotonic() - began:.0f} s: {what}")

    return real.run(one, engine, doing)


@dataclass(frozen=True)
class _Result:
    """The outcome of one scenario in all worlds in which it ran."""

    file: str
    scenario: str
    verdicts: Sequence[Verdict]
    differences: Sequence[str]

    @classmethod
    def of(cls, one: Scenario, verdicts: Sequence[Verdict]) -> _Result:
        from australis.scenarios.verdict import differences

        return cls(one.file, one.name, verdicts, differences(one, verdicts))

    @property
    def ok(self) -> bool:
        """Whether all expectations are met, and all worlds agree."""
        return all(verdict.ok for verdict in self.verdicts) and not self.differences

    def as_json(self) -> dict[str, Any]:
        """The entry in `scenarios`."""
        return {
            "file": self.file,
            "scenario": self.scenario,
            "ok": self.ok,
            "verdicts": {verdict.world: verdict.as_json() for verdict in self.verdicts},
            "differences": list(self.differences),
        }


def _show(result: _Result) -> None:
    for verdict in result.verdicts:
        words = ", ".join(f"{what} {word}" for what, word in verdict.words.items())
        click.echo(f"{verdict.scenario:22} {verdict.world:5} ", nl=False)
        click.secho("ok    " if verdict.ok else "FAILS ", fg=_colour(verdict.ok), nl=False)
        click.echo(f"{words}; {_numbers(verdict.facts)}")
        for miss in verdict.misses:
            click.echo(f"  {miss}")
        for line in verdict.story:
            click.echo(f"  {line}")
        if verdict.logs:
            click.echo(f"  the logs of its nodes are in {verdict.logs}")
    for difference in result.differences:
        click.echo(f"  the worlds differ: {difference}")


def _numbers(facts: Facts) -> str:
    settled = "never settled" if facts.settled_s is None else f"settled in {facts.settled_s:.1f} s"
    return (
        f"{facts.got:,} of {facts.expected:,} tuples, {facts.tentative:,} tentative,"
        f" silent for {facts.silence_s:.1f} s, {settled}"
    )


def _show_sum(results: Sequence[_Result], worlds: Sequence[World]) -> None:
    good = sum(result.ok for result in results)
    where = " and the same in both worlds" if len(worlds) > 1 else f" in {worlds[0]}"
    said = f"{good} of {len(results)} scenarios as expected{where}"
    click.secho(said, fg=_colour(good == len(results)), bold=True)


def _colour(ok: bool) -> str:
    return "green" if ok else "red"
