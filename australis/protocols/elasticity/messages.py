"""What agents tell their neighbours in a control step."""

from __future__ import annotations

from australis.kernel.machine import Message


class Said(Message, frozen=True, gc=False):
    """Something that is waited for: if it does not come it is asked for again."""

    step: int
    round: int
    iteration: int


class Proposal(Said, frozen=True, gc=False):
    """How often a task may enter at the source, as far as the sender knows (function 1)."""

    pace_s: float


class Share(Said, frozen=True, gc=False):
    """A share of what is added up by push-sum."""

    cost: float
    weight: float


class Partial(Said, frozen=True, gc=False):
    """What the sender and all below it in the tree pay together."""

    cost: float
    modules: int
    """So many are in it."""


class Total(Said, frozen=True, gc=False):
    """What all pay together, from the root on; None if somebody's part is missing."""

    cost: float | None


class Enough(Message, frozen=True, gc=False):
    """The step has ended, and what was found in this round stands."""

    step: int
    round: int


class Request(Message, frozen=True, gc=False):
    """Say this again, or that you are not there yet."""

    step: int
    round: int
    iteration: int
    kind: str


class Waiting(Message, frozen=True, gc=False):
    """I am there, but have not got so far."""

    step: int
