"""Operators over windows of time or of tuples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from australis.diagram.aggregates import AggregateCall, parse_aggregate
from australis.diagram.operators.base import EventTime, Operator, named, operator
from australis.diagram.settings import (
    COLUMNS,
    CONDITION,
    DURATION,
    GROUPS,
    INTEGER,
    TWO_STREAMS,
    Form,
    Pairs,
    Streams,
    Taker,
    Wrong,
    read_columns,
    read_duration,
    setting,
)
from australis.kernel.durations import MILLISECOND, format_duration
from australis.kernel.errors import UserError

DEFAULT_SCALE = 6
MAX_SCALE = 12
_COUNT_WINDOW = re.compile(r"\s*(\d{1,9})\s*(?:tuples?|rows?)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class TimeWindow:
    """Windows [start, start + size), one every `slide`, aligned to 1970."""

    size_us: int
    slide_us: int

    @property
    def written(self) -> tuple[str, str]:
        """Size and slide as people write them."""
        return format_duration(self.size_us), format_duration(self.slide_us)


@dataclass(frozen=True)
class CountWindow:
    """Windows of `size` tuples, one every `slide` tuples, per group."""

    size: int
    slide: int

    @property
    def written(self) -> tuple[str, str]:
        """Size and slide as people write them."""
        return f"{self.size} tuples", f"{self.slide} tuples"


Window = TimeWindow | CountWindow
Calls = tuple[tuple[str, AggregateCall], ...]


def _length(value: Any) -> tuple[type[Window], int]:
    """The length of a window or of its slide, in microseconds or in tuples."""
    counted = _COUNT_WINDOW.fullmatch(str(value))
    length = int(counted[1]) if counted else read_duration(value)
    if length < 1:
        raise UserError("should be longer than nothing")
    if not counted and length % MILLISECOND:
        raise UserError("should be whole milliseconds")
    return (CountWindow if counted else TimeWindow), length


class _WindowForm(Form[Window]):
    """A window, written as two settings: its size, and its slide if it differs."""

    def keys(self, key: str) -> tuple[str, ...]:
        return (key, "slide")

    def take(self, taker: Taker, key: str, default: Any) -> Window:
        kind, size = taker.take(key, _length)
        slide_kind, slide = taker.take("slide", _length, (kind, size))
        if slide_kind is not kind:
            raise taker.wrong(
                "slide", "has a window and a slide that must both be times or both tuples"
            )
        if slide > size:
            raise taker.wrong(
                "slide",
                "has a slide longer than its window, so that tuples between windows would be lost",
            )
        window: Window = kind(size, slide)
        return window

    def put(self, key: str, value: Window) -> dict[str, Any]:
        size, slide = value.written
        return {key: size} if slide == size else {key: size, "slide": slide}


def _read_window(value: Any) -> Window:
    kind, size = _length(value)
    return kind(size, size)


WINDOW = _WindowForm(_read_window)


def _calls(value: Any) -> Calls:
    return tuple((name, parse_aggregate(text)) for name, text in read_columns(value))


AGGREGATES: Form[Calls] = Form(
    _calls,
    lambda calls: {name: str(call) for name, call in calls},
    lambda calls: (argument for _, call in calls for argument in call.arguments),
)


@operator
class Aggregate(Operator):
    """Computes functions over windows of tuples, per group."""

    kind: ClassVar[str] = "aggregate"
    stateful: ClassVar[bool] = True
    window: Window = setting(WINDOW)
    by: Pairs = setting(GROUPS, default=())
    compute: Calls = setting(AGGREGATES)
    scale: int = setting(INTEGER, default=DEFAULT_SCALE)
    """The decimal places kept of floating-point values in sums, averages and deviations."""

    @property
    def emits_on_watermark(self) -> bool:
        return not self.counts_tuples

    @property
    def counts_tuples(self) -> bool:
        return isinstance(self.window, CountWindow)

    @property
    def reads_ids(self) -> bool:
        ordered = any(call.function in ("first", "last") for _, call in self.compute)
        return self.counts_tuples or ordered

    @property
    def reach_us(self) -> int | None:
        return self.window.size_us if isinstance(self.window, TimeWindow) else None

    @property
    def accepts(self) -> frozenset[EventTime]:
        return frozenset({EventTime.LOGGED}) if self.counts_tuples else super().accepts

    def event_time(self, inputs: Sequence[EventTime]) -> EventTime:
        return EventTime.COMPUTED if self.counts_tuples else EventTime.WINDOW

    def verify(self, wrong: Wrong) -> None:
        groups = {group.lower() for group, _ in self.by}
        for name, _ in self.compute:
            if name.lower() in groups:
                raise wrong("compute", f"computes '{name}', which is a column of 'by' already")
        if not 0 <= self.scale <= MAX_SCALE:
            raise wrong("scale", f"keeps 0 to {MAX_SCALE} decimal places")

    def summary(self) -> str:
        computed = ", ".join(str(call) for _, call in self.compute)
        groups = f" per {', '.join(name for name, _ in self.by)}" if self.by else ""
        return f"{computed}{groups}, {self._window_told()}".lstrip(", ")

    def details(self) -> list[str]:
        groups = [f"by {text}" for text in named(self.by)]
        computed = [f"{name} = {call}" for name, call in self.compute]
        return [f"window {self._window_told()}", *groups, *computed]

    def _window_told(self) -> str:
        """A window in words: '60 s every 10 s', 'every 100 tuples'."""
        size, slide = self.window.written
        return f"every {size}" if size == slide else f"{size} every {slide}"


@operator
class Join(Operator):
    """Pairs tuples of two streams that lie within a window of `_stime` and match."""

    kind: ClassVar[str] = "join"
    takes: ClassVar[Streams] = TWO_STREAMS
    stateful: ClassVar[bool] = True
    within_us: int = setting(DURATION, key="within")
    on: str = setting(CONDITION)
    select: Pairs = setting(COLUMNS, default=())

    @property
    def blocking_inputs(self) -> tuple[str, ...]:
        return self.inputs

    @property
    def reach_us(self) -> int | None:
        return self.within_us

    def verify(self, wrong: Wrong) -> None:
        if len(self.inputs) != 2:
            raise wrong(self.kind, f"joins {len(self.inputs)} streams; a join has two")

    def summary(self) -> str:
        return f"{self.on}, within {format_duration(self.within_us)}"

    def details(self) -> list[str]:
        within = f"within {format_duration(self.within_us)}"
        return [f"on {self.on}", within, *named(self.select)]
