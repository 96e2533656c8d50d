"""Placement by ants as a model of the harness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from australis.kernel.trace import Trace
from australis.sim.ants.broken import VARIANTS
from australis.sim.ants.checked import CheckedAnts
from australis.sim.ants.schedule import AntsScenario, draw
from australis.sim.harness.model import Model, Preset
from australis.sim.harness.story import Line, entry_lines

TOLD = ("Withdrawn(", "TellPlaced(", "TellUnplaced(", "Enforce", "Release(")
"""The trace entries worth showing, since hundreds of ants are under way at any time."""


class AntsModel(Model[AntsScenario]):
    """Queries that ants place and place anew."""

    name = "ants"
    presets = {"faults": Preset("queries that come and go while cells fail", draw)}  # noqa: RUF012
    variants = VARIANTS
    checkers = {  # noqa: RUF012
        "bound": "No server is used beyond its bound.",
        "results": "What a query takes from another one is what it would make itself.",
        "state": "A task that moves takes along what it remembers.",
        "half": "In the end a query runs as its leader says, all of it and once.",
        "placed": "When nothing fails any more every query is placed, if there is room.",
    }
    coverage = {  # noqa: RUF012
        "queries": {name: name for name in ("placed", "moved", "reusing", "withdrawn", "changed")},
        "faults": {"crashes": "crash", "cuts": "cut one way"},
    }

    def build(self, scenario: AntsScenario, trace: Trace | None = None) -> CheckedAnts:
        return CheckedAnts(scenario, trace)

    def drawn(self, scenario: AntsScenario) -> Mapping[str, Mapping[str, str]]:
        ground = scenario.ground
        room = "perhaps not enough for all" if scenario.crowded else "enough for all"
        return {
            "queries": {
                query.name: f"{len(query.tasks)} tasks between"
                f" {', '.join(p.at for p in query.producers)} and"
                f" {', '.join(c.at for c in query.consumers)}"
                for query in scenario.queries
            },
            "settings": {
                "network": f"{len(ground.servers)} servers, {scenario.loss:.0%} of ants lost",
                "room": room,
            },
        }

    def lines(self, simulation: CheckedAnts, trace: Trace) -> Iterable[Line]:
        return entry_lines(trace, *TOLD)

    def summary(self, counts: Counter[str]) -> str:
        return (
            f"{counts['placed']:,} queries placed in the end, {counts['moved']:,} moves,"
            f" {counts['crash']:,} crashes"
        )


MODEL = AntsModel()
