"""What happens to an agent, what it wants done, and what can be set."""

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
    """The settings of all agents of a graph; they have to be the same."""

    step_us: int = 300 * SECOND
    """How long a control step is; steps are counted from when clocks showed 0."""
    rounds: int = 1
    """So many rounds are played at most; with one, everybody looks after itself."""
    increment: float = 0.1
    """By this part of the price of a core an incentive grows in a round."""
    gossip: int = 0
    """What all pay is added up by so many exchanges of push-sum; 0: along a tree, exactly."""
    rounding: Rounding = Rounding.UP
    newest: float = 0.3
    """How much the newest measurement counts in the average; 1: nothing else does."""
    inertia: Inertia = field(default_factory=Inertia)
    resend_us: int = 500 * MILLISECOND
    """What has not come after so long is asked for again,"""
    tries: int = 8
    """so often; whoever has not been heard of then is left out of this step."""
    deadline_us: int = 60 * SECOND
    """So long after its beginning a step ends with what there is."""

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
    """A life begins; the module has so many cores."""

    cores: int


class Measured(Event, frozen=True, gc=False):
    """What was measured since the last time, as far as anything was."""

    running_s: float | None = None
    """How long a task takes on one core, on average."""
    every_s: float | None = None
    """At the source: the time between two tasks that come from outside, on average."""
    least_s: float | None = None
    """Where modules share the cores of a node: a task cannot take less here, by what all of them take
    now (`elasticity.shared`)."""


class SetCores(Effect, frozen=True, gc=False):
    """Let the module have so many cores from now on."""

    cores: int


class TellSettled(Effect, frozen=True, gc=False):
    """A control step has ended: what this agent has chosen in it."""

    step: int
    cores: int
    """What the module has now, whole,"""
    degree: float
    """and what was agreed on before rounding."""
    pace_s: float
    """The time between two tasks at the source that was agreed on."""
    incentive: float
    round: int
    """The round whose outcome stands,"""
    rounds: int
    """of so many that were begun."""
    cost: float | None
    """What all pay together in that round, if this agent knows."""
