"""What each part of a diagram does, in one short line and in full.

The short line stands in a box of a drawing; the full text shows what the user
wrote. Options are left out, but for a path: they may hold passwords.
"""

from __future__ import annotations

from collections.abc import Iterable

from australis.diagram.model import (
    ARRIVAL,
    Aggregate,
    BSort,
    CountWindow,
    Filter,
    Join,
    Map,
    Part,
    Sink,
    Source,
    Spark,
    Split,
    TimeWindow,
    Union,
)
from australis.kernel.durations import format_duration

REST = "everything else"


def summary(part: Part) -> str:
    """One short line: what the part does."""
    match part:
        case Source():
            return ", ".join(part.schema.names)
        case Sink():
            return f"to {part.options['path']}" if "path" in part.options else part.stream
        case Filter():
            return _branches(part, "; ")
        case Map():
            return ", ".join(_named(part.select))
        case Union():
            return f"{len(part.inputs)} streams into one"
        case BSort():
            return "in the order of _stime"
        case Aggregate():
            return _aggregate(part)
        case Join():
            return f"{part.on}, within {format_duration(part.within_us)}"
        case Split():
            return f"by {', '.join(part.by)} into {part.into}"
        case Spark():
            return part.function
    return ""


def details(part: Part) -> list[str]:
    """Every expression the user wrote, one a line."""
    match part:
        case Source():
            time = "on arrival" if part.time == ARRIVAL else f"from {part.time}"
            return [str(part.schema), f"time {time}, slack {format_duration(part.slack_us)}"]
        case Filter():
            return _branches(part, "\n").split("\n")
        case Map():
            return list(_named(part.select))
        case Aggregate():
            groups = [f"by {text}" for text in _named(part.by)]
            computed = [f"{name} = {call}" for name, call in part.compute]
            return [f"window {window(part.window)}", *groups, *computed]
        case Join():
            within = f"within {format_duration(part.within_us)}"
            return [f"on {part.on}", within, *_named(part.select)]
    return [summary(part)]


def window(span: TimeWindow | CountWindow) -> str:
    """A window as people say it: '60 s every 10 s', 'every 100 tuples'."""
    if isinstance(span, TimeWindow):
        size, slide = format_duration(span.size_us), format_duration(span.slide_us)
    else:
        size, slide = f"{span.size} tuples", f"{span.slide} tuples"
    return f"every {size}" if size == slide else f"{size} every {slide}"


def _aggregate(part: Aggregate) -> str:
    computed = ", ".join(str(call) for _, call in part.compute)
    groups = f" per {', '.join(name for name, _ in part.by)}" if part.by else ""
    return f"{computed}{groups}, {window(part.window)}".lstrip(", ")


def _branches(part: Filter, separator: str) -> str:
    parts = [f"{branch}: {text}" if branch else text for branch, text in part.where]
    if part.rest is not None:
        parts.append(f"{part.rest}: {REST}")
    return separator.join(parts)


def _named(pairs: Iterable[tuple[str, str]]) -> Iterable[str]:
    return (name if name == text else f"{name} = {text}" for name, text in pairs)
