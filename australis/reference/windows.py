"""Aggregates over windows of time.

State is kept by *pane*, the largest step that divides both the window's size and
its slide: a window is a row of whole panes, so each tuple is added once, however
many windows it lies in. A window is due when the boundary has passed its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from australis.diagram.model import Aggregate, TimeWindow
from australis.reference.calls import make_call
from australis.reference.expressions import Row, Scope
from australis.reference.order import distinct_key

Key = tuple[Any, ...]
Group = tuple[Any, ...]
Panes = dict[int, dict[Key, Group]]
NEVER = 1 << 62
"""A time after every boundary."""


class TimeWindows:
    """Computes one aggregate over windows of time."""

    initial: tuple[int, Panes] = (NEVER, {})
    """When the next window is due, and the groups of each pane."""

    def __init__(self, o: Aggregate, scope: Scope) -> None:
        assert isinstance(o.window, TimeWindow)
        self._size, self._slide = o.window.size_us, o.window.slide_us
        self._pane = math.gcd(self._size, self._slide)
        by = [(name, scope.compile(text)) for name, text in o.by]
        self._key = key_function([distinct_key(compiled) for _, compiled in by])
        self._calls = [make_call(call, scope, o.scale) for _, call in o.compute]
        self._lifts = [call.lift for call in self._calls]
        self._merges = [call.merge for call in self._calls]
        self._finishes = [call.finish for call in self._calls]
        self.fields: list[tuple[str, pa.DataType]] = [(name, c.kind) for name, c in by] + [
            (name, call.kind) for (name, _), call in zip(o.compute, self._calls, strict=True)
        ]

    def run(
        self, rows: list[Row], state: tuple[int, Panes], before: int, boundary: int
    ) -> tuple[list[Row], tuple[int, Panes]]:
        """Add the tuples after the boundary `before`; give the windows up to `boundary`."""
        due, panes = state
        if rows:
            panes = self._added(rows, panes)
            due = self._next_due(panes, before)
        if due - 1 > boundary:
            return [], (due, panes)
        found: list[Row] = []
        panes = dict(panes)
        while due - 1 <= boundary:
            found.extend(self._window(panes, due - self._size, due))
            expired = due - self._size + self._slide
            for pane in [pane for pane in panes if pane < expired]:
                del panes[pane]
            due = self._next_due(panes, due - 1)
        return found, (due, panes)

    def _added(self, rows: list[Row], panes: Panes) -> Panes:
        groups: dict[tuple[int, Key], list[Row]] = {}
        key, width = self._key, self._pane
        for row in rows:
            at = (row[0] // width * width, key(row))
            if at in groups:
                groups[at].append(row)
            else:
                groups[at] = [row]
        panes = dict(panes)
        copied: set[int] = set()
        for (pane, group), members in groups.items():
            if pane not in copied:
                panes[pane] = dict(panes.get(pane, ()))
                copied.add(pane)
            held = panes[pane]
            fresh = tuple([lift(members) for lift in self._lifts])
            held[group] = self._merged(held[group], fresh) if group in held else fresh
        return panes

    def _merged(self, a: Group, b: Group) -> Group:
        return tuple([merge(x, y) for merge, x, y in zip(self._merges, a, b, strict=True)])

    def _next_due(self, panes: Panes, closed_us: int) -> int:
        """The end of the first window with tuples whose last moment lies after `closed_us`."""
        if not panes:
            return NEVER
        too_early = max(min(panes), closed_us + 1) - self._size
        return (too_early // self._slide + 1) * self._slide + self._size

    def _window(self, panes: Panes, start: int, end: int) -> list[Row]:
        inside = [panes[pane] for pane in panes if start <= pane < end]
        groups = inside[0]
        if len(inside) > 1:
            groups = dict(groups)
            for more in inside[1:]:
                for key, group in more.items():
                    held = groups.get(key)
                    groups[key] = group if held is None else self._merged(held, group)
        finishes = self._finishes
        return [
            (end - 1, *key, *[f(x, start, end) for f, x in zip(finishes, group, strict=True)], 0)
            for key, group in groups.items()
        ]


def key_function(runs: list[Callable[[Row], Any]]) -> Callable[[Row], Key]:
    """The key of a row's group."""
    if not runs:
        return lambda _: ()
    if len(runs) == 1:
        (only,) = runs
        return lambda row: (only(row),)
    return lambda row: tuple([run(row) for run in runs])
