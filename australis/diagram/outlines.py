"""Outlines around groups of boxes that never take in a box of another group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PAD = 12.0


@dataclass(frozen=True)
class Rect:
    """A rectangle, in pixels."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.top + self.height

    @property
    def attributes(self) -> str:
        """Its place and size as SVG attributes."""
        return (
            f'x="{self.left:.1f}" y="{self.top:.1f}"'
            f' width="{self.width:.1f}" height="{self.height:.1f}"'
        )

    def grown(self, by: float) -> Rect:
        """The rectangle with its edges moved outwards."""
        return Rect(self.left - by, self.top - by, self.width + 2 * by, self.height + 2 * by)

    def overlaps(self, other: Rect) -> bool:
        """Whether the two have a point in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def outlines(
    members: Sequence[str], rects: Mapping[str, Rect], layers: Sequence[Sequence[str]]
) -> list[Rect]:
    """One outline if it holds no member of another group, otherwise one per run of members in each
    layer.
    """
    whole = _around([rects[key] for key in members])
    strangers = [rect for key, rect in rects.items() if key not in members]
    if not any(whole.overlaps(rect) for rect in strangers):
        return [whole]
    runs: list[list[Rect]] = []
    for layer in layers:
        runs.append([])
        for key in layer:
            if key in members:
                runs[-1].append(rects[key])
            else:
                runs.append([])
    return [_around(run) for run in runs if run]


def _around(rects: Sequence[Rect]) -> Rect:
    left, top = min(r.left for r in rects), min(r.top for r in rects)
    right, bottom = max(r.right for r in rects), max(r.bottom for r in rects)
    return Rect(left, top, right - left, bottom - top).grown(PAD)
