"""Contracts with messages that are lost and repeated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import numpy as np

from australis.sim.network import Link, Network
from research.claims import Claim, Table, own_claim
from research.predicates import at_most, exactly
from research.thesis_contracts.arrays.instance import (
    PERIOD_US,
    Instance,
)
from research.thesis_contracts.arrays.machines import federation_of
from research.thesis_contracts.arrays.variants import Configuration, Variant
from research.thesis_contracts.beyond.common import LEVEL, NEAR, PAIR_CONTRACTS


def _small(number: int, size: int) -> Instance:
    return Configuration(Variant.UNIFORM_RANGE, LEVEL, PAIR_CONTRACTS, number, size).instance()


@dataclass(frozen=True)
class Final:
    """The final state of a run with messages."""

    excess: int
    lost: int
    """Tasks that run at no participant."""
    twice: int
    """Tasks that run at both ends of a movement whose receipt is under way."""


def at_end(instance: Instance, loss: float, seed: int, seconds: int) -> Final:
    link = Link(latency_us=1_000, jitter_us=1_000, loss=loss, duplicate=loss)
    federation = federation_of(instance, Network(Random(seed), link))
    federation.world.run(seconds * PERIOD_US)
    runs = Counter(task for m in federation.machines.values() for task in m.holdings.tasks)
    load = federation.loads
    return Final(
        int(np.maximum(0, load - instance.capacity).sum()),
        int(instance.load.sum()) - len(runs),
        sum(count - 1 for count in runs.values()),
    )


def with_loss(loss: float, size: int, runs: int, seconds: int) -> tuple[float, Final]:
    """The part of the load above capacity, and all final states."""
    instances = [_small(number, size) for number in range(runs)]
    found = [at_end(instance, loss, number, seconds) for number, instance in enumerate(instances)]
    total = sum(int(instance.load.sum()) for instance in instances)
    excess = sum(one.excess for one in found)
    final = Final(excess, sum(one.lost for one in found), sum(one.twice for one in found))
    return excess / total, final


def loss_claims(lost: dict[float, tuple[float, Final]]) -> list[Claim]:
    nowhere = sum(final.lost for _, final in lost.values())
    return [
        own_claim("Tasks that nobody runs, whatever is lost", nowhere, exactly(0)),
        *(
            own_claim(
                f"{loss:.0%} of the messages lost: above capacity more than without"
                " (part of the load)",
                excess - lost[0.0][0],
                at_most(NEAR),
            )
            for loss, (excess, _) in lost.items()
            if loss
        ),
    ]


def loss_table(lost: dict[float, tuple[float, Final]]) -> Table:
    rows = tuple(
        (f"{loss:.0%}", f"{excess:.3%}", final.twice) for loss, (excess, final) in lost.items()
    )
    columns = (
        "messages lost",
        "tasks above capacity",
        "tasks that run twice, waiting for a receipt",
    )
    return Table("Lost and repeated messages, range of five tasks", columns, rows)
