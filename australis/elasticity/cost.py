"""The cost of a module: its cores, and the time between its results (games 4.2, 5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from australis.elasticity.service import Feed, ServiceTime
from australis.kernel.errors import UserError


@dataclass(frozen=True)
class Module:
    """A module, as its own agent knows it."""

    name: str
    service: ServiceTime
    delay_price: float
    """alpha: the price of a second between two results."""
    core_price: float
    """beta: the price of a core per unit of time."""
    most: int
    """The maximum number of cores of the module."""
    period: float = 1.0
    """tau: the number of units of time in a control step."""
    fixed: float = 0.0
    """The fixed cost of the module in a control step."""

    def __post_init__(self) -> None:
        if isinstance(self.service, Feed):
            return
        for what, value in (
            ("price for delay", self.delay_price),
            ("price for a core", self.core_price),
            ("control step", self.period),
        ):
            if not 0 < value < inf:
                raise UserError(f"has a {what} of {value:g}, not above 0", name=self.name)
        if not 0 <= self.fixed < inf:
            raise UserError(f"has a fixed cost of {self.fixed:g}, below 0", name=self.name)
        if not 1 <= self.most < inf:
            raise UserError(f"may have {self.most:g} cores, not at least 1", name=self.name)

    @property
    def core_cost(self) -> float:
        """The price of a core per control step."""
        return self.core_price * self.period

    @property
    def limit(self) -> float:
        """The largest number of cores that is both allowed and useful."""
        return min(float(self.most), self.service.fastest)

    # --- costs ------------------------------------------------------------------------------------

    def resource_cost(self, degree: float) -> float:
        """The cost of the cores in a control step (expression 6)."""
        return self.core_cost * degree + self.fixed

    def cost(self, degree: float, departure_s: float) -> float:
        """The cost with this number of cores and this time between two results (expression 5)."""
        return self.delay_price * departure_s + self.resource_cost(degree)

    # --- choices ------------------------------------------------------------------------------------

    def ideal_degree(self, incentive: float = 0.0) -> float:
        """The number of cores it would choose alone (expression 10), with an incentive (games 5.2).

        With an incentive equal to the price of a core it takes every core that helps.

        >>> from australis.elasticity.service import Ideal
        >>> round(Module("m", Ideal(14.44), 0.5, 0.0177, 32).ideal_degree(), 1)
        20.2
        """
        if isinstance(self.service, Feed):
            return 0.0
        price_s = (self.core_price - incentive) * self.period / self.delay_price
        return min(self.service.worth(price_s), float(self.most))

    def needed_degree(self, departure_s: float) -> float:
        """The fewest cores with which it is at least this fast, or all useful cores if none are
        enough (n with a bar, expression 11)."""
        return min(self.service.degree(departure_s), float(self.most))

    def best_response(self, others_s: float, incentive: float = 0.0) -> float:
        """The cores it chooses if the others allow it one result per this time (proposition 4.6):
        no more than it needs for that, nor than it would choose alone."""
        ideal = self.ideal_degree(incentive)
        return min(ideal, self.needed_degree(others_s)) if others_s > 0 else ideal


def virtual_source(name: str, every_s: float) -> Module:
    """The module that joins several sources: it has no cores and no cost."""
    return Module(name, Feed(every_s), 0.0, 0.0, 0)
