"""What must hold of every movement under a load that does not change (thesis 6.8)."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from australis.kernel.durations import SECOND
from australis.kernel.machine import Message
from australis.protocols.contracts.choices import load_of
from australis.protocols.contracts.costs import Costs, InFlight, Levels, Load, Step
from australis.protocols.contracts.events import ContractOptions
from australis.protocols.contracts.messages import Move
from australis.protocols.contracts.terms import Contract, Task
from australis.sim.contracts.federation import Federation
from australis.sim.network import Link, Network
from australis.sim.world import World

UNIT = Load(cpu=1.0, bandwidth=1.0)


def random_federation(seed: int, size: int, rivals: float | None) -> Federation:
    """Participants that differ in everything: costs, tasks, prices."""
    rng = Random(seed)
    names = [f"p{n}" for n in range(size)]
    costs = {
        name: rng.choice(
            (
                Costs(cpu=InFlight(rng.uniform(20, 60)), bandwidth=InFlight(rng.uniform(20, 60))),
                Costs(cpu=Levels(rng.uniform(0.5, 2))),
                Costs(cpu=Levels(), memory=Step(rng.uniform(5, 30), rng.uniform(1, 20))),
            )
        )
        for name in names
    }
    tasks = {
        name: [
            Task(
                f"{name}/{k}",
                Load(rng.uniform(0.2, 3), rng.uniform(0, 2), rng.uniform(0, 2)),
                name,
                query=rng.choice(("", "q", "r")),
            )
            for k in range(rng.choice((0, 2, 10, 30)))
        ]
        for name in names
    }
    contracts = []
    for n, name in enumerate(names[1:], 1):
        partner = names[rng.randrange(n)]
        high = rng.uniform(0.1, 30)
        for a, b in ((name, partner), (partner, name)):
            low = high * rng.choice((1.0, 0.8))
            contracts.append(Contract(buyer=a, seller=b, low=low, high=high, unit=UNIT))
    options = ContractOptions(permanent=True, rivals=rivals)
    world = World(Network(rng, Link(0, 0)))
    wakes = {name: rng.randrange(SECOND) for name in names}
    return Federation(world, contracts, tasks, costs, options, wakes)


@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 100_000), size=st.integers(2, 8), rivals=st.sampled_from((None, 3.0, 6.0))
)
def test_both_gain_costs_fall_and_movements_stop(
    seed: int, size: int, rivals: float | None
) -> None:
    one = random_federation(seed, size, rivals)
    contracts = {contract.parties: contract for mine in one.contracts.values() for contract in mine}
    totals = [total(one)]

    def watch(to: str, sender: str, message: Message) -> None:
        if isinstance(message, Move):
            buyer, seller = one.machines[sender], one.machines[to]
            moved = load_of(message.tasks)
            paid = contracts[sender, to].units(moved) * message.price
            load = buyer.holdings.load
            saved = one.costs[sender].marginal(moved, load - moved)
            spent = one.costs[to].marginal(moved, seller.holdings.load)
            assert saved > paid > spent - 1e-9
            assert contracts[sender, to].low <= message.price <= contracts[sender, to].high
            totals.append(total(one) - saved + spent)

    one.world.tap = watch
    one.world.run(400 * SECOND)
    before = sum(m.holdings.movements for m in one.machines.values())
    one.world.run(440 * SECOND)
    assert sum(m.holdings.movements for m in one.machines.values()) == before
    assert all(later < earlier for earlier, later in pairwise(totals))
    assert len(totals) == 1 + before


def total(one: Federation) -> float:
    return sum(one.costs[name].cost(m.holdings.load) for name, m in one.machines.items())
