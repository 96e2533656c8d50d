"""What contracts and options can say, each in a federation of two or three."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.machine import MessageReceived, Send, SetTimer
from australis.protocols.contracts.choices import Valuation
from australis.protocols.contracts.costs import Costs, Levels, Load
from australis.protocols.contracts.events import ContractOptions, Started, TasksChanged
from australis.protocols.contracts.messages import Answer, Decision, Offer
from australis.protocols.contracts.participant import ParticipantMachine
from australis.protocols.contracts.selling import GATHER
from australis.protocols.contracts.terms import Contract, Task
from australis.sim.contracts.federation import Federation
from australis.sim.network import Link, Network
from australis.sim.world import World

LEVELS = Costs(cpu=Levels())
UNIT = Load(cpu=1.0)


def tasks(name: str, count: int, **settings: Any) -> list[Task]:
    return [Task(f"{name}/{n}", UNIT, name, **settings) for n in range(count)]


def contract(buyer: str, seller: str, price: float = 5.0, **settings: Any) -> Contract:
    return Contract(buyer=buyer, seller=seller, low=price, high=price, **settings)


def federation(
    contracts: list[Contract],
    loads: Mapping[str, list[Task]],
    values: Mapping[str, Valuation] | None = None,
    options: ContractOptions | None = None,
) -> Federation:
    costs = dict.fromkeys(loads, LEVELS)
    wakes = {name: n * 10 * MILLISECOND for n, name in enumerate(loads)}
    world = World(Network(Random(1), Link()))
    options = options or ContractOptions()
    return Federation(world, contracts, loads, costs, options, wakes, values)


def counts(one: Federation) -> list[int]:
    return [len(m.holdings.tasks) for m in one.machines.values()]


# --- forwarding ---------------------------------------------------------------------------------


@pytest.mark.parametrize("permanent", [False, True])
@pytest.mark.parametrize("allowed", [True, False])
def test_a_seller_forwards_if_it_may(permanent: bool, allowed: bool) -> None:
    """b takes five of a's tasks; its own load rises; it passes them on only if it may."""
    long = 60 * SECOND  # it cannot simply give them back
    chain = [contract("a", "b", may_forward=allowed, duration_us=long), contract("b", "c")]
    one = federation(
        chain,
        {"a": tasks("a", 10), "b": [], "c": []},
        options=ContractOptions(permanent=permanent),
    )
    one.world.run(3 * SECOND)
    assert counts(one) == [5, 5, 0]
    one.hosts["b"].take(TasksChanged(tuple(tasks("b", 5))))
    one.world.run(10 * SECOND)
    assert counts(one) == [5, 5, 5]
    there = {task.origin for task in one.machines["c"].holdings.tasks.values()}
    assert there == ({"a"} if allowed else {"b"})


# --- validity -------------------------------------------------------------------------------------


def test_nothing_moves_before_a_contract_begins_and_all_comes_back_after_it_ends() -> None:
    valid = contract("a", "b", begins_us=20 * SECOND, ends_us=40 * SECOND, duration_us=2 * SECOND)
    one = federation([valid], {"a": tasks("a", 10), "b": []})
    one.world.run(19 * SECOND)
    assert counts(one) == [10, 0]
    one.world.run(39 * SECOND)
    assert counts(one) == [5, 5]
    one.world.run(45 * SECOND)
    assert counts(one) == [10, 0]
    mine, theirs = (one.machines[n].holdings.ledger.owed("a", "b") for n in "ab")
    assert mine == theirs > 0


# --- margins and what moving costs ------------------------------------------------------------------


@pytest.mark.parametrize(("margin", "stay"), [(0.0, 5), (0.2, 6), (0.6, 8)])
def test_a_buyer_with_a_margin_keeps_what_is_hardly_dearer(margin: float, stay: int) -> None:
    values = {"a": Valuation(costs=LEVELS, margin=margin)}
    one = federation([contract("a", "b")], {"a": tasks("a", 10), "b": []}, values)
    one.world.run(5 * SECOND)
    assert counts(one) == [stay, 10 - stay]


def test_margins_keep_a_task_from_going_to_and_fro() -> None:
    """Loads that are measured vary: with a margin that covers it nothing moves, without it much."""
    moved = []
    for margin in (0.0, 0.3):
        values = {name: Valuation(costs=LEVELS, margin=margin) for name in "ab"}
        both = [contract("a", "b", 4.7), contract("b", "a", 4.7)]
        one = federation(both, {"a": tasks("a", 5), "b": tasks("b", 4)}, values)
        rng = Random(4)
        for second in range(1, 60):
            for name in "ab":
                now = [Task(f"{name}/0", Load(cpu=rng.uniform(0.5, 1.5)), name)]
                one.world.at(second * SECOND, one.hosts[name].take, TasksChanged(tuple(now)))
        one.world.run(60 * SECOND)
        moved.append(sum(m.holdings.tasks_moved for m in one.machines.values()))
    assert moved[1] == 0 < moved[0]


@pytest.mark.parametrize(("d_s", "stay"), [(1, 10), (10, 7), (1000, 5)])
def test_moving_there_and_back_must_be_worth_it(d_s: int, stay: int) -> None:
    """Copying ten megabytes twice at one each costs 20: 2 a second over ten seconds."""
    values = {"a": Valuation(costs=LEVELS, moving_per_mb=1.0)}
    one = federation(
        [contract("a", "b", duration_us=d_s * SECOND)],
        {"a": tasks("a", 10, state_mb=10.0), "b": []},
        values,
    )
    one.world.run(5 * SECOND)
    assert counts(one) == [stay, 10 - stay]


# --- gathering offers ---------------------------------------------------------------------------------


def test_a_seller_that_gathers_looks_at_the_best_paid_first() -> None:
    options = ContractOptions(gather_us=50 * MILLISECOND)
    low, high = contract("a", "c", 3.0), contract("b", "c", 5.0)
    seller = ParticipantMachine("c", [low, high], Valuation(costs=LEVELS), options)
    seller.handle(Started(1, tuple(tasks("c", 2))), 0)
    waits = seller.handle(MessageReceived("a", Offer(1, 3.0, tuple(tasks("a", 3)), 1)), 1_000)
    assert [e for e in waits if isinstance(e, SetTimer)] == [SetTimer(GATHER, 51_000)]
    assert not seller.handle(MessageReceived("b", Offer(1, 5.0, tuple(tasks("b", 2)), 1)), 2_000)
    sent = [e for e in seller.selling.decide(51_000) if isinstance(e, Send)]
    assert [e.to for e in sent] == ["b", "a"]
    answers: list[Any] = [e.message for e in sent]
    assert answers[0] == Answer(1, Decision.ACCEPTED, 5.0, ("b/0", "b/1"))
    assert answers[1].verdict is Decision.REJECTED


# --- paying ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d_ms", [100, 400, 500, 700, 3_000])
def test_every_time_d_is_paid_for_however_short_it_is(d_ms: int) -> None:
    """Five units at five a second for 30 s, to within the time d that was paid in advance and
    what has not been asked for yet."""
    one = federation(
        [contract("a", "b", duration_us=d_ms * MILLISECOND)], {"a": tasks("a", 10), "b": []}
    )
    one.world.run(31 * SECOND)
    mine, theirs = (one.machines[n].holdings.ledger.owed("a", "b") for n in "ab")
    assert mine == pytest.approx(theirs)
    assert mine == pytest.approx(5 * 5 * 30, abs=5 * 5 * max(1.6, 2 * d_ms / 1000))


# --- leaving ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("journal", [1, 1_000])
def test_whoever_leaves_goes_on_leaving_after_a_crash(journal: int) -> None:
    both = [contract("a", "b", duration_us=5 * SECOND), contract("b", "a", duration_us=5 * SECOND)]
    options = ContractOptions(journal=journal)
    one = federation(both, {"a": tasks("a", 10), "b": []}, options=options)
    one.world.run(2 * SECOND)
    assert counts(one) == [5, 5]
    one.leave("b")
    one.world.run(3 * SECOND)
    one.hosts["b"].crash()
    one.start("b", one.world.now)
    assert one.machines["b"].holdings.leaving
    one.world.run(20 * SECOND)
    assert counts(one) == [10, 0]
    assert one.gone("b")
