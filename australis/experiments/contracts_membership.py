"""Participants that come, leave and fail while contracts are at work.

All movements are for a limited time, so what runs elsewhere can come back: whoever leaves ends
its movements as their time is over, whoever fails is noticed by its partners after a while.
Prices are fixed: within a range, a seller that has been paid more for later tasks gives the
earlier ones back when their time is over, and load goes to and fro.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import numpy as np

from australis.experiments.claims import Claim, Progress, Result, Table, own_claim
from australis.kernel.durations import SECOND
from australis.protocols.contracts.terms import Contract
from australis.sim.contracts.federation import UNIT, Federation, federation_of, name_of
from australis.sim.contracts.instance import PERIOD_US
from australis.sim.contracts.variants import CAPACITY, Configuration, Variant
from australis.sim.network import Link, Network

SIZE = 200
CONTRACTS = 6
LEVEL = 1.25
"""There is too much to do, and still is when others have come."""
CHANGE = 0.1
"""The part of the participants that comes, leaves, fails."""
CALM_S = 60
NOTICED_US = SECOND
LOSS = 0.01
LEAVES_WITHIN_S = 10.0
NEAR = 0.01


@dataclass(frozen=True)
class Moment:
    """How things are at the end of a phase."""

    phase: str
    participants: int
    excess: float
    """The part of the tasks that is above the capacity of whoever has it."""
    unused: float
    """The part of the capacity that is not used."""
    lost: int
    """Tasks of those present that ran nowhere, now and a second ago,"""
    twice: int
    """and that ran at two places both times. While a task moves, two run it for a moment."""

    @property
    def misplaced(self) -> float:
        """How far from acceptable it is."""
        return min(self.excess, self.unused)


class ContractsMembership:
    """A tenth of the participants comes, then a tenth leaves, then a tenth fails for good."""

    name = "contracts-membership"
    description = "Participants that come, leave and fail: nobody's tasks are lost or run twice."
    reproduces = "nothing: it goes beyond the papers"
    duration = "1 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """With `quick` half as many participants, and half as long."""
        size, calm_s = (SIZE // 2, CALM_S // 2) if quick else (SIZE, CALM_S)
        some = round(size * CHANGE)
        rng = Random(1)
        link = Link(latency_us=1_000, jitter_us=1_000, loss=LOSS, duplicate=LOSS)
        instance = Configuration(Variant.UNIFORM_FIXED, LEVEL, CONTRACTS, 0, size).instance()
        one = federation_of(instance, Network(Random(2), link), permanent=False)
        present = [name_of(n) for n in range(size)]
        moments = []

        def calm(phase: str) -> None:
            progress(phase)
            one.world.run(one.world.now + calm_s * SECOND)
            moments.append(_look(one, phase))

        calm("at first")
        newcomers = [f"new{n}" for n in range(some)]
        for name in newcomers:
            partners = rng.sample(_overloaded(one), CONTRACTS)
            one.join(name, [], one.costs[present[0]], _contracts(name, partners))
        calm(f"{some} came")
        present += newcomers
        used = _used(one, newcomers)
        leavers = rng.sample(present, some)
        took_s = _leave(one, leavers)
        present = [name for name in present if name not in leavers]
        calm(f"{some} left")
        for name in rng.sample(present, some):
            one.fail(name, NOTICED_US)
        calm(f"{some} failed")
        return Result(_claims(moments, used, took_s), (_table(moments),), ())


def _contracts(name: str, partners: list[str]) -> list[Contract]:
    price = float(CAPACITY)
    return [
        Contract(buyer=a, seller=b, low=price, high=price, duration_us=PERIOD_US, unit=UNIT)
        for partner in partners
        for a, b in ((name, partner), (partner, name))
    ]


def _leave(one: Federation, leavers: list[str]) -> float:
    """How long it takes until the last of them is gone."""
    began = one.world.now
    for name in leavers:
        one.leave(name)
    while not all(one.gone(name) for name in leavers):
        one.world.run(one.world.now + PERIOD_US // 10)
    return (one.world.now - began) / SECOND


def _runs(one: Federation) -> Counter[str]:
    """How often each task of somebody present runs."""
    machines = one.machines
    runs = Counter(task for m in machines.values() for task in m.holdings.tasks)
    return Counter({task.name: runs[task.name] for name in machines for task in one.tasks[name]})


def _overloaded(one: Federation) -> list[str]:
    """Whoever has too much to do is glad of another partner."""
    return [n for n, m in one.machines.items() if len(m.holdings.tasks) > CAPACITY]


def _used(one: Federation, names: list[str]) -> float:
    machines = one.machines
    return sum(len(machines[name].holdings.tasks) for name in names) / (CAPACITY * len(names))


def _look(one: Federation, phase: str) -> Moment:
    before = _runs(one)
    one.world.run(one.world.now + SECOND)
    now, load = _runs(one), one.loads
    return Moment(
        phase,
        len(load),
        float(np.maximum(0, load - CAPACITY).sum() / max(1, load.sum())),
        float(np.maximum(0, CAPACITY - load).sum() / (CAPACITY * len(load))),
        lost=sum(now[task] == before[task] == 0 for task in now),
        twice=sum(min(now[task], before[task]) > 1 for task in now),
    )


def _claims(moments: list[Moment], used: float, took_s: float) -> tuple[Claim, ...]:
    return (
        own_claim("Whoever comes is used (part of its capacity)", used, used >= 0.95, "≥ 0.95"),
        own_claim(
            "The last of those who leave is gone after (s)",
            took_s,
            took_s <= LEAVES_WITHIN_S,
            f"≤ {LEAVES_WITHIN_S:g}",
        ),
        *(
            own_claim(
                f"{m.phase}: tasks of those present that nobody runs, or two do",
                m.lost + m.twice,
                m.lost + m.twice == 0,
                "0",
            )
            for m in moments
        ),
        *(
            own_claim(
                f"{m.phase}: misplaced more than at first (the smaller of excess and unused, part)",
                m.misplaced - moments[0].misplaced,
                m.misplaced - moments[0].misplaced <= NEAR,
                f"≤ {NEAR:g}",
            )
            for m in moments[1:]
        ),
    )


def _table(moments: list[Moment]) -> Table:
    columns = ("", "participants", "excess", "unused", "lost", "twice")
    rows = tuple(
        (m.phase, m.participants, f"{m.excess:.2%}", f"{m.unused:.2%}", m.lost, m.twice)
        for m in moments
    )
    return Table(f"{LEVEL:.0%} load, {LOSS:.0%} of the messages lost", columns, rows)


EXPERIMENT = ContractsMembership()
