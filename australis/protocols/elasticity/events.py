"""Events of an agent, the effects it returns, and its options."""

from __future__ import annotations

from dataclasses import dataclass, field

from australis.elasticity.incentives import check_rounds
from australis.elasticity.inertia import Inertia
from australis.elasticity.rounding import Rounding
from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, Event


@dataclass(frozen=True)
class ElasticityOptions:
    """The options of all agents of a graph, which must be equal."""

    step_us: int = 300 * SECOND
    """The length of a control step; steps are counted from time 0."""
    rounds: int = 1
    """The maximum number of rounds; with one round there are no incentives."""
    increment: float = 0.1
    """The growth of an incentive in one round, as a fraction of the price of a core."""
    gossip: int = 0
    """The number of push-sum exchanges that add up the costs; 0: exact aggregation along a tree."""
    rounding: Rounding = Rounding.UP
    newest: float = 0.3
    """The weight of the newest measurement in the moving average; 1: no averaging."""
    inertia: Inertia = field(default_factory=Inertia)
    resend_us: int = 500 * MILLISECOND
    """The interval after which a missing message is asked for again."""
    tries: int = 8
    """The number of requests after which a silent agent is left out of a step."""
    deadline_us: int = 60 * SECOND
    """The time after which a step ends with the best outcome so far."""

    def __post_init__(self) -> None:
        check_rounds(self.increment, self.rounds)
        if self.gossip < 0:
            raise UserError(f"should not be negative, not {self.gossip}", name="gossip")
        if not 0 < self.newest <= 1:
            raise UserError(f"is {self.newest:g}: it should be a part of 1", name="newest")
        if not 0 < self.resend_us < self.deadline_us < self.step_us:
            raise UserError(
                "should be shorter than the deadline, and that than the control step", name="resend"
            )
        if self.tries < 1:
            raise UserError(f"should be at least one, not {self.tries}", name="tries")


class Started(Event, frozen=True, gc=False):
    """An incarnation starts; its module has this number of cores."""

    cores: int


class Measured(Event, frozen=True, gc=False):
    """The measurements since the last such event; None where there is none."""

    running_s: float | None = None
    """The mean time a task takes on one core."""
    every_s: float | None = None
    """At the source: the mean time between two tasks that enter the graph."""
    least_s: float | None = None
    """Where modules share the cores of a node: the least time a task can take here, given what
    tasks of all its modules take now (`elasticity.shared`)."""


class SetCores(Effect, frozen=True, gc=False):
    """Give the module this number of cores from now on."""

    cores: int


class TellSettled(Effect, frozen=True, gc=False):
    """A control step has ended with this choice of the agent."""

    step: int
    cores: int
    """The whole number of cores the module has now."""
    degree: float
    """The number of cores agreed on before rounding."""
    pace_s: float
    """The time between two tasks at the source that was agreed on."""
    incentive: float
    round: int
    """The round whose outcome is valid."""
    rounds: int
    """The number of rounds that were begun."""
    cost: float | None
    """The total cost of all agents in the valid round, if this agent knows it."""
