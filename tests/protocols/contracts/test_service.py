"""The minimum service clause: a seller that is too slow pays, once for each time (thesis 6.2)."""

from __future__ import annotations

from random import Random

import pytest

from australis.kernel.durations import SECOND
from australis.protocols.contracts.costs import Costs, Levels
from australis.protocols.contracts.events import ContractOptions, ServiceMissed
from australis.protocols.contracts.terms import Contract
from australis.sim.contracts.federation import Federation
from australis.sim.network import Link, Network
from australis.sim.world import World


def two(loss: float = 0.0, max_delay_s: float | None = 1.0) -> Federation:
    penalty = 7.0 if max_delay_s else 0.0
    contract = Contract(
        buyer="a", seller="b", low=5.0, high=5.0, max_delay_s=max_delay_s, penalty=penalty
    )
    costs = dict.fromkeys("ab", Costs(cpu=Levels()))
    world = World(Network(Random(3), Link(loss=loss, duplicate=loss)))
    return Federation(world, [contract], {"a": [], "b": []}, costs, ContractOptions())


def owed(one: Federation) -> list[float]:
    return [m.holdings.ledger.owed("b", "a") for m in one.machines.values()]


@pytest.mark.parametrize("loss", [0.0, 0.4])
def test_each_miss_is_paid_for_once(loss: float) -> None:
    one = two(loss)
    for n in range(4):
        one.world.at(n * SECOND // 10, one.hosts["a"].take, ServiceMissed("b"))
    one.world.run(60 * SECOND)
    assert owed(one) == [28.0, 28.0]


def test_nobody_forgets_a_complaint_in_a_crash() -> None:
    one = two()
    one.world.network.cut("a", "b")
    one.hosts["a"].take(ServiceMissed("b"))
    one.world.run(SECOND)
    assert owed(one) == [0.0, 0.0]
    one.hosts["a"].crash()
    one.start("a")
    one.world.network.mend("a", "b")
    one.world.run(3 * SECOND)
    one.hosts["b"].crash()
    one.start("b")
    assert owed(one) == [7.0, 7.0]


def test_without_the_clause_there_is_nothing_to_pay() -> None:
    one = two(max_delay_s=None)
    one.hosts["a"].take(ServiceMissed("b"))
    one.world.run(SECOND)
    assert owed(one) == [0.0, 0.0]
