"""The states of a stream, and the state machine of an output (thesis 4.2, figure 4-4)."""

from __future__ import annotations

from enum import Enum, IntEnum


class State(IntEnum):
    """The state that a producer reports for a stream, best first (the order of table 4.3)."""

    STABLE = 0
    UP_FAILURE = 1
    """Inputs are missing; tentative tuples may come."""
    STABILIZATION = 2
    """The producer corrects its tentative tuples."""
    FAILURE = 3
    """The producer is blocked, recovering or unreachable."""


class Phase(Enum):
    """The phase of an output; `RECOVERING` is reported to consumers as FAILURE."""

    RECOVERING = "recovering"
    STABLE = "stable"
    UP_FAILURE = "up-failure"
    STABILIZATION = "stabilization"


class Trigger(Enum):
    """The reason for a phase change of an output."""

    CAUGHT_UP = "it has caught up with its inputs"
    CAUGHT_UP_FAILING = "it has caught up, but inputs are missing"
    INPUT_FAILED = "no stable replica of an input is left"
    RELEASED_EARLY = "a bucket had to be released before it was stable"
    MASKED = "the inputs are back, and nothing tentative is left"
    RECONCILING = "stable inputs for what was said tentatively are here"
    CORRECTED = "everything tentative is corrected"
    FAILED_AGAIN = "an input failed before everything was corrected"
    SKIPPED = "inputs are gone for good: it begins anew behind them"


TRANSITIONS: dict[tuple[Phase, Trigger], Phase] = {
    (Phase.RECOVERING, Trigger.CAUGHT_UP): Phase.STABLE,
    (Phase.RECOVERING, Trigger.CAUGHT_UP_FAILING): Phase.UP_FAILURE,
    (Phase.STABLE, Trigger.INPUT_FAILED): Phase.UP_FAILURE,
    (Phase.STABLE, Trigger.RELEASED_EARLY): Phase.UP_FAILURE,
    (Phase.UP_FAILURE, Trigger.MASKED): Phase.STABLE,
    (Phase.UP_FAILURE, Trigger.RECONCILING): Phase.STABILIZATION,
    (Phase.STABILIZATION, Trigger.CORRECTED): Phase.STABLE,
    (Phase.STABILIZATION, Trigger.FAILED_AGAIN): Phase.UP_FAILURE,
    (Phase.RECOVERING, Trigger.SKIPPED): Phase.RECOVERING,
    (Phase.UP_FAILURE, Trigger.SKIPPED): Phase.RECOVERING,
}
"""The next phase for each phase and trigger; a pair that is missing here cannot occur."""
