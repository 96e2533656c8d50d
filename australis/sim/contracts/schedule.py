"""Draws from a seed participants, tasks and contracts, their changes, and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.rng import SeedTree
from australis.protocols.contracts.costs import Costs, InFlight, Levels, Load
from australis.protocols.contracts.events import ContractOptions
from australis.protocols.contracts.participant import ParticipantMachine
from australis.protocols.contracts.terms import Contract, Task
from australis.sim.faults import Fault, Kind, Moment, draw_faults
from australis.sim.network import Link

FAULTS_US = 40 * SECOND
"""Everything planned is over before this moment; then all faults heal."""
UNIT = Load(cpu=1.0)
MORE, HEAVIER, FEWER, LEAVE = "wants a task more", "wants more of a task", "wants less", "leaves"


@dataclass(frozen=True)
class Change(Moment):
    """The clients of a participant change their tasks, or the participant leaves."""

    at_us: int
    participant: str
    what: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.at_us / 1e6:8.2f} s: {self.participant} {self.what}"


@dataclass(frozen=True)
class Signing(Moment):
    """Two participants sign a contract, which replaces their present one."""

    at_us: int
    contract: Contract

    def __str__(self) -> str:
        one = self.contract
        until = "" if one.ends_us is None else f" until {one.ends_us / 1e6:.2f} s"
        return (
            f"{self.at_us / 1e6:8.2f} s: {one.buyer} may move load to {one.seller} for {one.low:g}"
            f" to {one.high:g}{until}"
        )


Planned = Fault | Change | Signing


@dataclass(frozen=True)
class ContractsScenario:
    """Everything that a run depends on."""

    seed: int
    contracts: tuple[Contract, ...]
    tasks: Mapping[str, tuple[Task, ...]]
    costs: Mapping[str, Costs]
    options: ContractOptions
    wakes: Mapping[str, int]
    link: Link
    schedule: tuple[Planned, ...]
    machine_class: type[ParticipantMachine] = ParticipantMachine

    @property
    def names(self) -> tuple[str, ...]:
        """The participants."""
        return tuple(self.tasks)


def draw_lasting(seed: int, chance: SeedTree) -> ContractsScenario:
    """Draw a scenario in which movements last for a while and are renewed again and again."""
    return _draw(seed, chance, permanent=False)


def draw_permanent(seed: int, chance: SeedTree) -> ContractsScenario:
    """Draw a scenario in which tasks move for good, as in the thesis' simulation: movements must
    end.
    """
    return _draw(seed, chance, permanent=True)


def _draw(seed: int, chance: SeedTree, *, permanent: bool) -> ContractsScenario:
    rng = chance.stream("participants")
    names = tuple(f"p{n}" for n in range(rng.randint(2, 7)))
    tasks = {
        name: tuple(
            Task(f"{name}/{k}", _load(rng), name) for k in range(rng.choice((0, 1, 5, 12, 25)))
        )
        for name in names
    }
    costs = {name: _costs(rng) for name in names}
    contracts = _contracts(chance.stream("contracts"), names)
    schedule: list[Planned] = [*_faults(chance.stream("faults"), names)]
    if not permanent:  # the former client no longer changes tasks that moved for good
        schedule += _changes(chance.stream("changes"), names)
    schedule += _signings(chance.stream("signings"), contracts)
    schedule.sort(key=lambda planned: planned.at_us)
    wakes = chance.stream("wakes")
    return ContractsScenario(
        seed,
        tuple(contracts),
        tasks,
        costs,
        _options(chance.stream("options"), permanent),
        {name: wakes.randrange(SECOND) for name in names},
        _link(chance.stream("network")),
        tuple(schedule),
    )


def _load(rng: Random) -> Load:
    return rng.choice((UNIT, UNIT, Load(cpu=2.0), Load(cpu=rng.uniform(0.2, 3.0))))


def _costs(rng: Random) -> Costs:
    if rng.random() < 0.3:
        return Costs(cpu=InFlight(rng.uniform(10.0, 40.0)))
    return Costs(cpu=Levels(rng.choice((1.0, 1.0, 2.0))))


def _contracts(rng: Random, names: tuple[str, ...]) -> list[Contract]:
    pairs = set(pairwise(names))
    pairs |= {(a, b) for a, b in (rng.sample(names, 2) for _ in range(rng.randint(0, 4))) if a < b}
    return [
        _contract(rng, buyer, seller)
        for pair in sorted(pairs)
        for buyer, seller in (pair, pair[::-1])
        if rng.random() < 0.9
    ]


def _contract(rng: Random, buyer: str, seller: str) -> Contract:
    high = rng.uniform(1.0, 12.0)
    low = high * rng.choice((1.0, 1.0, 0.8, 0.5))
    return Contract(
        buyer=buyer,
        seller=seller,
        low=low,
        high=high,
        duration_us=rng.choice((500, 1000, 3000)) * MILLISECOND,
        may_forward=rng.random() < 0.8,
    )


def _options(rng: Random, permanent: bool) -> ContractOptions:
    return ContractOptions(
        permanent=permanent,
        notify=rng.random() < 0.5,
        journal=rng.choice((2, 20, 1_000)),
        gather_us=rng.choice((0, 0, 100)) * MILLISECOND,
        rivals=rng.choice((None, None, 3.0)),
    )


def _link(rng: Random) -> Link:
    loss = rng.choice((0.0, 0.02, 0.1, 0.3))
    return Link(
        latency_us=rng.choice((1, 5, 20)) * MILLISECOND,
        jitter_us=20 * MILLISECOND,
        loss=loss,
        duplicate=loss,
        in_order=rng.random() < 0.5,
    )


def _faults(rng: Random, names: tuple[str, ...]) -> list[Fault]:
    most = {Kind.CRASH: 4, Kind.PAUSE: 1, Kind.CUT: 3, Kind.CUT_ONE_WAY: 1, Kind.LOSSY: 2}
    return [*draw_faults(rng, names, most, FAULTS_US, 10 * SECOND)]


def _changes(rng: Random, names: tuple[str, ...]) -> list[Change]:
    changes = [
        Change(rng.randrange(1, FAULTS_US), rng.choice(names), what, number)
        for number, what in enumerate(rng.choices((MORE, HEAVIER, FEWER), k=rng.randint(0, 8)))
    ]
    if len(names) > 2 and rng.random() < 0.2:
        changes.append(Change(rng.randrange(1, FAULTS_US), rng.choice(names), LEAVE))
    return changes


def _signings(rng: Random, contracts: list[Contract]) -> list[Signing]:
    """Draw other prices for some contracts, and the end of others."""
    found = []
    for old in rng.sample(contracts, min(len(contracts), rng.randint(0, 2))):
        at_us = rng.randrange(1, FAULTS_US)
        new = _contract(rng, old.buyer, old.seller)
        if rng.random() < 0.3:
            new = Contract(
                buyer=old.buyer,
                seller=old.seller,
                low=new.low,
                high=new.high,
                duration_us=old.duration_us,
                ends_us=min(FAULTS_US, at_us + rng.randrange(SECOND, 10 * SECOND)),
            )
        found.append(Signing(at_us, new))
    return found
