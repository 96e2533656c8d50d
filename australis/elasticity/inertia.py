"""The inertia of the number of cores: each change has a cost (not in the paper)."""

from __future__ import annotations

from dataclasses import dataclass

from australis.elasticity.cost import Module
from australis.elasticity.rounding import whole
from australis.kernel.errors import UserError


@dataclass(frozen=True)
class Inertia:
    """The parameters that keep a module from changing its cores."""

    cost: float = 0.0
    """The cost of a reconfiguration, in the currency of the cores' price."""
    steps: float = 1.0
    """The number of control steps over which returned cores must save more than `cost`."""
    slack: float = 0.0
    """The fraction by which a module may be slower than agreed before it gets more cores."""

    def __post_init__(self) -> None:
        if min(self.cost, self.slack) < 0:
            raise UserError("should not be negative", name="cost and slack of a reconfiguration")
        if not self.steps > 0:
            raise UserError("should be more than none", name="steps that a reconfiguration lasts")

    def keeps(
        self, module: Module, cores: int, wanted: int, departure_s: float, shared: bool = False
    ) -> bool:
        """Whether a module keeps its cores, if a result is due every `departure_s` seconds.

        Where the cores of a node are `shared` it keeps no more than it needs when the node is at
        its fastest: then there are enough for all its modules.

        Superfluous cores cost only their module, so their price decides; too few cores hold up all
        modules, so the slowdown alone decides.
        """
        most = whole(module, module.service.fastest) if shared else module.most
        if cores > most or cores < 1:
            return False
        if cores >= wanted:
            return (cores - wanted) * module.core_cost * self.steps <= self.cost
        return module.service.time_s(cores) <= departure_s * (1 + self.slack)
