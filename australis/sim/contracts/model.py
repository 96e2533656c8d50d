"""Contracts as a model of the harness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from australis.kernel.trace import Trace
from australis.sim.contracts.broken import VARIANTS
from australis.sim.contracts.checked import ContractsSimulation
from australis.sim.contracts.schedule import (
    FEWER,
    HEAVIER,
    LEAVE,
    MORE,
    ContractsScenario,
    draw_lasting,
    draw_permanent,
)
from australis.sim.harness.model import Model, Preset
from australis.sim.harness.story import Line, entry_lines

TOLD = ("Write(", "Started(", "TasksChanged(", "ContractsChanged(", "Leaving(")


class ContractsModel(Model[ContractsScenario]):
    """Participants that move load under contracts."""

    name = "contracts"
    presets = {  # noqa: RUF012
        "lasting": Preset("movements that last, while everything changes and fails", draw_lasting),
        "permanent": Preset("tasks that move for good, until nothing moves", draw_permanent),
    }
    variants = VARIANTS
    checkers = {  # noqa: RUF012
        "price": "Every movement is paid for within the price range of a contract.",
        "lost": "A task that is wanted runs somewhere whenever all participants are up.",
        "payers": "No participant runs a task for two others at once.",
        "unsettled": "Once all is well both sides of every movement soon know the same.",
        "once": "Then every task runs once, and none that is not wanted.",
        "books": "Then both sides have the same books.",
        "ends": "If tasks move for good and nothing changes, movements come to an end.",
        "acceptable": "Then no movement is left by which both sides would gain.",
    }
    coverage = {  # noqa: RUF012
        "changes": {name: name for name in ("movements", "signed", MORE, HEAVIER, FEWER, LEAVE)},
        "faults": {name: name for name in ("crash", "pause", "cut", "cut one way", "lossy")},
    }

    def build(self, scenario: ContractsScenario, trace: Trace | None = None) -> ContractsSimulation:
        return ContractsSimulation(scenario, trace)

    def drawn(self, scenario: ContractsScenario) -> Mapping[str, Mapping[str, str]]:
        options, link = scenario.options, scenario.link
        who = {
            name: f"{len(tasks)} tasks, {type(scenario.costs[name].cpu).__name__}"
            for name, tasks in scenario.tasks.items()
        }
        contracts = {
            f"{c.buyer} to {c.seller}": f"{c.low:.3g} to {c.high:.3g} for {c.duration_us / 1e6:g} s"
            for c in scenario.contracts
        }
        settings = {
            "movements": "for good" if options.permanent else "for a while",
            "network": f"{link.latency_us / 1e3:g} ms and more, {link.loss:.0%} lost and doubled",
            "journal": f"written anew after {options.journal} entries",
        }
        return {"participants": who, "contracts": contracts, "settings": settings}

    def lines(self, simulation: ContractsSimulation, trace: Trace) -> Iterable[Line]:
        return entry_lines(trace, *TOLD)

    def summary(self, counts: Counter[str]) -> str:
        return (
            f"{counts['movements']:,} movements, {counts['messages']:,} messages,"
            f" {counts['crash']:,} crashes"
        )


MODEL = ContractsModel()
