"""A grid of characters on which boxes and wires are drawn.

Wires are kept as the sides of each cell they touch and become box characters at
the end, so that corners and junctions come out right. Where two wires merely
cross, the vertical one passes over the other.
"""

from __future__ import annotations

N, S, W, E = 1, 2, 4, 8
_GLYPHS = {
    **dict.fromkeys((N, S, N | S), "│"),
    **dict.fromkeys((W, E, W | E), "─"),
    S | E: "┌",
    S | W: "┐",
    N | E: "└",
    N | W: "┘",
    N | S | E: "├",
    N | S | W: "┤",
    W | E | S: "┬",
    W | E | N: "┴",
    N | S | W | E: "┼",
}


class Canvas:
    """Characters and wires by row and column."""

    def __init__(self) -> None:
        self._chars: dict[tuple[int, int], str] = {}
        self._wires: dict[tuple[int, int], dict[int, int]] = {}

    def write(self, row: int, column: int, text: str) -> None:
        """Write a text, over what is there."""
        for at, char in enumerate(text):
            self._chars[row, column + at] = char

    def label(self, row: int, column: int, text: str) -> None:
        """Write a text if nothing is there yet."""
        cells = [(row, column + at) for at in range(-1, len(text) + 1)]
        if not any(cell in self._chars or cell in self._wires for cell in cells):
            self.write(row, column, text)

    def down(self, net: int, column: int, top: int, bottom: int) -> None:
        """A vertical wire."""
        for row in range(top, bottom):
            self._touch(net, row, column, S)
            self._touch(net, row + 1, column, N)

    def across(self, net: int, row: int, left: int, right: int) -> None:
        """A horizontal wire."""
        for column in range(left, right):
            self._touch(net, row, column, E)
            self._touch(net, row, column + 1, W)

    def _touch(self, net: int, row: int, column: int, side: int) -> None:
        sides = self._wires.setdefault((row, column), {})
        sides[net] = sides.get(net, 0) | side

    def __str__(self) -> str:
        cells = {at: _glyph(list(sides.values())) for at, sides in self._wires.items()}
        cells.update(self._chars)
        rows: dict[int, dict[int, str]] = {}
        for (row, column), char in cells.items():
            rows.setdefault(row, {})[column] = char
        lines = []
        for row in range(max(rows, default=-1) + 1):
            line = rows.get(row, {})
            lines.append("".join(line.get(c, " ") for c in range(max(line, default=-1) + 1)))
        return "\n".join(line.rstrip() for line in lines)


def _glyph(sides: list[int]) -> str:
    if len(sides) > 1 and all(side in (N | S, W | E) for side in sides):
        return "│"
    whole = 0
    for side in sides:
        whole |= side
    return _GLYPHS[whole]
