"""The gain of participants that deviate from the protocol (thesis 6.8, theorem 1).

They refuse profitable load, in the hope of a better offer; take unprofitable load, in the hope of
passing it on; or pretend to be more or less loaded than they are. All runs begin with the loads of
the honest run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np

from australis.kernel.durations import SECOND
from australis.protocols.contracts.choices import Valuation
from australis.protocols.contracts.costs import Costs, Curve, Levels
from australis.protocols.contracts.messages import Answer, Decision, Offer
from australis.protocols.contracts.participant import ParticipantMachine
from australis.protocols.contracts.selling import Selling
from australis.sim.contracts.federation import Federation
from australis.sim.network import Link, Network
from research.claims import Claim, Progress, Result, Table
from research.predicates import at_most
from research.thesis_contracts.arrays.instance import Instance
from research.thesis_contracts.arrays.machines import federation_of, name_of
from research.thesis_contracts.arrays.variants import Configuration, Variant

SIZE = 60
CONTRACTS = 3
LEVEL = 0.75
DEVIATORS = 6
SECONDS = 60
MOST_GAIN = 0.02


@dataclass(frozen=True)
class Scaled:
    """The cost curve reported by a participant that pretends to have higher or lower costs."""

    curve: Curve
    times: float

    def cost(self, used: float) -> float:
        """The true cost, times a factor."""
        return self.curve.cost(used) * self.times


class LateSelling(Selling):
    """Refuses the first offer of a round, in the hope of a better one."""

    def _answer(self, buyer: str, offer: Offer, now: int) -> Answer:
        turned_down: set[str] = self.__dict__.setdefault("_turned_down", set())
        if buyer not in turned_down:
            turned_down.add(buyer)
            return Answer(offer.number, Decision.REJECTED)
        turned_down.discard(buyer)
        return super()._answer(buyer, offer, now)


class LateParticipant(ParticipantMachine):
    """A participant that accepts late."""

    selling_class = LateSelling


Make = Callable[[Federation, str], ParticipantMachine]


def _pretending(times: float) -> Make:
    def make(federation: Federation, name: str) -> ParticipantMachine:
        value = Valuation(costs=Costs(cpu=Scaled(Levels(), times)))
        return ParticipantMachine(name, federation.contracts[name], value, federation.options)

    return make


def _late(federation: Federation, name: str) -> ParticipantMachine:
    value = Valuation(costs=federation.costs[name])
    return LateParticipant(name, federation.contracts[name], value, federation.options)


BUSIER = "pretends to be busier (costs 2% higher)"
DEVIATIONS: dict[str, Make] = {
    "accepts late": _late,
    "takes too much (pretends costs to be 5% lower)": _pretending(0.95),
    BUSIER: _pretending(1.02),
    "pretends to be much busier (costs 10% higher)": _pretending(1.1),
}


class ContractsSelfish:
    """The utility of the same participants with and without deviating."""

    name = "contracts-selfish"
    description = "What participants gain by accepting late, taking too much, or false loads."
    reproduces = "nothing: it tries theorem 1 of the thesis (6.8)"
    duration = "2 min, quick 20 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run each deviation in some instances."""
        instances = range(1 if quick else 6)
        gains: dict[str, list[float]] = {name: [] for name in DEVIATIONS}
        for number in instances:
            instance = Configuration(
                Variant.UNIFORM_RANGE, LEVEL, CONTRACTS, number, SIZE
            ).instance()
            chosen = np.random.default_rng(number).permutation(SIZE)[:DEVIATORS]
            names = [name_of(int(n)) for n in chosen]
            progress(f"instance {number + 1} of {len(instances)}: everybody honest")
            honest = _utilities(instance, {}, names)
            for deviation, make in DEVIATIONS.items():
                progress(f"instance {number + 1} of {len(instances)}: {deviation}")
                found = _utilities(instance, dict.fromkeys(names, make), names)
                costs = [abs(value) for value in honest]
                gained = [b - a for a, b in zip(honest, found, strict=True)]
                gains[deviation].append(sum(gained) / sum(costs))
        means = {deviation: float(np.mean(found)) for deviation, found in gains.items()}
        return Result(
            tuple(_claim(deviation, gain, quick) for deviation, gain in means.items()),
            (_table(means),),
            _NOTES,
        )


class _Mixed(Federation):
    """A federation in which some participants deviate."""

    deviators: dict[str, Make]

    def make(self, name: str) -> ParticipantMachine:
        """An honest participant, or a deviating one."""
        found = self.deviators.get(name)
        return super().make(name) if found is None else found(self, name)


def _utilities(instance: Instance, deviators: dict[str, Make], names: list[str]) -> list[float]:
    """The utility of participants per second: payments less the true cost of their load."""
    kind = type("Mixed", (_Mixed,), {"deviators": deviators})
    network = Network(Random(1), Link(0, 0))
    federation = federation_of(instance, network, permanent=False, kind=kind)
    federation.world.run(SECONDS * SECOND)
    machines = federation.machines
    return [
        machines[name].holdings.earned_per_s
        - federation.costs[name].cost(machines[name].holdings.load)
        for name in names
    ]


def _claim(deviation: str, gain: float, quick: bool) -> Claim:
    by_chance = deviation == BUSIER and quick
    return Claim(
        f"Whoever {deviation}: gain, as a part of what its load costs",
        gain,
        at_most(MOST_GAIN),
        "none",
        known_miss="so it happens in the single instance of a quick run; the mean of six bears it out"
        if by_chance
        else None,
    )


def _table(means: dict[str, float]) -> Table:
    rows = tuple((deviation, f"{gain:+.2%}") for deviation, gain in means.items())
    return Table("What deviating brings, on average", ("whoever", "gains"), rows)


_NOTES = (
    "Six of sixty participants deviate together; the others are honest. A gain counts after sixty"
    " seconds, as what is earned in a second less what the load really costs.",
)
EXPERIMENT = ContractsSelfish()
