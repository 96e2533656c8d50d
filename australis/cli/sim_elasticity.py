"""`australis sim elasticity`: agents that choose cores for their modules while everything fails."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from australis.cli.seeds import Kind, run_seeds, seed_options


@click.command("elasticity")
@seed_options
def sim_elasticity(**options: Any) -> None:
    """Agents that choose the cores of their modules, under seeded faults.

    Every seed stands for a flow graph, prices, loads that change, and faults: crashes, pauses and
    cuts, messages that are lost, late or doubled, clocks that differ. Every control step must end
    by its deadline and within the limits of each module; if all hear each other they must choose
    what one would who knows everything, with as many messages as the paper says.

    \b
    Examples:
      australis sim elasticity --seed 7                one run and its story
      australis sim elasticity --seeds 0:1999          two thousand runs on all cores
      australis sim elasticity --variant list          ways to do it wrong
      australis sim elasticity --seeds 0:99 --variant RoundsDown

    Exit codes: 0 all promises kept, 1 a promise was broken, 2 wrong input.
    """
    from australis.sim.elasticity.search import VARIANTS, judge, story

    run_seeds(Kind(VARIANTS, judge, story, _summary), **options)


def _summary(counts: Counter[str]) -> str:
    return (
        f"{counts['steps']:,} control steps, {counts['agreed']:,} of them as one would choose who"
        f" knows everything, {counts['messages']:,} messages, {counts['cuts']:,} cuts"
    )
