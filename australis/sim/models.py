"""The protocols that run in the simulated world, by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from australis.kernel.errors import UserError
from australis.sim.harness.model import Model

NAMES = ("dpc", "movement", "ants", "elasticity", "contracts", "ring", "register")


def load(name: str) -> Model[Any]:
    """Import and return the model of a protocol, without importing the others."""
    if name not in NAMES:
        raise UserError(f"is not a protocol (known: {', '.join(NAMES)})", name=name)
    found: Model[Any] = import_module(f"australis.sim.{name}.model").MODEL
    return found
