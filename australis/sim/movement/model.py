"""Movement as a model of the harness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from australis.kernel.trace import Trace
from australis.sim.harness.model import Model, Preset
from australis.sim.harness.story import Line, entry_lines
from australis.sim.movement.broken import VARIANTS
from australis.sim.movement.schedule import MovementScenario, draw
from australis.sim.movement.simulation import MovementSimulation

TOLD = (
    "MessageReceived(",
    "Write(",
    "TellMoved(",
    "InstallReplica(",
    "DropReplica(",
    "Resubscribe",
)
"""The trace entries that describe a move."""


class MovementModel(Model[MovementScenario]):
    """Components that move from node to node."""

    name = "movement"
    presets = {"faults": Preset("moves, and faults in every phase of them", draw)}  # noqa: RUF012
    variants = VARIANTS
    checkers = {  # noqa: RUF012
        "lost": "On some disk there is a replica of each component at any time.",
        "wrong": "Clients get the tuples of a run without faults and moves, in order.",
        "stuck": "They get all of them when everything has healed.",
        "owners": "In the end each component has one owner.",
        "replicas": "In the end each component runs at one node.",
        "unsettled": "Every move ends.",
    }
    coverage = {  # noqa: RUF012
        "moves": {"done": "moved", "called off": "called off", "crashes": "crashes"},
        "messages": {
            name: name
            for name in ("Request", "Ready", "Switch", "Switched", "Handover", "Answered", "Cancel")
        },
    }

    def build(self, scenario: MovementScenario, trace: Trace | None = None) -> MovementSimulation:
        return MovementSimulation(scenario, trace)

    def drawn(self, scenario: MovementScenario) -> Mapping[str, Mapping[str, str]]:
        link = scenario.link
        reads = {
            kind.name: f"at {scenario.places[kind.name]}"
            + (f", reads {', '.join(kind.inputs)}" if kind.inputs else "")
            for kind in scenario.kinds
        }
        order = "in order" if link.in_order else "in any order"
        network = f"{link.latency_us / 1e3:g} ms, {order}, {link.loss:.0%} of messages lost"
        return {"components": reads, "settings": {"network": network}}

    def lines(self, simulation: MovementSimulation, trace: Trace) -> Iterable[Line]:
        return entry_lines(trace, *TOLD)

    def summary(self, counts: Counter[str]) -> str:
        return (
            f"{counts['moved']:,} moves done, {counts['called off']:,} called off,"
            f" {counts['crashes']:,} crashes"
        )


MODEL = MovementModel()
