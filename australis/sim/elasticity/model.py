"""Agents that choose cores as a model of the harness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from australis.kernel.trace import Trace
from australis.sim.elasticity.broken import VARIANTS
from australis.sim.elasticity.formatting import modules_of, settings_of, steps_of
from australis.sim.elasticity.run import Run
from australis.sim.elasticity.schedule import Schedule, draw
from australis.sim.faults import Planned
from australis.sim.harness.model import Model, Preset
from australis.sim.harness.story import Line


class ElasticityModel(Model[Schedule]):
    """Agents that choose the cores of their modules."""

    name = "elasticity"
    presets = {"faults": Preset("games, loads that change, and faults", draw)}  # noqa: RUF012
    variants = VARIANTS
    checkers = {  # noqa: RUF012
        "neighbours": "Agents talk to their neighbours alone.",
        "once": "A control step ends once.",
        "time": "It begins when it should and ends by its deadline.",
        "choice": "An agent chooses what is best at the pace and incentive that it tells.",
        "limits": "A module has as many cores as it may have.",
        "cores": "It has the whole cores for what was chosen, or keeps what it has.",
        "nodes": "Modules that share a node have no more cores than that has.",
        "agreed": "If all hear each other they settle on the centralized optimum.",
        "cost": "With incentives all together never pay more than without.",
        "messages": "If nothing is lost, as many messages are sent as the paper says.",
        "apart": "Those that hear each other settle on one pace, whatever else fails.",
    }
    coverage = {  # noqa: RUF012
        "faults": {name: name for name in ("crashes", "pauses", "cuts", "slow links", "lost")},
        "checks": {name: name for name in ("agreed", "apart", "counted", "gave up", "nodes")},
    }

    def build(self, scenario: Schedule, trace: Trace | None = None) -> Run:
        return Run(scenario, trace)

    def schedule(self, scenario: Schedule) -> tuple[Planned, ...]:
        return scenario.faults

    def with_schedule(self, scenario: Schedule, schedule: tuple[Planned, ...]) -> Schedule:
        return replace(scenario, faults=schedule)  # type: ignore[arg-type]

    def title(self, scenario: Schedule) -> str:
        graph = scenario.game.graph
        return (
            f"{len(graph.modules)} modules behind {graph.source}, {len(graph.arcs)} arcs, no two"
            f" more than {graph.diameter} apart"
        )

    def drawn(self, scenario: Schedule) -> Mapping[str, Mapping[str, str]]:
        return {"modules": modules_of(scenario), "settings": settings_of(scenario)}

    def lines(self, simulation: Run, trace: Trace) -> Iterable[Line]:
        return steps_of(simulation)

    def summary(self, counts: Counter[str]) -> str:
        return (
            f"{counts['steps']:,} control steps, {counts['agreed']:,} of them at the centralized"
            f" optimum, {counts['messages']:,} messages, {counts['cuts']:,} cuts"
        )


MODEL = ElasticityModel()
