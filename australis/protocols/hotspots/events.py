"""Events of a peer that balances load, the effects it returns, and its options."""

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
    """The options of one peer."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    levels: tuple[Interval, ...] = even_levels(5, 0.2)
    balance_us: int = MINUTE
    """The interval at which a peer checks the operators it is responsible for."""
    rest_us: int = MINUTE
    """The time a peer lets its load settle after a move before it moves another component."""

    def __post_init__(self) -> None:
        Levels(self.levels)  # refuses intervals that do not cover the range
        if self.balance_us <= 0 or self.rest_us < 0:
            raise UserError("should take longer than nothing", name="balance and rest")


class Measured(Event, frozen=True, gc=False):
    """The resources that this peer uses at the moment, measured about once a minute."""

    used: Used
    parts: dict[str, float] = {}  # noqa: RUF012 (msgspec copies it)
    """The load that each component adds, for the components where it is known."""


class Hosted(Event, frozen=True, gc=False):
    """The operators that this peer offers now, each with the components that run."""

    operators: dict[str, tuple[str, ...]]


class Wanted(Event, frozen=True, gc=False):
    """The user wants an application composed of these operators, in this order."""

    application: str
    operators: tuple[str, ...]


class Arrived(Event, frozen=True, gc=False):
    """A component has arrived here from another peer."""

    component: str
    source: str


class MoveEnded(Event, frozen=True, gc=False):
    """The move that `Move` asked for has ended."""

    component: str
    done: bool


class Move(Effect, frozen=True, gc=False):
    """Move a component to a target peer (`protocols.movement`)."""

    component: str
    target: str


class Composed(Effect, frozen=True, gc=False):
    """Run an application on these peers, one for each of its operators."""

    application: str
    peers: tuple[str, ...]


class NotComposed(Effect, frozen=True, gc=False):
    """No peer offers this operator; or, if `unreachable`, the ring could not be asked."""

    application: str
    operator: str
    unreachable: bool


class OfferOneMore(Effect, frozen=True, gc=False):
    """Ask placement for another peer that offers an operator (criterion 2)."""

    operator: str
