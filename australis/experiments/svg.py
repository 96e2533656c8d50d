"""Plots as SVG: lines or dots over axes with units, a legend and a title."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

Point = tuple[float, float]
COLOURS = ("#1f6fb4", "#d1495b", "#2e8b57", "#e09f3e", "#6a4c93", "#4a4a4a", "#17a2b8", "#a0522d")
DASHES = ("", "6 3", "2 3", "8 3 2 3")
LEFT, RIGHT, TOP, BOTTOM = 86, 32, 44, 52
LEGEND_LINE = 18


@dataclass(frozen=True)
class Series:
    """One curve, or one kind of dots."""

    name: str
    points: tuple[Point, ...]
    dots_only: bool = False
    colour: str = ""
    size: float = 3.0
    dash: str | None = None
    """How its line is broken; None leaves it to the plot."""


@dataclass(frozen=True)
class Frame:
    """From values to places on the drawing."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int
    height: int
    top: int = TOP

    def at(self, point: Point) -> Point:
        """The place of a point."""
        (x0, x1), (y0, y1) = self.x, self.y
        inner_w, inner_h = self.width - LEFT - RIGHT, self.height - BOTTOM - self.top
        return (
            LEFT + (point[0] - x0) / (x1 - x0) * inner_w,
            self.top + (1 - (point[1] - y0) / (y1 - y0)) * inner_h,
        )


def plot(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    *,
    width: int = 680,
    height: int = 400,
    y_from_zero: bool = True,
) -> str:
    """A plot of some series."""
    top = TOP + LEGEND_LINE * _legend_lines(series, width)
    xs = [x for s in series for x, _ in s.points]
    ys = [y for s in series for _, y in s.points] + ([0.0] if y_from_zero else [])
    x_ticks = ticks(min(xs), max(xs), whole=all(x == int(x) for x in xs))
    y_ticks = ticks(min(ys), max(ys))
    frame = Frame(
        (min(x_ticks[0], *xs), max(x_ticks[-1], *xs)), (y_ticks[0], y_ticks[-1]), width, height, top
    )
    body = [
        *_axes(frame, x_ticks, y_ticks, x_label, y_label),
        *_curves(frame, series),
        *_legend(series, width),
    ]
    return document(title, width, height, body)


def document(title: str, width: int, height: int, body: Sequence[str]) -> str:
    """An SVG document with a title line."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" font-family="sans-serif" font-size="12">'
    )
    parts = [
        head,
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text(width / 2, 22, title, size=14, anchor="middle", bold=True),
        *body,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def text(
    x: float,
    y: float,
    said: str,
    *,
    size: int = 12,
    anchor: str = "start",
    bold: bool = False,
    turned: bool = False,
) -> str:
    """Some words at a place."""
    weight = ' font-weight="bold"' if bold else ""
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{weight}{turn}'
        f' fill="#222">{escape(said)}</text>'
    )


def ticks(low: float, high: float, about: int = 6, *, whole: bool = False) -> list[float]:
    """Round values that cover a range.

    >>> ticks(0, 60)
    [0, 10, 20, 30, 40, 50, 60]
    """
    if high <= low:
        high = low + 1
    raw = (high - low) / about
    if whole:
        raw = max(raw, 1.0)
    unit = 10 ** floor(log10(raw))
    step = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= raw * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def _axes(
    frame: Frame, xs: Sequence[float], ys: Sequence[float], x_label: str, y_label: str
) -> Iterator[str]:
    (left, bottom), (right, top) = (
        frame.at((frame.x[0], frame.y[0])),
        frame.at((frame.x[1], frame.y[1])),
    )
    for y in ys:
        _, at = frame.at((0, y))
        yield _line(left, at, right, at, "#e4e4e4")
        yield text(left - 8, at + 4, f"{y:,g}", anchor="end")
    for x in xs:
        at, _ = frame.at((x, 0))
        yield _line(at, bottom, at, bottom + 5, "#444")
        yield text(at, bottom + 18, f"{x:,g}", anchor="middle")
    yield _line(left, bottom, right, bottom, "#444")
    yield _line(left, bottom, left, top, "#444")
    yield text((left + right) / 2, frame.height - 12, x_label, anchor="middle")
    yield text(18, (bottom + top) / 2, y_label, anchor="middle", turned=True)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _colour(series: Series, i: int) -> str:
    return series.colour or COLOURS[i % len(COLOURS)]


def _dash(series: Series, i: int) -> str:
    return DASHES[i % len(DASHES)] if series.dash is None else series.dash


def _curves(frame: Frame, series: Sequence[Series]) -> Iterator[str]:
    for i, one in enumerate(series):
        places = [frame.at(p) for p in one.points]
        colour = _colour(one, i)
        if not one.dots_only:
            joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            dash = _dash(one, i)
            yield (
                f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"'
                f' stroke-dasharray="{dash}"/>'
            )
        for x, y in places:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{one.size}" fill="{colour}"/>'


def _places(series: Sequence[Series], width: int) -> Iterator[tuple[int, int]]:
    """Where each entry of the legend stands: x, and which line."""
    x, line = LEFT, 0
    for one in series:
        needed = 34 + 7 * len(one.name)
        if x > LEFT and x + needed > width - RIGHT:
            x, line = LEFT, line + 1
        yield x, line
        x += needed


def _legend_lines(series: Sequence[Series], width: int) -> int:
    return 1 + max((line for _, line in _places(series, width)), default=0)


def _legend(series: Sequence[Series], width: int) -> Iterator[str]:
    places = _places(series, width)
    for i, (one, (x, line)) in enumerate(zip(series, places, strict=True)):
        y = TOP + LEGEND_LINE * line
        colour = _colour(one, i)
        if not one.dots_only:
            dash = _dash(one, i)
            yield (
                f'<line x1="{x}" y1="{y - 4}" x2="{x + 20}" y2="{y - 4}" stroke="{colour}"'
                f' stroke-width="2" stroke-dasharray="{dash}"/>'
            )
        yield f'<circle cx="{x + 10}" cy="{y - 4}" r="3" fill="{colour}"/>'
        yield text(x + 25, y, one.name)
