"""What happens to a peer that balances load, what it wants done, and what can be set."""

from __future__ import annotations

from dataclasses import dataclass, field

from australis.kernel.durations import MINUTE
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, Event
from australis.protocols.hotspots.criteria import Thresholds
from australis.protocols.hotspots.levels import Interval, Levels, even_levels
from australis.protocols.hotspots.loads import Used


@dataclass(frozen=True)
class HotSpotOptions:
    """The settings of one peer."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    levels: tuple[Interval, ...] = even_levels(5, 0.2)
    balance_us: int = MINUTE
    """So often a peer looks at the operators it is responsible for."""
    rest_us: int = MINUTE
    """After a move a peer lets its load settle for so long before it gives another away."""

    def __post_init__(self) -> None:
        Levels(self.levels)  # refuses what does not cover the range
        if self.balance_us <= 0 or self.rest_us < 0:
            raise UserError("should take longer than nothing", name="balance and rest")


class Measured(Event, frozen=True, gc=False):
    """What this peer uses at the moment; about once a minute."""

    used: Used
    parts: dict[str, float] = {}  # noqa: RUF012 (msgspec copies it)
    """What each component adds to the load, as far as that is known."""


class Hosted(Event, frozen=True, gc=False):
    """These operators are offered here now, each with the components that run."""

    operators: dict[str, tuple[str, ...]]


class Wanted(Event, frozen=True, gc=False):
    """An application is to be composed of these operators, in this order."""

    application: str
    operators: tuple[str, ...]


class Arrived(Event, frozen=True, gc=False):
    """A component came here from another peer."""

    component: str
    source: str


class MoveEnded(Event, frozen=True, gc=False):
    """What `Move` asked for is over."""

    component: str
    done: bool


class Move(Effect, frozen=True, gc=False):
    """Move a component there (`protocols.movement`)."""

    component: str
    target: str


class Composed(Effect, frozen=True, gc=False):
    """Let an application run on these peers, one for each of its operators."""

    application: str
    peers: tuple[str, ...]


class NotComposed(Effect, frozen=True, gc=False):
    """Nobody offers this operator; or, `unreachable`, nobody could be asked who does."""

    application: str
    operator: str
    unreachable: bool


class OfferOneMore(Effect, frozen=True, gc=False):
    """Ask placement for another peer that offers an operator (criterion 2)."""

    operator: str
