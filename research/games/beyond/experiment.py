"""The experiment `games-beyond`: questions that the paper leaves open."""

from __future__ import annotations

from functools import partial

from research.claims import Progress, Result
from research.games.beyond.beside_rivals import (
    measure_queued,
    queue_table,
    rival_claims,
    rival_table,
)
from research.games.beyond.close_incentives import close_table, measure_close
from research.games.beyond.lost_messages import lossy_claims, lossy_table, measure_lossy
from research.games.beyond.random_graphs import Size, kinds, measure_one, size_claims, size_table
from research.games.beyond.shared_nodes import measure_shared, shared_claims, shared_table
from research.games.compare import THRESHOLDS, beside
from research.games.runs import DEVIATIONS, many
from research.games.workloads import STEPS

SIZES = (5, 20, 100, 300, 1_000)
QUICK_SIZES = (5, 20, 100)
GAMES = 20
QUICK_GAMES = 5
PRICES = (1.0, 10.0)
"""The factors on the core prices of table III."""
CLOSE = (0.1, 0.5, 0.9, 0.99, 0.999, 1.0)
"""The step sizes of incentives, as parts of a core's price."""
QUEUED = (
    "cooperative, estimated",
    "selfish, estimated",
    "true rates (DS2)",
    "target 0.7 (Flink)",
    "static, peak",
    "static, mean",
)


class GamesBeyond:
    """Questions that the paper leaves open."""

    name = "games-beyond"
    description = "Random graphs, lost messages, unequal prices, shared nodes, and rivals."
    reproduces = "nothing in the paper"
    duration = "1 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run everything; with `quick` on fewer and smaller graphs, and one repetition of each
        load.
        """
        games = range(QUICK_GAMES if quick else GAMES)
        sizes = [
            Size(what, tuple(many(partial(measure_one, size, spread, free), games, progress, what)))
            for what, size, spread, free in kinds(QUICK_SIZES if quick else SIZES)
        ]
        lossy = many(measure_lossy, games, progress, "5 % lost")
        shared = many(measure_shared, games, progress, "shared nodes")
        close = [measure_close(increment) for increment in CLOSE]
        rivals = {}
        for factor in PRICES:
            progress(f"rivals, cores at {factor:g} times the price")
            rivals[factor] = beside(range(1 if quick else 5), factor)
        steps = STEPS // 10 if quick else STEPS
        queued = many(partial(measure_queued, steps), QUEUED, progress, "rivals task by task")
        return Result(
            (
                *size_claims(sizes),
                *lossy_claims(lossy),
                *shared_claims(shared),
                *rival_claims(rivals),
            ),
            (
                size_table(sizes),
                lossy_table(lossy),
                shared_table(shared),
                close_table(close),
                *(rival_table(factor, found) for factor, found in rivals.items()),
                queue_table(queued),
            ),
            (
                DEVIATIONS[0],
                "Prices and times of random graphs are like those of table III. Tasks come at 0.3 to 1.7"
                " times the pace of the best equilibrium. With limits the slowest of many modules is"
                " slow whatever anybody pays, and the price of stability is next to 1.",
                "Rivals decide by the same measurements, with the same averages where they take any."
                f" Threshold scaling has the best of {len(THRESHOLDS)} settings for these loads.",
                "With the prices of table III keeping up with what comes is best, and DS2, which knows no"
                " prices, decides the same as modules that cooperate but where somebody is at its limit:"
                " there it gives the others cores that change nothing.",
            ),
        )


EXPERIMENT = GamesBeyond()
