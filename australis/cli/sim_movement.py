"""`australis sim movement`: components that move while everything fails."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from australis.cli.seeds import Kind, run_seeds, seed_options


@click.command()
@seed_options
def movement(**options: Any) -> None:
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
    from australis.sim.movement.search import VARIANTS, judge, story

    run_seeds(Kind(VARIANTS, judge, story, _summary), **options)


def _summary(counts: Counter[str]) -> str:
    return f"{counts['moved']:,} moves done, {counts['called off']:,} called off"
