"""The choice of tasks to offer and to take, and of prices (figures 6-4 and 6-5, section 6.6.2).

Each choice compares the cost of a task here with the price paid for it, over the time d for which
it would move (expressions 6.6 and 6.7). A movement has to be undone later, so the buyer counts the
cost of moving twice (6.4). A margin on both sides keeps load from oscillating when measured loads
are inexact (7.2.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from australis.kernel.durations import SECOND
from australis.protocols.contracts.costs import NOTHING, Costs, Load
from australis.protocols.contracts.terms import Contract, Task

STEADY = (1.0,)
"""The outlook of a load that stays constant."""


class Valuation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A participant's valuation of tasks."""

    costs: Costs
    outlook: tuple[float, ...] = STEADY
    """The expected load at moments evenly spread over d, each as a multiple of the load now."""
    margin: float = 0.0
    """The fraction by which a movement must improve on the present state."""
    moving_per_mb: float = 0.0
    """The cost of copying one megabyte of a task's state, in price times units times seconds."""

    def marginal(self, task: Load, load: Load) -> float:
        """The expected marginal cost of a task on top of a load, averaged over d."""
        total = sum(self.costs.marginal(task * x, load * x) for x in self.outlook)
        return total / len(self.outlook)

    def expected(self, task: Load) -> Load:
        """The task's own load, averaged over d."""
        return task * (sum(self.outlook) / len(self.outlook))

    def moving(self, task: Task, contract: Contract) -> float:
        """The cost of moving a task there and back, per second of d."""
        return 2 * task.state_mb * self.moving_per_mb / (contract.duration_us / SECOND)


def offerset(
    value: Valuation,
    load: Load,
    tasks: Iterable[Task],
    contract: Contract,
    price: float,
) -> list[Task]:
    """The tasks that cost more here than the partner would be paid for them (figure 6-4)."""
    offered: list[Task] = []
    kept: set[tuple[Load, float]] = set()
    for task in tasks:
        # The rest costs less with every task that goes: a task equal to one that is cheap
        # enough to stay is cheap enough too.
        if (task.load, task.state_mb) in kept or not contract.allows(task):
            continue
        rest = load - task.load
        paid = contract.units(value.expected(task.load)) * price * (1 + value.margin)
        if value.marginal(task.load, rest) > paid + value.moving(task, contract):
            offered.append(task)
            load = rest
        else:
            kept.add((task.load, task.state_mb))
    return offered


def acceptset(
    value: Valuation,
    load: Load,
    tasks: Iterable[Task],
    contract: Contract,
    price: float,
) -> list[Task]:
    """The tasks that cost less here than is paid for them (figure 6-5).

    `load` is that of all tasks that run here or for which room is kept.
    """
    accepted: list[Task] = []
    refused: set[Load] = set()
    for task in tasks:
        if task.load in refused or not contract.allows(task):
            continue
        paid = contract.units(value.expected(task.load)) * price * (1 - value.margin)
        if value.marginal(task.load, load) < paid:
            accepted.append(task)
            load = load + task.load
        else:
            refused.add(task.load)
    return accepted


def counter_offer(
    value: Valuation,
    load: Load,
    tasks: Sequence[Task],
    contract: Contract,
    rivals: float | None = None,
    above: float = 0.0,
) -> tuple[float, list[Task]] | None:
    """The price within the range at which a seller would take one task, and the tasks; or None.

    The price is the cost of the task, or more where the seller expects `rivals` sellers, itself
    included, to answer with counter-offers (beta C, expression 6.18), or asks for `above` more than
    the cost. At the highest price the seller takes all tasks that are worthwhile.
    """
    for task in tasks:
        if not contract.allows(task):
            continue
        units = contract.units(value.expected(task.load)) * (1 - value.margin)
        if units <= 0:
            continue  # no resource it uses is paid for
        worth = value.marginal(task.load, load) / units
        if worth >= contract.high:
            continue
        asked = worth if rivals is None else marked_up(worth, contract, rivals)
        price = max(contract.low, asked + above)
        if price < contract.high:
            return price, [task]
        return contract.high, acceptset(value, load, tasks, contract, contract.high)
    return None


def marked_up(worth: float, contract: Contract, rivals: float) -> float:
    """The counter-offer from which no seller gains by deviating (expression 6.18).

    >>> c = Contract(buyer="a", seller="b", low=0.0, high=1.0)
    >>> marked_up(0.5, c, 5), marked_up(0.5, c, 1)
    (0.6, 1.0)
    """
    discount = (max(rivals, 1.0) - 1.0) / max(rivals, 1.0)
    return contract.high - discount * (contract.high - worth)


def together(tasks: Iterable[Task], there: Iterable[Task] = ()) -> list[Task]:
    """Tasks in the order of an offer: first those whose queries run at the partner already, then
    the queries with the fewest tasks here, each as a whole (6.7).

    >>> t = [Task(n, Load(), "a", query=n[0]) for n in ("p1", "p2", "q1", "r1", "p3")]
    >>> [one.name for one in together(t, there=[Task("q2", Load(), "a", query="q")])]
    ['q1', 'r1', 'p1', 'p2', 'p3']
    """
    tasks = list(tasks)
    if not any(task.query for task in tasks):
        return tasks
    sizes: dict[str, int] = {}
    for task in tasks:
        sizes[task.query] = sizes.get(task.query, 0) + 1
    near = {task.query for task in there if task.query}

    def order(task: Task) -> tuple[bool, int, str]:
        alone = 1 if not task.query else sizes[task.query]
        return task.query not in near, alone, task.query

    return sorted(tasks, key=order)


def load_of(tasks: Iterable[Task]) -> Load:
    """The total load of some tasks."""
    return sum((task.load for task in tasks), NOTHING)
