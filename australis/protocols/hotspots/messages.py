"""Messages between peers about hot spots; loads travel as entries of the ring."""

from __future__ import annotations

import msgspec

from australis.kernel.machine import Message
from australis.protocols.hotspots.loads import Averages


class Offer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The value a peer registers under an operator: its load, and the number of components of that
    operator it runs that are worth moving."""

    averages: Averages
    running: int


class MigrationDecision(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Tells a peer that it is a hot spot and shall move a component of an operator away."""

    operator: str
    target: str
    averages: Averages
    """The load of the target, as far as it is known."""
