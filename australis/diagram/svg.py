"""A diagram as a self-contained SVG picture, from left to right."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

from australis.diagram.layout import Arrow, Box, Layout, layered, place
from australis.diagram.model import Diagram
from australis.diagram.outlines import Rect, outlines

CHAR = 6.9
"""The width of a character in pixels, estimated generously, since the viewer's font is unknown."""
LINE_CHARS = 54
BOX_HEIGHT = 50.0
BEND_HEIGHT = 10.0
ROW_GAP = 34.0
OUTLINE_GAP = 14.0
COLUMN_GAP = 70.0
MARGIN = 36.0
TITLE = 30.0

_FILLS = {
    "source": ("#e6f4ea", "#3c8a57"),
    "operator": ("#eaf1fb", "#3b6fb5"),
    "sink": ("#fdf0e1", "#c07a1e"),
    "output": ("#fdf0e1", "#c07a1e"),
}
_FRAGMENT_COLOURS = ("#7a4fb0", "#b0436e", "#2f8a8a", "#8a7a2f", "#4f5fb0", "#a0522d")
_STYLE = (
    "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1c2430}"
    ".n{font-size:13px;font-weight:600}.k{font-size:11px;fill:#5c6675}.l{font-size:11.5px}"
    ".s{font-size:11px;fill:#3d4654;paint-order:stroke;stroke:#fff;stroke-width:4px}"
    ".f{font-size:11px;font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:4px}"
    ".t{font-size:16px;font-weight:600}.e{fill:none;stroke:#6b7686;stroke-width:1.5}"
)
_NOT_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


def draw_svg(diagram: Diagram, fragments: Mapping[str, str] | None = None) -> str:
    """The diagram as an SVG document; fragments are dashed outlines."""
    picture = _Picture(layered(diagram, fragments))
    width = max(picture.right + MARGIN, 2 * MARGIN + CHAR * 1.4 * len(diagram.name))
    height = picture.bottom + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
            f"<title>{_text(diagram.name)}</title>",
            f"<style>{_STYLE}</style>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7"'
            ' markerHeight="7" orient="auto"><path d="M0,0.5 L8,4 L0,7.5 z" fill="#6b7686"/>'
            "</marker></defs>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text class="t" x="{MARGIN:g}" y="30">{_text(diagram.name)}</text>',
            *picture.fragments(),
            *picture.arrows(),
            *picture.boxes(),
            *picture.labels(),
            "</svg>\n",
        ]
    )


class _Picture:
    """The positions of all parts, and the elements that show them."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        outlined = any(box.fragment for box in layout.boxes.values())
        centres = place(layout, self._height, ROW_GAP + (OUTLINE_GAP if outlined else 0.0))
        self._y = {key: MARGIN + TITLE + at for key, at in centres.items()}
        self._columns: list[_Column] = []
        left = MARGIN
        for layer in layout.layers:
            column = _Column(left, max(_width(layout.boxes.get(key)) for key in layer))
            self._columns.append(column)
            left = column.right + COLUMN_GAP + self._label_room(layer)
        self._column = {
            key: column
            for layer, column in zip(layout.layers, self._columns, strict=True)
            for key in layer
        }
        self._rects = {key: self._rect(box) for key, box in layout.boxes.items()}

    @property
    def right(self) -> float:
        """The right edge of the last column."""
        return self._columns[-1].right if self._columns else MARGIN

    @property
    def bottom(self) -> float:
        """The lower edge of the lowest box."""
        return max((rect.bottom for rect in self._rects.values()), default=MARGIN + TITLE)

    def _height(self, key: str) -> float:
        return BOX_HEIGHT if key in self._layout.boxes else BEND_HEIGHT

    def _label_room(self, layer: list[str]) -> float:
        leaving = [a for a in self._layout.arrows if a.start in layer]
        return max((CHAR * len(_label(a)) for a in leaving), default=0.0)

    def _rect(self, box: Box) -> Rect:
        column, width = self._column[box.key], _width(box)
        left = column.left + (column.width - width) / 2
        return Rect(left, self._y[box.key] - BOX_HEIGHT / 2, width, BOX_HEIGHT)

    # --- elements ------------------------------------------------------------

    def boxes(self) -> list[str]:
        """One group per box: its shape, its name, its summary, and a title with its details."""
        return [_box_element(box, self._rects[key]) for key, box in self._layout.boxes.items()]

    def arrows(self) -> list[str]:
        """One path per arrow."""
        return [
            f'<path class="e" d="{self._route(path)}" marker-end="url(#arrow)"/>'
            for path in self._layout.paths.values()
        ]

    def _route(self, path: list[str]) -> str:
        """Curves between the columns, straight lines across them."""
        parts = [f"M{self._rects[path[0]].right:.1f},{self._y[path[0]]:.1f}"]
        for one, two in pairwise(path):
            out, into = self._column[one].right, self._column[two].left
            middle, y1, y2 = (out + into) / 2, self._y[one], self._y[two]
            parts.append(
                f"H{out:.1f} C{middle:.1f},{y1:.1f} {middle:.1f},{y2:.1f} {into:.1f},{y2:.1f}"
            )
        parts.append(f"H{self._rects[path[-1]].left:.1f}")
        return " ".join(parts)

    def labels(self) -> list[str]:
        """Names of streams where they leave a box, sides of joins where they enter one."""
        found: dict[str, None] = {}
        for arrow, path in self._layout.paths.items():
            if _label(arrow):
                found[self._on_curve(path[0], path[1], 0.45, _label(arrow))] = None
            if arrow.port:
                found[self._on_curve(path[-2], path[-1], 0.6, arrow.port)] = None
        return list(found)

    def _on_curve(self, one: str, two: str, t: float, text: str) -> str:
        """A label on the curve between two columns, where t goes from 0 to 1 along it."""
        out, into = self._column[one].right, self._column[two].left
        x = out + (into - out) * (1.5 * t * (1 - t) + t**3)
        y = self._y[one] + (self._y[two] - self._y[one]) * (3 * t * t - 2 * t**3)
        return _label_element(x, y - 5, text)

    def fragments(self) -> list[str]:
        """Dashed outlines around the boxes of each fragment."""
        members: dict[str, list[str]] = {}
        for key, box in self._layout.boxes.items():
            if box.fragment is not None:
                members.setdefault(box.fragment, []).append(key)
        order = [[k for k in layer if k in self._rects] for layer in self._layout.layers]
        elements = []
        for number, (name, keys) in enumerate(members.items()):
            colour = _FRAGMENT_COLOURS[number % len(_FRAGMENT_COLOURS)]
            for rect in outlines(keys, self._rects, order):
                elements.append(_outline_element(name, rect, colour))
        return elements


@dataclass(frozen=True)
class _Column:
    left: float
    width: float

    @property
    def right(self) -> float:
        return self.left + self.width


def _label(arrow: Arrow) -> str:
    return arrow.stream if arrow.branch else ""


def _kind(box: Box) -> str:
    return box.kind if box.role in ("operator", "output") else f"{box.kind} {box.role}"


def _line(box: Box) -> str:
    return box.line if len(box.line) <= LINE_CHARS else box.line[: LINE_CHARS - 1] + "…"


def _width(box: Box | None) -> float:
    if box is None:
        return BEND_HEIGHT
    head = 1.12 * len(box.name) + len(_kind(box)) + 3
    return 24 + CHAR * max(head, len(_line(box)))


def _box_element(box: Box, rect: Rect) -> str:
    fill, stroke = _FILLS[box.role]
    radius = BOX_HEIGHT / 2 if box.role == "source" else 4
    shape = f'rx="{radius:g}" fill="{fill}" stroke="{stroke}" stroke-width="1.5"'
    inset = 14 if box.role == "source" else 12
    left, right = rect.left + inset, rect.right - inset
    inner = ""
    if box.role in ("sink", "output"):
        within = rect.grown(-3)
        inner = f'<rect {within.attributes} rx="2" fill="none" stroke="{stroke}"/>'
    return (
        f'<g class="{box.role}"><title>{_text(box.title)}</title>'
        f'<rect {rect.attributes} {shape} data-name="{_text(box.name)}"/>{inner}'
        f'<text class="n" x="{left:.1f}" y="{rect.top + 21:.1f}">{_text(box.name)}</text>'
        f'<text class="k" x="{right:.1f}" y="{rect.top + 21:.1f}" text-anchor="end">'
        f"{_text(_kind(box))}</text>"
        f'<text class="l" x="{left:.1f}" y="{rect.top + 38:.1f}">{_text(_line(box))}</text></g>'
    )


def _outline_element(name: str, rect: Rect, colour: str) -> str:
    return (
        f'<g class="fragment"><rect {rect.attributes} rx="10" fill="{colour}" fill-opacity="0.05"'
        f' stroke="{colour}" stroke-width="1.3" stroke-dasharray="6 4"/>'
        f'<text class="f" x="{rect.left + 8:.1f}" y="{rect.top - 4:.1f}" style="fill:{colour}">'
        f"{_text(name)}</text></g>"
    )


def _label_element(x: float, y: float, text: str) -> str:
    return f'<text class="s" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{_text(text)}</text>'


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("�", text), {'"': "&quot;"})
