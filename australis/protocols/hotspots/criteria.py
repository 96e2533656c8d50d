"""When is a peer a hot spot, and where should a component of it go (synergy 3.1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from australis.kernel.errors import UserError
from australis.protocols.hotspots.loads import SPANS_MIN, Averages


@dataclass(frozen=True)
class Thresholds:
    """How sensitive the detection is."""

    overload: float = 2.0
    """h: a peer with more than this load is overloaded."""
    imbalance: float = 0.2
    """l: more than this between the most and the least loaded is worth a move."""
    minutes: int = 1
    """t: the overload must also show in the average over so many minutes."""

    def __post_init__(self) -> None:
        if self.imbalance < 0 or self.overload <= 0:
            raise UserError("should be positive", name="overload and imbalance")
        if self.overload < self.imbalance:
            raise UserError(
                f"is {self.overload:g}, less than the imbalance of {self.imbalance:g}:"
                " a peer would be overloaded before a difference counts",
                name="overload",
            )
        if self.minutes not in SPANS_MIN:
            spans = ", ".join(map(str, SPANS_MIN))
            raise UserError(f"is {self.minutes}: it should be one of {spans}", name="minutes")


@dataclass(frozen=True)
class HotSpot:
    """An overloaded peer, and the one that offers the same and has least to do; None: all that
    offer it are equally loaded, or overloaded too, and only one more of them would help."""

    source: str
    target: str | None


def find(
    loads: Mapping[str, Averages], thresholds: Thresholds, running: Collection[str] | None = None
) -> HotSpot | None:
    """The hot spot among the peers that offer an operator, if there is one.

    It is one of those that are `running` a component of it, if that is said: the others have
    nothing to let go.

    >>> loads = {"a": Averages(3.0, 2.5, 1.0), "b": Averages(0.5, 0.4, 0.4)}
    >>> find(loads, Thresholds())
    HotSpot(source='a', target='b')
    >>> find(loads, Thresholds(minutes=15)), find({"a": loads["a"]}, Thresholds())
    (None, HotSpot(source='a', target=None))
    """
    order = sorted(loads, key=lambda peer: (loads[peer].one, peer))
    sources = [peer for peer in order if running is None or peer in running]
    if not sources:
        return None
    least, most = order[0], sources[-1]
    hottest = loads[most]
    if (
        hottest.one <= thresholds.overload
        or hottest.over(thresholds.minutes) <= thresholds.overload
    ):
        return None
    coolest = loads[least].one
    if hottest.one - coolest <= thresholds.imbalance or coolest > thresholds.overload:
        return HotSpot(most, None)
    return HotSpot(most, least)


def inverted(here: Averages, there: Averages, minutes: int) -> bool:
    """Whether a component may go back to where it came from: both the current and the average
    load must be lower there (no ping-pong)."""
    return there.one < here.one and there.over(minutes) < here.over(minutes)
