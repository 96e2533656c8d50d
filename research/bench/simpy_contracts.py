"""The bounded-price mechanism in the usual style of simpy: one process for each participant.

As in the thesis' simulator (7.1.1) a participant is a process that sleeps, goes through its
contracts, and calls its partners; its state is plain numbers.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from australis.protocols.contracts.buying import extra_steps
from research.thesis_contracts.arrays.instance import PERIOD_US, QUIESCENCE_US, STEP_US, Instance
from research.thesis_contracts.arrays.loads import Loads


class Participant:
    """One participant: its load, its reservation, and its contracts, cheapest first."""

    def __init__(self, load: int, marginal: list[float]) -> None:
        self.load = load
        self.kept = 0
        self.marginal = marginal
        self.contracts: list[tuple[float, float, Participant]] = []

    def accept(self, price: float, offered: int) -> int:
        """The number of offered tasks that it accepts at a price."""
        taken = 0
        while taken < offered and self.marginal[self.load + self.kept + taken] < price:
            taken += 1
        return taken

    def counter(self, high: float) -> float | None:
        """The price that it asks for one task, within the range."""
        worth = self.marginal[self.load + self.kept]
        return worth if worth < high else None

    def worth_moving(self, price: float) -> int:
        """The number of tasks whose marginal cost exceeds a price."""
        count = 0
        while count < self.load and self.marginal[self.load - count - 1] > price:
            count += 1
        return count


def simulate(instance: Instance) -> Loads:
    """Run the simulation; return the final loads."""
    import simpy  # only this comparison needs it

    graph = instance.graph
    rows = [row.tolist() for row in instance.marginal]
    nodes = [
        Participant(int(load), rows[kind])
        for load, kind in zip(instance.load, instance.kind, strict=True)
    ]
    for i, node in enumerate(nodes):
        for e in range(graph.first[i], graph.first[i + 1]):
            partner = nodes[graph.partners[e]]
            node.contracts.append((float(instance.low[e]), float(instance.high[e]), partner))
        node.contracts.sort(key=lambda contract: contract[0])
    environment = simpy.Environment()
    moved = [0]
    for node, wake in zip(nodes, instance.wakes.tolist(), strict=True):
        environment.process(_live(environment, node, wake, moved))
    quiet = QUIESCENCE_US + 2 * STEP_US * int(graph.degrees.max())
    while environment.peek() <= moved[0] + quiet:
        environment.step()
    return np.array([node.load for node in nodes], np.int32)


def _live(
    environment: Any, node: Participant, wake: int, moved: list[int]
) -> Generator[Any, None, None]:
    yield environment.timeout(wake)
    failures = 0
    while True:
        extra = 0
        counters: list[tuple[float, Participant]] = []
        done = False
        for low, high, partner in node.contracts:
            offered = node.worth_moving(low)
            if not offered:
                break
            taken = partner.accept(low, offered)
            if taken:
                _move(environment, node, partner, taken, moved)
                done = True
                break
            asked = partner.counter(high)
            if asked is not None:
                partner.kept += 1
                counters.append((asked, partner))
                yield environment.timeout(STEP_US)
        for _, partner in counters:
            partner.kept -= 1
        if counters and not done:
            price, partner = min(counters, key=lambda counter: counter[0])
            if node.worth_moving(price):
                _move(environment, node, partner, 1, moved)
            else:
                failures += 1
                extra = STEP_US * extra_steps(wake, failures)
        yield environment.timeout(PERIOD_US + extra)


def _move(
    environment: Any, node: Participant, partner: Participant, tasks: int, moved: list[int]
) -> None:
    node.load -= tasks
    partner.load += tasks
    moved[0] = environment.now
