"""The ring as a model of the harness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from australis.kernel.durations import format_duration
from australis.kernel.trace import Trace
from australis.sim.harness.model import Model, Preset
from australis.sim.harness.story import Line, entry_lines
from australis.sim.ring.broken import VARIANTS
from australis.sim.ring.checked import RingSimulation
from australis.sim.ring.schedule import RingScenario, draw

TOLD = ("Started(", "Departed(", "Registered(", "Withdrawn(", "LookedUp(", "Tell", "-> Leave")


class RingModel(Model[RingScenario]):
    """Peers of a ring that come, go and look names up."""

    name = "ring"
    presets = {"faults": Preset("peers that come and go, and faults", draw)}  # noqa: RUF012
    variants = VARIANTS
    checkers = {  # noqa: RUF012
        "answered": "No lookup takes longer than its limit.",
        "once": "A lookup is answered once.",
        "neighbours": "In the end each peer knows who is before it and who follows.",
        "fingers": "In the end each finger leads to the peer that is responsible for its place.",
        "responsible": "In the end every lookup finds the responsible peer.",
        "kept": "In the end all entries of peers that are there are found, and no others.",
    }
    coverage = {  # noqa: RUF012
        "acts": {
            name: name for name in ("join", "depart", "register", "withdraw", "look up", "found")
        },
        "faults": {
            name: name
            for name in (
                *("crash", "pause", "cut", "cut one way", "lossy", "isolate"),
                "split",
            )
        },
    }

    def build(self, scenario: RingScenario, trace: Trace | None = None) -> RingSimulation:
        return RingSimulation(scenario, trace)

    def drawn(self, scenario: RingScenario) -> Mapping[str, Mapping[str, str]]:
        options, link = scenario.options, scenario.link
        begins = "stands already" if scenario.assembled else "grows by joining"
        return {
            "settings": {
                "ring": f"{', '.join(scenario.peers)}; it {begins}",
                "peers": f"know {options.successors} behind them, keep {options.copies} copies, look"
                f" after the ring every {format_duration(options.stabilise_us)}",
                "network": str(link),
            }
        }

    def lines(self, simulation: RingSimulation, trace: Trace) -> Iterable[Line]:
        return entry_lines(trace, *TOLD)

    def summary(self, counts: Counter[str]) -> str:
        return (
            f"{counts['found']:,} lookups in the end, {counts['messages']:,} messages,"
            f" {counts['crash']:,} crashes, {counts['split']:,} splits"
        )


MODEL = RingModel()
