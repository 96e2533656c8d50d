"""The tuple strip of figure 5-4, and a latency chart, as SVG and as text.

A square stands for a fixed number of tuples of one bucket; a bucket that is not full has fewer
squares. Squares run from left to right and from top to bottom, the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from research.plots import Point, as_svg, drawing
from research.thesis_dpc.measure import Delivery, What

MISSING = "missing"
CONTROL = "control"
STYLE = {
    What.STABLE.value: ("█", "#4caf50"),
    What.TENTATIVE.value: ("▒", "#f2c12e"),
    CONTROL: ("!", "#d32f2f"),
    MISSING: ("·", "#d0d0d0"),
}
"""The letter and the colour of each kind of square."""
LEGEND = {CONTROL: "control (UNDO, REC_DONE)"}
PITCH = 9
"""Pixels from one square to the next."""
SIDE = 0.9
"""The side of a square, as a part of the pitch."""


def squares(deliveries: Iterable[Delivery], per_square: int, full: int) -> Iterator[str]:
    """The kinds of the squares of the deliveries; a full bucket has `full` squares."""
    for d in deliveries:
        if d.what in (What.UNDO, What.REC_DONE):
            yield CONTROL
            continue
        there = round(d.rows / per_square)
        yield from [d.what.value] * there + [MISSING] * (full - there)


def strip_text(kinds: Iterable[str], width: int = 100) -> str:
    """The strip as text."""
    letters = "".join(STYLE[kind][0] for kind in kinds)
    lines = [letters[i : i + width] for i in range(0, len(letters), width)]
    legend = "  ".join(f"{letter} {kind}" for kind, (letter, _) in STYLE.items())
    return "\n".join([*lines, legend])


@dataclass(frozen=True)
class Strip:
    """The strip in squares."""

    title: str
    kinds: Sequence[str]
    across: int = 75

    def svg(self) -> str:
        """The strip as an SVG document."""
        from matplotlib.patches import Rectangle

        lines = -(-len(self.kinds) // self.across)
        width, height = (self.across + 4) * PITCH, (lines + 10) * PITCH
        with drawing(width, height) as figure:
            axes = figure.add_subplot()
            for i, kind in enumerate(self.kinds):
                at = i % self.across, lines - 1 - i // self.across
                axes.add_patch(Rectangle(at, SIDE, SIDE, color=STYLE[kind][1], linewidth=0))
            legend = [Rectangle((0, 0), 1, 1, color=colour) for _, colour in STYLE.values()]
            names = [LEGEND.get(kind, kind) for kind in STYLE]
            axes.set_xlim(0, self.across)
            axes.set_ylim(0, lines)
            axes.set_axis_off()
            figure.suptitle(self.title, fontweight="bold")
            figure.legend(legend, names, loc="outside lower center", ncols=len(names))
            return as_svg(figure)


def chart_text(
    points: Sequence[Point], x_label: str, y_label: str, width: int = 100, height: int = 10
) -> str:
    """Points as stars over a grid of letters."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    left, right, high = min(xs), max(xs), max(ys) or 1.0
    rows = [[" "] * width for _ in range(height)]
    for x, y in points:
        column = round((x - left) / ((right - left) or 1.0) * (width - 1))
        rows[height - 1 - round(max(y, 0.0) / high * (height - 1))][column] = "*"
    ticks = [f"{high * (height - 1 - i) / (height - 1):5.1f} |" for i in range(height)]
    lines = [y_label, *(t + "".join(row) for t, row in zip(ticks, rows, strict=True))]
    ends = f"{left:<8.1f}{x_label:^{width - 16}}{right:>8.1f}"
    return "\n".join([*lines, "      +" + "-" * width, "       " + ends])
