"""Contracts where messages get lost, come twice and late, and participants crash."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from australis.kernel.durations import SECOND
from australis.protocols.contracts.costs import Costs, Levels, Load
from australis.protocols.contracts.events import ContractOptions, PartnerFailed, TasksChanged
from australis.protocols.contracts.terms import Contract, Task
from australis.sim.contracts.federation import Federation
from australis.sim.network import Link, Network
from australis.sim.world import World

NAMES = [f"p{n}" for n in range(6)]
UNIT = Load(cpu=1.0)


def federation(seed: int, loss: float, permanent: bool) -> Federation:
    rng = Random(seed)
    pairs = {(NAMES[n - 1], NAMES[n]) for n in range(1, len(NAMES))}
    pairs |= {tuple(sorted(rng.sample(NAMES, 2))) for _ in range(4)}  # type: ignore[misc]
    contracts = [
        Contract(buyer=a, seller=b, low=high - width, high=high, duration_us=SECOND)
        for pair in sorted(pairs)
        for high, width in [(rng.choice((10.0, 12.0)), rng.choice((0.0, 3.0)))]
        for a, b in (pair, pair[::-1])
    ]
    tasks = {
        name: [Task(f"{name}/{k}", UNIT, name) for k in range(rng.choice((1, 5, 12, 25)))]
        for name in NAMES
    }
    link = Link(latency_us=5_000, jitter_us=20_000, loss=loss, duplicate=loss, in_order=False)
    options = ContractOptions(
        permanent=permanent, notify=rng.random() < 0.5, journal=rng.choice((2, 20, 1_000))
    )
    costs = dict.fromkeys(NAMES, Costs(cpu=Levels()))
    wakes = {name: rng.randrange(SECOND) for name in NAMES}
    world = World(Network(rng, link))
    return Federation(world, contracts, tasks, costs, options, wakes)


def crash_and_return(one: Federation, name: str, at: int, for_us: int, noticed: bool) -> None:
    world = one.world

    def crash() -> None:
        one.hosts[name].crash()
        if noticed:
            for other in NAMES:
                if other != name:
                    world.at(world.now + SECOND, one.hosts[other].take, PartnerFailed(name))

    world.at(at, crash)
    world.at(at + for_us, one.start, name, at + for_us)


def change(one: Federation, number: int, name: str, kind: str) -> None:
    """The clients of a participant want something else."""
    tasks = list(one.tasks[name])
    if kind == "more":
        event = TasksChanged(now_there=(Task(f"{name}/new{number}", UNIT, name),))
        tasks += event.now_there
    elif kind == "heavier":
        event = TasksChanged(now_there=(replace(tasks[0], load=Load(cpu=2.0)),))
        tasks[0] = event.now_there[0]
    else:
        event = TasksChanged(gone=(tasks[0].name,))
        del tasks[0]
    if tasks:
        one.tasks[name] = tasks
        one.hosts[name].take(event)


def lose_nothing(one: Federation) -> None:
    for a in NAMES:
        for b in NAMES:
            one.world.network.link(a, b).loss = 0.0


def until_settled(one: Federation) -> None:
    """Lose nothing more, and stop at a moment when no word is under way."""
    lose_nothing(one)
    for _ in range(4_000):
        if not any(m.holdings.unsettled for m in one.machines.values()):
            return
        one.world.run(one.world.now + SECOND // 200)
    pytest.fail("the two sides of some movement never agree on it")


@settings(max_examples=80, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10_000),
    loss=st.sampled_from((0.0, 0.05, 0.3)),
    permanent=st.booleans(),
    crashes=st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.integers(0, 20 * SECOND),
            st.integers(SECOND // 10, 10 * SECOND),
            st.booleans(),
        ),
        max_size=3,
        unique_by=lambda crash: crash[0],
    ),
    changes=st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.integers(0, 20 * SECOND),
            st.sampled_from(("more", "heavier", "gone")),
        ),
        max_size=4,
    ),
)
def test_tasks_run_once_and_books_agree_when_all_is_quiet(
    seed: int,
    loss: float,
    permanent: bool,
    crashes: list[tuple[str, int, int, bool]],
    changes: list[tuple[str, int, str]],
) -> None:
    one = federation(seed, loss, permanent)
    for number, (name, at, kind) in enumerate(changes):
        if not permanent:  # what moved for good is not its client's to change
            one.world.at(at, change, one, number, name, kind)
    for name, at, for_us, noticed in crashes:
        # Tasks that moved for good are not anybody's to run again.
        crash_and_return(one, name, at, for_us, noticed and not permanent)
    one.world.run(60 * SECOND)
    until_settled(one)
    each_task_runs_once(one)
    books_agree(one)


def each_task_runs_once(one: Federation) -> None:
    """The tasks of all who are there."""
    machines = one.machines
    running = sorted(name for m in machines.values() for name in m.holdings.tasks)
    expected = sorted(t.name for name in machines for t in one.tasks[name])
    assert running == expected


def books_agree(one: Federation) -> None:
    machines = one.machines
    for a in machines:
        for b in machines:
            mine, theirs = (machines[n].holdings.ledger.owed(a, b) for n in (a, b))
            assert mine == pytest.approx(theirs), (a, b)


@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10_000),
    loss=st.sampled_from((0.0, 0.05, 0.3)),
    who=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
)
def test_whoever_leaves_takes_its_own_tasks_and_gives_back_the_others(
    seed: int, loss: float, who: list[str]
) -> None:
    one = federation(seed, loss, permanent=False)
    one.world.run(20 * SECOND)
    for name in who:
        one.leave(name)
    for _ in range(600):
        if all(one.gone(name) for name in who):
            break
        one.world.run(one.world.now + SECOND // 10)
    assert set(one.machines) == set(NAMES) - set(who), "a movement has no end"
    one.world.run(one.world.now + 20 * SECOND)
    until_settled(one)
    each_task_runs_once(one)
    books_agree(one)


@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10_000),
    loss=st.sampled_from((0.0, 0.05, 0.3)),
    who=st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True),
    at=st.integers(0, 20 * SECOND),
)
def test_what_somebody_forwarded_who_is_gone_runs_once(
    seed: int, loss: float, who: list[str], at: int
) -> None:
    one = federation(seed, loss, permanent=False)
    one.world.run(at)
    for name in who:
        one.fail(name, SECOND)
    one.world.run(at + 40 * SECOND)
    expected = sorted(t.name for name in one.machines for t in one.tasks[name])
    lose_nothing(one)
    for _ in range(400):  # while a task moves two run it for a moment
        one.world.run(one.world.now + SECOND // 20)
        running = [n for m in one.machines.values() for n in m.holdings.tasks]
        if sorted(n for n in running if n in set(expected)) == expected:
            return
    pytest.fail("a task runs nowhere, or at two places for good")


def test_a_crash_does_not_make_anybody_forget() -> None:
    """What was written is enough to go on."""
    one = federation(7, 0.0, True)
    one.world.run(20 * SECOND)
    before = {n: (m.holdings.tasks, m.holdings.ledger.state()) for n, m in one.machines.items()}
    for name in NAMES:
        one.hosts[name].crash()
        one.start(name, one.world.now)
    after = {n: (m.holdings.tasks, m.holdings.ledger.state()) for n, m in one.machines.items()}
    assert after == before
    assert any(owed for _, (owed, _, _) in before.values())
