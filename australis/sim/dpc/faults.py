"""The faults of DPC are those of all models."""

from __future__ import annotations

from australis.sim.faults import Fault, Kind

__all__ = ["Fault", "Kind"]
