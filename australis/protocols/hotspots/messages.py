"""What peers say about hot spots; loads travel as entries of the ring."""

from __future__ import annotations

import msgspec

from australis.kernel.machine import Message
from australis.protocols.hotspots.loads import Averages


class Offer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a peer registers under an operator: its load, and how many components of it it runs that
    are worth moving."""

    averages: Averages
    running: int


class MigrationDecision(Message, frozen=True, array_like=True, tag=True, gc=False):
    """You are a hot spot: let a component of this operator go there."""

    operator: str
    target: str
    averages: Averages
    """Of the target, as far as is known."""
