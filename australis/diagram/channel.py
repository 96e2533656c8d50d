"""Wires between two layers of a text drawing.

A *net* joins ports of the upper layer with ports of the lower one, all with all.
It runs down, across on a track of its own, and down again; nets share a track
where they do not touch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Net:
    """Columns above, columns below, each joined with each."""

    tops: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def left(self) -> int:
        """Its leftmost column."""
        return min(self.tops + self.ends)

    @property
    def right(self) -> int:
        """Its rightmost column."""
        return max(self.tops + self.ends)

    @property
    def straight(self) -> bool:
        """Whether it needs no track."""
        return self.left == self.right


def nets(wires: Iterable[tuple[int, int]]) -> list[Net]:
    """Combine wires (column above, column below) into as few nets as possible without adding
    connections.
    """
    ends: dict[int, set[int]] = {}
    for top, end in wires:
        ends.setdefault(top, set()).add(end)
    tops: dict[tuple[int, ...], list[int]] = {}
    for top in sorted(ends):
        tops.setdefault(tuple(sorted(ends[top])), []).append(top)
    return [Net(tuple(above), below) for below, above in tops.items()]


def tracks(found: list[Net]) -> dict[Net, int]:
    """The track of each net that is not straight, counted from above."""
    track: dict[Net, int] = {}
    waiting = [net for net in found if not net.straight]
    while waiting:
        # A wire that comes down a column must turn off before another goes on in it.
        free = [n for n in waiting if not any(_over(other, n) for other in waiting)]
        net = min(free or waiting, key=lambda n: (n.right - n.left, n.left))
        waiting.remove(net)
        at = 1 + max((track[other] for other in track if _over(other, net)), default=-1)
        while any(t == at and _touch(net, other) for other, t in track.items()):
            at += 1
        track[net] = at
    return track


def _over(upper: Net, lower: Net) -> bool:
    return upper is not lower and bool(set(upper.tops) & set(lower.ends))


def _touch(one: Net, two: Net) -> bool:
    return one.left <= two.right + 1 and two.left <= one.right + 1
