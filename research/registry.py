"""All experiments, by name."""

from __future__ import annotations

from importlib import import_module

from australis.kernel.errors import unknown_name
from research.claims import Experiment

MODULES = {
    "dpc-single": "thesis_dpc.single.experiment",
    "dpc-client": "thesis_dpc.client",
    "dpc-failures": "thesis_dpc.failures",
    "dpc-chain": "thesis_dpc.chain.experiment",
    "dpc-overhead": "thesis_dpc.overhead",
    "dpc-reconcile": "thesis_dpc.reconcile.experiment",
    "contracts-planning": "thesis_contracts.planning",
    "contracts-convergence": "thesis_contracts.convergence",
    "contracts-speed": "thesis_contracts.speed",
    "contracts-stability": "thesis_contracts.stability",
    "contracts-chain": "thesis_contracts.chain",
    "contracts-beyond": "thesis_contracts.beyond.experiment",
    "contracts-selfish": "thesis_contracts.selfish",
    "contracts-membership": "thesis_contracts.membership",
    "medusa-convergence": "medusa.convergence",
    "medusa-prototype": "medusa.prototype",
    "medusa-stability": "medusa.stability",
    "synergy-delay": "synergy.delay",
    "synergy-balance": "synergy.balance",
    "synergy-migration-overhead": "synergy.migration_overhead",
    "synergy-load-updates": "synergy.load_updates",
    "synergy-beyond": "synergy.beyond.experiment",
    "ants-quality": "ants.quality",
    "ants-adaptation": "ants.adaptation",
    "ants-beta": "ants.beta",
    "ants-scale": "ants.scale",
    "ants-reuse": "ants.reuse",
    "ants-beyond": "ants.beyond.experiment",
    "games-reconfigurations": "games.reconfigurations.experiment",
    "games-cost": "games.cost.experiment",
    "games-incentives": "games.incentives",
    "games-messages": "games.messages",
    "games-beyond": "games.beyond.experiment",
}
"""The module of each experiment, imported on demand."""


def find(name: str) -> Experiment:
    """The experiment with this name."""
    if name not in MODULES:
        raise unknown_name(name, MODULES, "is not an experiment")
    found: Experiment = import_module(f"research.{MODULES[name]}").EXPERIMENT
    return found


def experiments(prefix: str = "") -> list[Experiment]:
    """All experiments whose name begins with this prefix."""
    return [find(name) for name in MODULES if name.startswith(prefix)]
