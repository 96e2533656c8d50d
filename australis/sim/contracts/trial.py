"""The participants of a federation file in the simulated world, until movements stop."""

from __future__ import annotations

from random import Random
from typing import Any

from australis.kernel.durations import SECOND
from australis.protocols.contracts.choices import load_of
from australis.protocols.contracts.events import ContractOptions
from australis.protocols.contracts.federation_file import Members
from australis.sim.contracts.federation import Federation
from australis.sim.network import Link, Network
from australis.sim.world import World

QUIESCENCE_US = 10 * SECOND
"""Movements have ended when there was none for this time, beyond the wait of a refused buyer."""


def simulate_members(members: Members, most_us: int, seed: int, loss: float) -> dict[str, Any]:
    """The final distribution of load, as `australis contracts run --json` prints it."""
    rng = Random(seed)
    people = members.participants
    tasks = {name: member.tasks for name, member in people.items()}
    costs = {name: member.costs for name, member in people.items()}
    values = {name: member.value for name, member in people.items()}
    wakes = {name: rng.randrange(SECOND) for name in people}
    world = World(Network(rng, Link(loss=loss)))
    one = Federation(world, members.contracts, tasks, costs, ContractOptions(), wakes, values)
    last_us = moved = 0
    changes_us = max(max(c.begins_us, c.ends_us or 0) for c in members.contracts)
    quiet_us = QUIESCENCE_US + 2 * max(c.duration_us for c in members.contracts)
    while world.now < min(most_us, max(last_us, changes_us) + quiet_us):
        world.run(world.now + SECOND // 2)
        now_moved = sum(m.holdings.tasks_moved for m in one.machines.values())
        if now_moved > moved:
            moved, last_us = now_moved, world.now
    machines = one.machines
    before = {name: costs[name].cost(load_of(tasks[name])) for name in people}
    after = {name: costs[name].cost(machines[name].holdings.load) for name in people}
    return {
        "federation": members.name,
        "participants": {
            name: {
                "tasks_before": len(tasks[name]),
                "tasks": len(machine.holdings.tasks),
                "cost_before": before[name],
                "cost": after[name],
                "earned_per_s": machine.holdings.earned_per_s,
            }
            for name, machine in machines.items()
        },
        "owed": [
            {"debtor": a, "creditor": b, "amount": amount}
            for a, machine in machines.items()
            for b in people
            if (amount := machine.holdings.ledger.owed(a, b)) > 0
        ],
        "movements": sum(m.holdings.movements for m in machines.values()),
        "tasks_moved": moved,
        "messages": world.delivered,
        "last_s": last_us / SECOND,
        "stopped": world.now >= max(last_us, changes_us) + quiet_us,
        "cost_before": sum(before.values()),
        "cost": sum(after.values()),
    }
