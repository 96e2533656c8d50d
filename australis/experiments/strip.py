"""The tuple strip of figure 5-4, and a latency chart, as SVG and as text.

A square stands for so many tuples of one bucket; what a full bucket would have more is
missing. Squares run from left to right and from top to bottom, the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from australis.experiments.measure import Delivery, What
from australis.experiments.svg import Point, document, text

MISSING = "missing"
CONTROL = "control"
STYLE = {
    What.STABLE.value: ("█", "#4caf50"),
    What.TENTATIVE.value: ("▒", "#f2c12e"),
    CONTROL: ("!", "#d32f2f"),
    MISSING: ("·", "#d0d0d0"),
}
"""Each kind of square: its letter and its colour."""


def squares(deliveries: Iterable[Delivery], per_square: int, full: int) -> Iterator[str]:
    """The kinds of the squares of what was delivered; a full bucket has `full` of them."""
    for d in deliveries:
        if d.what in (What.UNDO, What.REC_DONE):
            yield CONTROL
            continue
        there = round(d.rows / per_square)
        yield from [d.what.value] * there + [MISSING] * (full - there)


def strip_text(kinds: Iterable[str], width: int = 100) -> str:
    """The strip in letters."""
    letters = "".join(STYLE[kind][0] for kind in kinds)
    lines = [letters[i : i + width] for i in range(0, len(letters), width)]
    legend = "  ".join(f"{letter} {kind}" for kind, (letter, _) in STYLE.items())
    return "\n".join([*lines, legend])


def strip_svg(title: str, kinds: Sequence[str], across: int = 75) -> str:
    """The strip in squares."""
    side, gap, top = 8, 1, 58
    width = 2 * 20 + across * (side + gap)
    lines = -(-len(kinds) // across)
    body = list(_legend())
    for i, kind in enumerate(kinds):
        x, y = 20 + i % across * (side + gap), top + i // across * (side + gap)
        body.append(_square(x, y, side, kind))
    return document(title, width, top + lines * (side + gap) + 14, body)


def _square(x: float, y: float, side: int, kind: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{side}" height="{side}" fill="{STYLE[kind][1]}"/>'


def _legend() -> Iterator[str]:
    x = 20
    for kind in STYLE:
        name = "control (UNDO, REC_DONE)" if kind == CONTROL else kind
        yield _square(x, 36, 10, kind)
        yield text(x + 15, 45, name)
        x += 34 + 7 * len(name)


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
