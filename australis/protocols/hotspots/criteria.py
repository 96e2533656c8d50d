"""The criteria for a hot spot and for the target of a component that moves away (synergy 3.1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from australis.kernel.errors import UserError
from australis.protocols.hotspots.loads import SPANS_MIN, Averages


@dataclass(frozen=True)
class Thresholds:
    """The sensitivity of the detection."""

    overload: float = 2.0
    """h: a peer whose load exceeds this is overloaded."""
    imbalance: float = 0.2
    """l: the least difference between the highest and the lowest load that is worth a move."""
    minutes: int = 1
    """t: the span in minutes over which the average load must exceed `overload` too."""

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
    """An overloaded peer and the least loaded one that offers the same operator; the target is None
    if all such peers are equally loaded or overloaded, so that only another peer would help."""

    source: str
    target: str | None


def find(
    loads: Mapping[str, Averages], thresholds: Thresholds, running: Collection[str] | None = None
) -> HotSpot | None:
    """The hot spot among the peers that offer an operator, if there is one.

    If `running` is given, only its peers qualify as source: the others run no component to move.

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
    """Whether a component may return to the peer it came from: only if both the current and the
    average load are lower there (no ping-pong)."""
    return there.one < here.one and there.over(minutes) < here.over(minutes)
