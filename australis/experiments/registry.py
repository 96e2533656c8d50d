"""All experiments, by name."""

from __future__ import annotations

from australis.experiments import (
    ants_adaptation,
    ants_beta,
    ants_beyond,
    ants_quality,
    ants_reuse,
    ants_scale,
    contracts_beyond,
    contracts_chain,
    contracts_convergence,
    contracts_membership,
    contracts_planning,
    contracts_selfish,
    contracts_speed,
    contracts_stability,
    dpc_chain,
    dpc_client,
    dpc_failures,
    dpc_overhead,
    dpc_reconcile,
    dpc_single,
    games_beyond,
    games_cost,
    games_incentives,
    games_messages,
    games_reconfigurations,
    medusa_convergence,
    medusa_prototype,
    medusa_stability,
    synergy_balance,
    synergy_beyond,
    synergy_delay,
    synergy_load_updates,
    synergy_migration_overhead,
)
from australis.experiments.claims import Experiment
from australis.kernel.errors import UserError

EXPERIMENTS: tuple[Experiment, ...] = (
    dpc_single.EXPERIMENT,
    dpc_client.EXPERIMENT,
    dpc_failures.EXPERIMENT,
    dpc_chain.EXPERIMENT,
    dpc_overhead.EXPERIMENT,
    dpc_reconcile.EXPERIMENT,
    contracts_planning.EXPERIMENT,
    contracts_convergence.EXPERIMENT,
    contracts_speed.EXPERIMENT,
    contracts_stability.EXPERIMENT,
    contracts_chain.EXPERIMENT,
    contracts_beyond.EXPERIMENT,
    contracts_selfish.EXPERIMENT,
    contracts_membership.EXPERIMENT,
    medusa_convergence.EXPERIMENT,
    medusa_prototype.EXPERIMENT,
    medusa_stability.EXPERIMENT,
    synergy_delay.EXPERIMENT,
    synergy_balance.EXPERIMENT,
    synergy_migration_overhead.EXPERIMENT,
    synergy_load_updates.EXPERIMENT,
    synergy_beyond.EXPERIMENT,
    ants_quality.EXPERIMENT,
    ants_adaptation.EXPERIMENT,
    ants_beta.EXPERIMENT,
    ants_scale.EXPERIMENT,
    ants_reuse.EXPERIMENT,
    ants_beyond.EXPERIMENT,
    games_reconfigurations.EXPERIMENT,
    games_cost.EXPERIMENT,
    games_incentives.EXPERIMENT,
    games_messages.EXPERIMENT,
    games_beyond.EXPERIMENT,
)


def find(name: str) -> Experiment:
    """The experiment of a name."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    known = ", ".join(e.name for e in EXPERIMENTS)
    raise UserError(f"is not an experiment (known: {known})", name=name)
