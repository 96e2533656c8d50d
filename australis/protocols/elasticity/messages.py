"""Messages between the agents of neighbouring modules in a control step."""

from __future__ import annotations

from australis.kernel.machine import Message


class Said(Message, frozen=True, gc=False):
    """A message that its receiver waits for and asks for again if it does not come."""

    step: int
    round: int
    iteration: int


class Proposal(Said, frozen=True, gc=False):
    """The time between two tasks at the source that the sender proposes (function 1)."""

    pace_s: float


class Share(Said, frozen=True, gc=False):
    """A share of the sum and of the weight in push-sum."""

    cost: float
    weight: float


class Partial(Said, frozen=True, gc=False):
    """The total cost of the sender and its subtree."""

    cost: float
    modules: int
    """The number of modules in the partial sum."""


class Total(Said, frozen=True, gc=False):
    """The total cost of all agents, sent down from the root; None if a part is missing."""

    cost: float | None


class Enough(Message, frozen=True, gc=False):
    """The step has ended with the outcome of this round."""

    step: int
    round: int


class Request(Message, frozen=True, gc=False):
    """Asks for a message again; the receiver answers `Waiting` if it has not sent it yet."""

    step: int
    round: int
    iteration: int
    kind: str


class Waiting(Message, frozen=True, gc=False):
    """The sender is alive but has not got that far."""

    step: int
