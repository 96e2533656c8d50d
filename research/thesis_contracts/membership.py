"""Participants that join, leave and fail while load moves under contracts.

All movements are for a limited time, so moved tasks can return: a participant that leaves ends its
movements when their time is over, and the failure of a participant is noticed by its partners after
a while. Prices are fixed: within a range, a seller that was paid more for later tasks returns the
earlier ones when their time is over, and load oscillates.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import numpy as np

from australis.kernel.durations import SECOND
from australis.protocols.contracts.terms import Contract
from australis.sim.contracts.federation import Federation
from australis.sim.network import Link, Network
from research.claims import Claim, Progress, Result, Table, own_claim
from research.predicates import at_least, at_most, exactly
from research.thesis_contracts.arrays.instance import PERIOD_US
from research.thesis_contracts.arrays.machines import UNIT, federation_of, name_of
from research.thesis_contracts.arrays.variants import CAPACITY, Configuration, Variant

SIZE = 200
CONTRACTS = 6
LEVEL = 1.25
"""The system is overloaded, and stays so after others have joined."""
CHANGE = 0.1
"""The part of the participants that joins, leaves or fails."""
CALM_S = 60
NOTICED_US = SECOND
LOSS = 0.01
LEAVES_WITHIN_S = 10.0
NEAR = 0.01


@dataclass(frozen=True)
class Moment:
    """The state at the end of a phase."""

    phase: str
    participants: int
    excess: float
    """The part of the tasks that is above their participants' capacity."""
    unused: float
    """The part of the capacity that is not used."""
    lost: int
    """The tasks of present participants that ran nowhere, now and a second ago."""
    twice: int
    """The tasks that ran at two places, now and a second ago; a task that moves does so for a
    moment.
    """

    @property
    def misplaced(self) -> float:
        """The distance from an acceptable allocation."""
        return min(self.excess, self.unused)


class ContractsMembership:
    """A tenth of the participants joins, then a tenth leaves, then a tenth fails for good."""

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
    """The time until the last leaving participant is gone."""
    began = one.world.now
    for name in leavers:
        one.leave(name)
    while not all(one.gone(name) for name in leavers):
        one.world.run(one.world.now + PERIOD_US // 10)
    return (one.world.now - began) / SECOND


def _runs(one: Federation) -> Counter[str]:
    """The number of places at which each task of a present participant runs."""
    machines = one.machines
    runs = Counter(task for m in machines.values() for task in m.holdings.tasks)
    return Counter({task.name: runs[task.name] for name in machines for task in one.tasks[name]})


def _overloaded(one: Federation) -> list[str]:
    """The overloaded participants, which gain from another partner."""
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
        own_claim("Whoever comes is used (part of its capacity)", used, at_least(0.95)),
        own_claim(
            "The last of those who leave is gone after (s)",
            took_s,
            at_most(LEAVES_WITHIN_S),
        ),
        *(
            own_claim(
                f"{m.phase}: tasks of those present that nobody runs, or two do",
                m.lost + m.twice,
                exactly(0),
            )
            for m in moments
        ),
        *(
            own_claim(
                f"{m.phase}: misplaced more than at first (the smaller of excess and unused, part)",
                m.misplaced - moments[0].misplaced,
                at_most(NEAR),
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
