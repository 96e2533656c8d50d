"""The states of a stream, and the state machine of an output (thesis 4.2, figure 4-4)."""

from __future__ import annotations

from enum import Enum, IntEnum


class State(IntEnum):
    """What a producer says of a stream, best first (the order of table 4.3)."""

    STABLE = 0
    UP_FAILURE = 1
    """Inputs are missing; tentative tuples may come."""
    STABILIZATION = 2
    """It corrects what it had said tentatively."""
    FAILURE = 3
    """Blocked, recovering or unreachable."""


class Phase(Enum):
    """Where an output stands; `RECOVERING` is told to others as FAILURE."""

    RECOVERING = "recovering"
    STABLE = "stable"
    UP_FAILURE = "up-failure"
    STABILIZATION = "stabilization"


class Turn(Enum):
    """Why an output goes from one phase to another."""

    CAUGHT_UP = "it has caught up with its inputs"
    CAUGHT_UP_FAILING = "it has caught up, but inputs are missing"
    INPUT_FAILED = "no stable replica of an input is left"
    RELEASED_EARLY = "a bucket had to be released before it was stable"
    MASKED = "the inputs are back, and nothing tentative is left"
    RECONCILING = "stable inputs for what was said tentatively are here"
    CORRECTED = "everything tentative is corrected"
    FAILED_AGAIN = "an input failed before everything was corrected"
    SKIPPED = "inputs are gone for good: it begins anew behind them"


TRANSITIONS: dict[tuple[Phase, Turn], Phase] = {
    (Phase.RECOVERING, Turn.CAUGHT_UP): Phase.STABLE,
    (Phase.RECOVERING, Turn.CAUGHT_UP_FAILING): Phase.UP_FAILURE,
    (Phase.STABLE, Turn.INPUT_FAILED): Phase.UP_FAILURE,
    (Phase.STABLE, Turn.RELEASED_EARLY): Phase.UP_FAILURE,
    (Phase.UP_FAILURE, Turn.MASKED): Phase.STABLE,
    (Phase.UP_FAILURE, Turn.RECONCILING): Phase.STABILIZATION,
    (Phase.STABILIZATION, Turn.CORRECTED): Phase.STABLE,
    (Phase.STABILIZATION, Turn.FAILED_AGAIN): Phase.UP_FAILURE,
    (Phase.RECOVERING, Turn.SKIPPED): Phase.RECOVERING,
    (Phase.UP_FAILURE, Turn.SKIPPED): Phase.RECOVERING,
}
"""What this table lacks must not happen."""
