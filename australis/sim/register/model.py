"""Registers as a model of the harness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from australis.kernel.durations import format_duration
from australis.kernel.trace import Trace
from australis.sim.harness.model import Model, Preset
from australis.sim.harness.story import Line, entry_lines
from australis.sim.register.broken import VARIANTS
from australis.sim.register.schedule import RegisterScenario, draw
from australis.sim.register.simulation import RegisterSimulation

TOLD = ("Started(", "Submitted(", "KeepersChosen(", "Tell", "PersistKeepers(")


class RegisterModel(Model[RegisterScenario]):
    """Proposers that edit registers, and keepers that decide."""

    name = "register"
    presets = {"faults": Preset("edits, reads, keepers that are replaced, and faults", draw)}  # noqa: RUF012
    variants = VARIANTS
    checkers = {  # noqa: RUF012
        "history": "The values of a register are steps of one history.",
        "once": "No edit is applied twice.",
        "order": "An operation sees every edit that was decided before it began.",
        "told": "What is told of an operation is true, and is told once.",
        "available": "When all faults have healed, every operation is decided.",
    }
    coverage = {  # noqa: RUF012
        "acts": {name: name for name in ("edit", "read", "replace")},
        "outcomes": {
            name: name for name in ("decided", "refused", "unknown", "unreachable", "replaced")
        },
        "faults": {
            name: name
            for name in ("crash", "wipe", "pause", "cut", "cut one way", "lossy", "isolate")
        },
    }

    def build(self, scenario: RegisterScenario, trace: Trace | None = None) -> RegisterSimulation:
        return RegisterSimulation(scenario, trace)

    def drawn(self, scenario: RegisterScenario) -> Mapping[str, Mapping[str, str]]:
        options, link = scenario.options, scenario.link
        return {
            "settings": {
                "keepers": f"{', '.join(scenario.keepers)}; spare: {', '.join(scenario.spares) or 'none'}",
                "proposers": f"{', '.join(scenario.proposers)} ask again after"
                f" {format_duration(options.resend_us)}, give up after"
                f" {format_duration(options.deadline_us)}",
                "registers": ", ".join(scenario.registers),
                "network": str(link),
            }
        }

    def lines(self, simulation: RegisterSimulation, trace: Trace) -> Iterable[Line]:
        return entry_lines(trace, *TOLD)

    def summary(self, counts: Counter[str]) -> str:
        return (
            f"{counts['decided']:,} operations decided, {counts['unknown']:,} unknown,"
            f" {counts['replaced']:,} replacements, {counts['crash']:,} crashes,"
            f" {counts['wipe']:,} disks lost"
        )


MODEL = RegisterModel()
