"""DPC as a model of the harness: its promises, and the story of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from australis.kernel.trace import Trace
from australis.protocols.dpc.states import TRANSITIONS
from australis.sim.dpc.broken import VARIANTS
from australis.sim.dpc.checkers.acknowledged import Acknowledged, OneLog
from australis.sim.dpc.checkers.bounded import BoundedBuffers
from australis.sim.dpc.checkers.corrected import Corrected
from australis.sim.dpc.checkers.delay import BoundedDelay
from australis.sim.dpc.checkers.deployments import (
    AlwaysACopy,
    NoOrphans,
    NothingNewOnDrained,
    NotWhileRead,
    OneHistory,
)
from australis.sim.dpc.checkers.differences import DifferencesAnnounced
from australis.sim.dpc.checkers.disks import DamageTold
from australis.sim.dpc.checkers.entered import EntryTimesKnown
from australis.sim.dpc.checkers.kept import KeptUpstream
from australis.sim.dpc.checkers.logs import EqualLogs
from australis.sim.dpc.checkers.logs_bounded import BoundedLogs
from australis.sim.dpc.checkers.loss import LossTold
from australis.sim.dpc.checkers.masked import ShortFailuresMasked
from australis.sim.dpc.checkers.one_at_a_time import OneAtATime
from australis.sim.dpc.checkers.precision import Precision
from australis.sim.dpc.checkers.progress import ForwardProgress
from australis.sim.dpc.checkers.rows import EveryRowOnce
from australis.sim.dpc.checkers.stable import StableAtClients
from australis.sim.dpc.checkers.subscribed import Subscribed
from australis.sim.dpc.checkers.tentative import TentativeContent
from australis.sim.dpc.presets import PRESETS
from australis.sim.dpc.probes import Checker
from australis.sim.dpc.run import Run, Scenario
from australis.sim.dpc.story import BEGINNINGS, Narrator, nodes_of, options_of
from australis.sim.faults import Planned
from australis.sim.harness.model import Model, Violation
from australis.sim.harness.story import Line

ROWS = tuple(range(1, 12))
"""The rows of table 4.3."""
TURNS = tuple(f"{phase.name} {turn.name}" for phase, turn in TRANSITIONS)
LIVENESS = "liveness"
CHECKERS: tuple[type[Checker], ...] = (
    *(StableAtClients, EqualLogs, TentativeContent, Corrected, Subscribed),
    *(BoundedBuffers, KeptUpstream, EveryRowOnce, OneLog, Acknowledged),
    *(BoundedDelay, ShortFailuresMasked, ForwardProgress, OneAtATime, DifferencesAnnounced),
    EntryTimesKnown,
    *(Precision, LossTold, BoundedLogs, DamageTold),
    *(OneHistory, NothingNewOnDrained, AlwaysACopy, NotWhileRead, NoOrphans),
)


class DpcSimulation:
    """One run, with a narrator if its story is wanted."""

    def __init__(self, scenario: Scenario, trace: Trace | None, narrator: Narrator | None) -> None:
        self.narrator = narrator
        self.counts: Counter[str] = Counter()
        if narrator is None:
            self.dpc = Run(scenario, trace)
        else:
            self.dpc = Run(narrator.watched(scenario), trace, narrator.attach)
        self.world = self.dpc.world

    def run(self) -> list[Violation]:
        """Run both phases up to the first broken promise."""
        outcome = self.dpc.execute()
        self.counts["messages"] = outcome.delivered
        self.counts["tentative"] = outcome.tentative
        self.counts.update({f"row {row}": times for row, times in outcome.rows.items()})
        self.counts.update(outcome.turns)
        broken = outcome.violation
        return [] if broken is None else [Violation(broken.checker, broken.said)]


class DpcModel(Model[Scenario]):
    """Replicas, failures and corrections."""

    name = "dpc"
    presets = PRESETS
    variants = VARIANTS
    coverage = {  # noqa: RUF012
        "rows": {str(row): f"row {row}" for row in ROWS},
        "turns": {turn: turn for turn in TURNS},
    }
    checkers = {  # noqa: RUF012
        **{watcher.name: str(watcher.__doc__).partition("\n")[0] for watcher in CHECKERS},
        LIVENESS: "When everything has healed all nodes catch up.",
    }
    beginnings = BEGINNINGS

    def build(self, scenario: Scenario, trace: Trace | None = None) -> DpcSimulation:
        return DpcSimulation(scenario, trace, None)

    def build_watched(self, scenario: Scenario, trace: Trace) -> DpcSimulation:
        return DpcSimulation(scenario, trace, Narrator())

    def schedule(self, scenario: Scenario) -> tuple[Planned, ...]:
        return scenario.faults

    def with_schedule(self, scenario: Scenario, schedule: tuple[Planned, ...]) -> Scenario:
        return replace(scenario, faults=schedule)  # type: ignore[arg-type]

    # --- story ------------------------------------------------------------------------------

    def title(self, scenario: Scenario) -> str:
        return f"diagram {scenario.topology.diagram.name}"

    def drawn(self, scenario: Scenario) -> Mapping[str, Mapping[str, str]]:
        return {"nodes": nodes_of(scenario), "settings": options_of(scenario)}

    def lines(self, simulation: DpcSimulation, trace: Trace) -> Iterable[Line]:
        assert simulation.narrator is not None, "a story needs its narrator"
        return simulation.narrator.timeline()

    def summary(self, counts: Counter[str]) -> str:
        return f"{counts['messages']:,} messages, {counts['tentative']:,} tentative tuples"

    def measured(self, simulation: DpcSimulation) -> Mapping[str, Any]:
        delay = simulation.dpc.delay
        return {
            "messages": simulation.counts["messages"],
            "tentative": simulation.counts["tentative"],
            "worst_delay_s": delay.worst / 1e6,
            "delay_bound_s": delay.bound_us / 1e6,
        }

    def broken_by(self, simulation: DpcSimulation, violation: Violation) -> int | None:
        return None if violation.checker == LIVENESS else simulation.world.cause


MODEL = DpcModel()
