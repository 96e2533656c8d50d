"""Whether to change the number of cores at all: each change costs something (not in the paper)."""

from __future__ import annotations

from dataclasses import dataclass

from australis.elasticity.cost import Module
from australis.elasticity.rounding import whole
from australis.kernel.errors import UserError


@dataclass(frozen=True)
class Inertia:
    """What keeps a module as it is."""

    cost: float = 0.0
    """A reconfiguration costs so much, in the money that cores are paid in:"""
    steps: float = 1.0
    """cores are given back only if they cost more than that over so many control steps."""
    slack: float = 0.0
    """A module may be slower than agreed by this part before it gets more."""

    def __post_init__(self) -> None:
        if min(self.cost, self.slack) < 0:
            raise UserError("should not be negative", name="cost and slack of a reconfiguration")
        if not self.steps > 0:
            raise UserError("should be more than none", name="steps that a reconfiguration lasts")

    def keeps(
        self, module: Module, cores: int, wanted: int, departure_s: float, shared: bool = False
    ) -> bool:
        """Whether it stays with what it has, if a result is due every so many seconds.

        Where the cores of a node are `shared` it keeps no more than it needs when the node is at its
        fastest: then there are enough for all.

        Too many cores cost only their module something, so it can weigh that; too few hold up
        everybody, so that only how much counts.
        """
        most = whole(module, module.service.fastest) if shared else module.most
        if cores > most or cores < 1:
            return False
        if cores >= wanted:
            return (cores - wanted) * module.core_cost * self.steps <= self.cost
        return module.service.time_s(cores) <= departure_s * (1 + self.slack)
