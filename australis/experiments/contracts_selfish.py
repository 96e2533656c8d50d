"""What participants gain that do otherwise than they should (thesis 6.8, theorem 1).

Some of them refuse what would pay, in the hope of something better; take what does not, in the
hope of passing it on; or pretend to be more or less loaded than they are. All begin with the same
loads as when everybody is honest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np

from australis.experiments.claims import Claim, Progress, Result, Source, Table
from australis.kernel.durations import SECOND
from australis.protocols.contracts.choices import Valuation
from australis.protocols.contracts.costs import Costs, Curve, Levels
from australis.protocols.contracts.messages import Answer, Offer, Verdict
from australis.protocols.contracts.participant import ParticipantMachine
from australis.protocols.contracts.selling import Selling
from australis.sim.contracts.federation import Federation, federation_of, name_of
from australis.sim.contracts.instance import Instance
from australis.sim.contracts.variants import Configuration, Variant
from australis.sim.network import Link, Network

SIZE = 60
CONTRACTS = 3
LEVEL = 0.75
DEVIATORS = 6
SECONDS = 60
MOST_GAIN = 0.02


@dataclass(frozen=True)
class Scaled:
    """A curve as somebody tells it who pretends to pay more, or less."""

    curve: Curve
    times: float

    def cost(self, used: float) -> float:
        """So many times the truth."""
        return self.curve.cost(used) * self.times


class LateSelling(Selling):
    """Refuses the first offer of a round, in the hope of a better one."""

    def _answer(self, buyer: str, offer: Offer, now: int) -> Answer:
        turned_down: set[str] = self.__dict__.setdefault("_turned_down", set())
        if buyer not in turned_down:
            turned_down.add(buyer)
            return Answer(offer.number, Verdict.REJECTED)
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


DEVIATIONS: dict[str, Make] = {
    "accepts late": _late,
    "takes too much (pretends costs to be 5% lower)": _pretending(0.95),
    "pretends to be busier (costs 2% higher)": _pretending(1.02),
    "pretends to be much busier (costs 10% higher)": _pretending(1.1),
}


class ContractsSelfish:
    """Utility with and without deviating, for the same participants."""

    name = "contracts-selfish"
    description = "What participants gain by accepting late, taking too much, or false loads."
    reproduces = "nothing: it tries theorem 1 of the thesis (6.8)"
    duration = "2 min, quick 20 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Each deviation in some instances."""
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
            tuple(_claim(deviation, gain) for deviation, gain in means.items()),
            (_table(means),),
            _NOTES,
        )


class _Mixed(Federation):
    """Some participants are not what they should be."""

    deviators: dict[str, Make]

    def make(self, name: str) -> ParticipantMachine:
        """As it should be, or otherwise."""
        found = self.deviators.get(name)
        return super().make(name) if found is None else found(self, name)


def _utilities(instance: Instance, deviators: dict[str, Make], names: list[str]) -> list[float]:
    """What participants earn in a second, less what their load really costs them."""
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


def _claim(deviation: str, gain: float) -> Claim:
    return Claim(
        f"Whoever {deviation}: gain, as a part of what its load costs",
        round(gain, 4),
        gain <= MOST_GAIN,
        "none",
        Source.PROSE,
        f"≤ {MOST_GAIN}",
    )


def _table(means: dict[str, float]) -> Table:
    rows = tuple((deviation, f"{gain:+.2%}") for deviation, gain in means.items())
    return Table("What deviating brings, on average", ("whoever", "gains"), rows)


_NOTES = (
    "Six of sixty participants deviate together; the others are honest. A gain counts after sixty"
    " seconds, as what is earned in a second less what the load really costs.",
)
EXPERIMENT = ContractsSelfish()
