"""Faults: what goes wrong, where, when and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What goes wrong."""

    CUT = "cut"
    """No message passes between two nodes."""
    CUT_ONE_WAY = "cut one way"
    """No message passes from the first node to the second."""
    ISOLATE = "isolate"
    """The node and everybody else."""
    CRASH = "crash"
    """The node dies with its memory, and starts again from its disk."""
    WIPE = "wipe"
    """The node dies with its disk."""
    PAUSE = "pause"
    """The node stands still."""
    SLOW = "slow"
    """Its CPU is many times slower."""
    LOSSY = "lossy"
    """The links between two nodes lose, repeat and delay messages."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong and is mended after a while."""

    kind: Kind
    at_us: int
    lasts_us: int
    node: str
    other: str = ""

    @property
    def until_us(self) -> int:
        """When it is mended."""
        return self.at_us + self.lasts_us

    def __str__(self) -> str:
        where = f"{self.node} and {self.other}" if self.other else self.node
        return (
            f"{self.at_us / 1e6:8.2f} s: {self.kind.value} {where} for {self.lasts_us / 1e6:.2f} s"
        )
