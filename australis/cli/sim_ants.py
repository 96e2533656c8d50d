"""`australis sim ants`: queries that ants place while everything fails."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from australis.cli.seeds import Kind, run_seeds, seed_options


@click.command()
@seed_options
def ants(**options: Any) -> None:
    """Queries that ants place, and place anew, under seeded faults.

    Every seed stands for a network, queries that come, change and go, and faults: crashes of cells,
    cuts, loss of ants. No server may be used beyond its bound, and when everything has healed each
    query must run as its leader says, all of it and once, or not at all.

    \b
    Examples:
      australis sim ants --seed 7                      one run and its story
      australis sim ants --seeds 0:1999                two thousand runs on all cores
      australis sim ants --variant list                ways to do it wrong
      australis sim ants --seeds 0:99 --variant SaysYes

    Exit codes: 0 all promises kept, 1 a promise was broken, 2 wrong input.
    """
    from australis.sim.ants.search import VARIANTS, judge, story

    run_seeds(Kind(VARIANTS, judge, story, _summary), **options)


def _summary(counts: Counter[str]) -> str:
    return f"{counts['placed']:,} queries placed in the end, {counts['moved']:,} moves"
