"""A diagram as boxes and arrows of Unicode characters, from top to bottom."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from statistics import fmean

from australis.diagram.canvas import Canvas
from australis.diagram.channel import nets, tracks
from australis.diagram.layout import Arrow, Box, Layout, layered, place
from australis.diagram.model import Diagram

GAP = 3
WRAPS = (34, 26, 20)
"""Widths of the text in a box, the widest that fits is taken."""
LINES = 2
JOG = 2

_STYLES = {"source": "╭─╮│╰╯", "operator": "┌─┐│└┘", "sink": "╔═╗║╚╝", "output": "╔═╗║╚╝"}


def draw_text(
    diagram: Diagram, fragments: Mapping[str, str] | None = None, *, width: int = 100
) -> str:
    """The diagram as boxes and arrows, or as a list if that is wider than `width`."""
    layout = layered(diagram, fragments)
    for wrap in WRAPS:
        sheet = _Sheet(layout, wrap)
        if sheet.width <= width:
            return f"{diagram.name}\n\n{sheet.draw()}\n"
    return _listing(diagram.name, layout, width)


class _Sheet:
    """The columns of all boxes, and the drawing of them."""

    def __init__(self, layout: Layout, wrap: int) -> None:
        self._layout = layout
        self._text = {key: _box_lines(box, wrap) for key, box in layout.boxes.items()}
        self._span = {key: self._box_width(key) for layer in layout.layers for key in layer}
        centres = place(layout, lambda key: self._span[key], GAP)
        self._left = {key: round(at - self._span[key] / 2) for key, at in centres.items()}
        self._starts = self._ports(_starts(layout))
        self._ends = self._ports(_ends(layout))
        self._straighten()
        self._canvas = Canvas()

    @property
    def width(self) -> int:
        """How many columns the drawing takes."""
        return max((self._left[key] + span for key, span in self._span.items()), default=0)

    def draw(self) -> str:
        """All layers and what lies between them."""
        row, layers = 0, self._layout.layers
        for at, layer in enumerate(layers, 1):
            bottom = self._draw_layer(layer, row)
            row = self._draw_channel(layer, bottom) if at < len(layers) else bottom
        return str(self._canvas)

    # --- columns -------------------------------------------------------------

    def _box_width(self, key: str) -> int:
        if key not in self._text:
            return 1
        branches = {a.branch for a in self._layout.arrows if a.start == key}
        for_ports = (len(branches) + 1) * (max(map(len, branches), default=0) + 3)
        fragment = len(self._layout.boxes[key].fragment or "") + 4
        return max([for_ports, fragment + 2, *(len(line) + 4 for line in self._text[key])])

    def _ports(self, wanted: dict[str, dict[str, list[str]]]) -> dict[tuple[str, str], int]:
        """The column of each port: spread over its box, in the order of what it leads to."""
        found = {}
        for key, ports in wanted.items():
            order = sorted(ports, key=lambda p: fmean(self._middle(other) for other in ports[p]))
            for at, port in enumerate(order, 1):
                found[key, port] = self._left[key] + self._span[key] * at // (len(order) + 1)
        return found

    def _middle(self, key: str) -> float:
        return self._left[key] + self._span[key] / 2

    def _straighten(self) -> None:
        """Move a port under or over its partner where its box is wide enough.

        A port with a single wire may go any way if its partner has no other wire either,
        and otherwise as far as takes a small jog out of a branching line.
        """
        wires = list(dict.fromkeys(self._steps()))
        starts, ends = Counter(s for s, _ in wires), Counter(e for _, e in wires)
        for start, end in wires:
            here, there = self._starts[start], self._ends[end]
            near = starts[start] == ends[end] == 1 or abs(here - there) <= JOG
            if near and ends[end] == 1 and self._may_move(self._ends, end, here):
                self._ends[end] = here
            elif near and starts[start] == 1 and self._may_move(self._starts, start, there):
                self._starts[start] = there

    def _may_move(
        self, ports: dict[tuple[str, str], int], port: tuple[str, str], column: int
    ) -> bool:
        key = port[0]
        inside = self._left[key] + 1 < column < self._left[key] + self._span[key] - 2
        return inside and sum(other == key for other, _ in ports) == 1

    def _steps(self) -> list[tuple[tuple[str, str], tuple[str, str]]]:
        """For each step of each arrow the port it leaves and the port it enters."""
        return [
            ((upper, arrow.stream), (lower, _end_port(self._layout, arrow, lower)))
            for arrow, path in self._layout.paths.items()
            for upper, lower in pairwise(path)
        ]

    # --- drawing -------------------------------------------------------------

    def _draw_layer(self, layer: list[str], row: int) -> int:
        """Draw the boxes of a layer; the row of their lower edge."""
        height = max(len(self._text.get(key, ())) for key in layer)
        bottom = row + height + 1
        for key in layer:
            if key in self._text:
                self._draw_box(key, row, height)
            else:
                self._canvas.down(-1, self._left[key], row - 1, bottom)
        for (key, _), column in self._starts.items():
            if key in layer and key in self._text:
                self._canvas.write(bottom, column, "┬")
        return bottom

    def _draw_box(self, key: str, row: int, height: int) -> None:
        box, span, left = self._layout.boxes[key], self._span[key], self._left[key]
        nw, across, ne, side, sw, se = list(_STYLES[box.role])
        mark = f"[{box.fragment}]" if box.fragment else ""
        edge = f"{nw}{across}{mark}".ljust(span - 1, across) + ne
        self._canvas.write(row, left, edge)
        lines = self._text[key]
        for at in range(height):
            text = lines[at] if at < len(lines) else ""
            if at == 0:
                text = _head(box, span - 4)
            self._canvas.write(row + 1 + at, left, f"{side} {text:<{span - 4}} {side}")
        self._canvas.write(row + height + 1, left, f"{sw}{across * (span - 2)}{se}")

    def _draw_channel(self, upper: list[str], bottom: int) -> int:
        """Draw the wires below a layer; the row of the next one."""
        steps = list(dict.fromkeys(s for s in self._steps() if s[0][0] in upper))
        branches = {(a.start, a.stream): a.branch for a in self._layout.arrows if a.start in upper}
        found = nets((self._starts[start], self._ends[end]) for start, end in steps)
        track = tracks(found)
        first = bottom + 1 + any(branches.values())
        arrow_row = first + 1 + max(track.values(), default=-1)
        for number, net in enumerate(found):
            row = first + track.get(net, 0)
            for column in net.tops:
                self._canvas.down(number, column, bottom, row)
            for column in net.ends:
                self._canvas.down(number, column, row, arrow_row)
            if not net.straight:
                self._canvas.across(number, row, net.left, net.right)
        self._label(branches, steps, bottom, arrow_row)
        return arrow_row + 1

    def _label(
        self,
        branches: dict[tuple[str, str], str],
        steps: list[tuple[tuple[str, str], tuple[str, str]]],
        bottom: int,
        arrow_row: int,
    ) -> None:
        for _, (key, port) in steps:
            if key in self._text:
                self._canvas.write(arrow_row, self._ends[key, port], "▼")
        for _, (key, port) in steps:
            if key in self._text and port:
                self._canvas.label(arrow_row, self._ends[key, port] + 2, port)
        for start, branch in branches.items():
            if branch:
                self._canvas.label(bottom + 1, self._starts[start] + 2, branch)


def _starts(layout: Layout) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for arrow, path in layout.paths.items():
        for upper, lower in pairwise(path):
            found.setdefault(upper, {}).setdefault(arrow.stream, []).append(lower)
    return found


def _ends(layout: Layout) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for arrow, path in layout.paths.items():
        for upper, lower in pairwise(path):
            port = _end_port(layout, arrow, lower)
            found.setdefault(lower, {}).setdefault(port, []).append(upper)
    return found


def _end_port(layout: Layout, arrow: Arrow, lower: str) -> str:
    return arrow.port if lower in layout.boxes else ""


def _box_lines(box: Box, wrap: int) -> list[str]:
    head = _head(box, 0)
    inner = max(wrap, len(head))
    return [head, *textwrap.wrap(box.line, inner, max_lines=LINES, placeholder=" …")]


def _head(box: Box, width: int) -> str:
    kind = box.kind if box.role in ("operator", "output") else f"{box.kind} {box.role}"
    return f"{box.name}  {kind:>{max(width - len(box.name) - 2, 0)}}"


def _listing(name: str, layout: Layout, width: int) -> str:
    lines = [name]
    for layer in layout.layers:
        for box in (layout.boxes[key] for key in layer if key in layout.boxes):
            reads = [a.stream for a in layout.arrows if a.end == box.key]
            source = f" ← {', '.join(reads)}" if reads else ""
            fragment = f" [{box.fragment}]" if box.fragment else ""
            lines += ["", f"  {_head(box, 0)}{fragment}"]
            for text in (source.strip(), box.line):
                lines += textwrap.wrap(
                    text, max(width, 20), initial_indent="    ", subsequent_indent="      "
                )
    return "\n".join(lines) + "\n"
