"""Plots: lines or dots over axes with units, drawn as SVG by matplotlib.

A plot is data until its SVG is asked for, so that experiments run without matplotlib when nothing is
written. The SVG of the same data is the same text on every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]
COLOURS = ("#1f6fb4", "#d1495b", "#2e8b57", "#e09f3e", "#6a4c93", "#4a4a4a", "#17a2b8", "#a0522d")
DASHES = ("-", "--", ":", "-.")
DASHED = "--"
DPI = 72
"""With this resolution a point of an SVG is a pixel."""
SETTINGS = {
    "svg.hashsalt": "australis",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "figure.dpi": DPI,
}
METADATA = {"Date": None, "Creator": None}


@dataclass(frozen=True)
class Series:
    """One curve, or one kind of dots."""

    name: str
    points: tuple[Point, ...]
    dots_only: bool = False
    colour: str = ""
    size: float = 3.0
    """The radius of its dots."""
    dash: str | None = None
    """The style of its line; None leaves it to the plot."""


@dataclass(frozen=True)
class Plot:
    """Some series over common axes."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    width: int = 680
    height: int = 420

    def svg(self) -> str:
        """The plot as an SVG document."""
        with drawing(self.width, self.height) as figure:
            axes = figure.add_subplot()
            for i, one in enumerate(self.series):
                _draw(axes, one, i)
            self._label(axes)
            return as_svg(figure)

    def _label(self, axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        values = [y for one in self.series for _, y in one.points]
        if values and min(values) >= 0:
            axes.set_ylim(bottom=0)
        axes.set_title(self.title, fontweight="bold")
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        axes.grid(axis="y", color="#e4e4e4")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter("{x:,g}")
        if all(float(x).is_integer() for one in self.series for x, _ in one.points):
            axes.xaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10], integer=True))
        axes.legend(fontsize=8, framealpha=0.8, handlelength=3)


def _draw(axes: Axes, series: Series, number: int) -> None:
    dash = DASHES[number % len(DASHES)] if series.dash is None else series.dash
    xs, ys = [x for x, _ in series.points], [y for _, y in series.points]
    axes.plot(
        xs,
        ys,
        label=series.name,
        color=series.colour or COLOURS[number % len(COLOURS)],
        linestyle="none" if series.dots_only else dash,
        linewidth=1.6,
        marker="o",
        markersize=2 * series.size,
    )


@contextmanager
def drawing(width: int, height: int) -> Iterator[Figure]:
    """A figure of this size in pixels, with the settings of all plots."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(SETTINGS):  # type: ignore[arg-type]
        yield Figure(figsize=(width / DPI, height / DPI), layout="constrained")


def as_svg(figure: Figure) -> str:
    """A figure as an SVG document without a date."""
    into = StringIO()
    figure.savefig(into, format="svg", metadata=METADATA)
    return into.getvalue()
