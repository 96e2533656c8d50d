"""The participants of an array instance as machines that send messages."""

from __future__ import annotations

from typing import Any

from australis.protocols.contracts.costs import Costs, Curve, Levels, Load
from australis.protocols.contracts.events import ContractOptions
from australis.protocols.contracts.terms import Contract, Task
from australis.sim.contracts.federation import Federation
from australis.sim.network import Network
from australis.sim.world import World
from research.thesis_contracts.arrays.instance import PERIOD_US, STEP_US, Instance

UNIT = Load(cpu=1.0)


def name_of(number: int) -> str:
    """The name of the participant with this number in the arrays."""
    return f"p{number}"


def federation_of(
    instance: Instance,
    network: Network,
    curve: Curve | None = None,
    permanent: bool = True,
    kind: type[Federation] = Federation,
    **options: Any,
) -> Federation:
    """A federation with the participants, contracts and tasks of an array instance."""
    graph = instance.graph
    names = [name_of(i) for i in range(graph.size)]
    contracts = [
        Contract(
            buyer=names[i],
            seller=names[graph.partners[e]],
            low=float(instance.low[e]),
            high=float(instance.high[e]),
            duration_us=PERIOD_US,
            unit=UNIT,
        )
        for i in range(graph.size)
        for e in range(graph.first[i], graph.first[i + 1])
    ]
    tasks = {
        name: [Task(f"{name}/{k}", UNIT, name) for k in range(count)]
        for name, count in zip(names, instance.load.tolist(), strict=True)
    }
    costs = Costs(cpu=curve or Levels())
    settings = ContractOptions(
        period_us=PERIOD_US,
        step_us=STEP_US,
        answer_us=STEP_US // 2,
        resend_us=PERIOD_US // 2,
        permanent=permanent,
        **options,
    )
    wakes = dict(zip(names, instance.wakes.tolist(), strict=True))
    world = World(network)
    return kind(world, contracts, tasks, dict.fromkeys(names, costs), settings, wakes)
