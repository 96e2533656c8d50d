"""The load distributions of the papers (tables 7.3 and 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Loads = NDArray[np.int32]

THESIS_LOADS = {0.5: 0.01, 0.75: -0.22, 1.25: -0.70, 1.5: -1.0}
"""The shape of the distribution for each load of the system, as a part of its capacity."""
LEAST, MOST = 1.0, 300.0


def bounded_pareto(
    low: float, high: float, shape: float, size: int | tuple[int, ...], rng: np.random.Generator
) -> Floats:
    """Draws from a bounded Pareto distribution, by inverting expression 6.9.

    With a shape of -1 it is uniform; a lower one makes for heavier loads.
    """
    u = rng.random(size)
    drawn: Floats = low * (1.0 - u * (1.0 - (low / high) ** shape)) ** (-1.0 / shape)
    return drawn


def mean(low: float, high: float, shape: float) -> float:
    """Expression 6.10.

    >>> round(mean(0.01, 1.0, -1.0), 3), round(mean(0.01, 1.0, -0.5), 2)
    (0.505, 0.37)
    """
    scale = low**shape / (1 - (low / high) ** shape)
    found = scale * shape / (shape - 1) * (low ** (1 - shape) - high ** (1 - shape))
    return float(found)


def thesis_loads(level: float, size: int, rng: np.random.Generator) -> Loads:
    """The tasks of each participant for a system with this load, as a part of its capacity."""
    drawn = bounded_pareto(LEAST, MOST, THESIS_LOADS[level], size, rng)
    return drawn.astype(np.int32)
