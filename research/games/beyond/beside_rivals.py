"""The game beside threshold scaling, DS2, Flink's autoscaler and fixed numbers of cores."""

from __future__ import annotations

from research.claims import Claim, Table, own_claim
from research.games.compare import OURS, RIVALS, Beside
from research.games.trial import BUFFER, Worked, repetition, with_queues
from research.games.workloads import RANDOM_WALK
from research.predicates import at_most


def rival_claims(found: dict[float, list[Beside]]) -> list[Claim]:
    claims = []
    for factor, ways in found.items():
        cost = {way.name: way.cost for way in ways}
        ours = cost["cooperative, estimated"]
        others = {
            name: value
            for name, value in cost.items()
            if not name.startswith(("cooperative", "selfish", "integer"))
        }
        name, least = min(others.items(), key=lambda item: item[1])
        claims.append(
            own_claim(
                f"Cost with incentives, times the cheapest rival's ({name}), cores at {factor:g} times"
                " the price",
                ours / least,
                at_most(1),
            )
        )
    return claims


def rival_table(factor: float, ways: list[Beside]) -> Table:
    columns = ("strategy", "cost, times the optimum", "tasks lost", "mean cores", "changes")
    rows = tuple(
        (way.name, round(way.cost, 4), f"{way.lost:.1%}", round(way.cores, 1), round(way.changes))
        for way in ways
    )
    return Table(
        f"All three loads, cores at {factor:g} times the price of table III", columns, rows
    )


def measure_queued(steps: int, name: str) -> tuple[str, Worked]:
    """Run one strategy on the random walk, by measurements of queues."""
    load = repetition(RANDOM_WALK, 0)
    make, _ = (OURS | RIVALS)[name]
    return name, with_queues(make, load[:: len(load) // steps], 0)


def queue_table(found: list[tuple[str, Worked]]) -> Table:
    ours = found[0][1]
    rows = tuple(
        (
            name,
            round(worked.cost, 1),
            round(ours.cost / worked.cost, 4),
            worked.completed,
        )
        for name, worked in found
    )
    columns = ("strategy", "cost", f"{found[0][0]}, part of that", "completed")
    return Table(f"rwalk task by task, queues of {BUFFER}", columns, rows)
