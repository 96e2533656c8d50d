"""All experiments, by name."""

from __future__ import annotations

from australis.experiments import (
    dpc_chain,
    dpc_client,
    dpc_failures,
    dpc_overhead,
    dpc_reconcile,
    dpc_single,
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
)


def find(name: str) -> Experiment:
    """The experiment of a name."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    known = ", ".join(e.name for e in EXPERIMENTS)
    raise UserError(f"is not an experiment (known: {known})", name=name)
