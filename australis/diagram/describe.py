"""Describes each part of a diagram, in one short line and in full.

The short line labels a box of a drawing; the full text has the user's expressions. Options are left
out, but for a path: they may hold passwords.
"""

from __future__ import annotations

from australis.diagram.model import ARRIVAL, Operator, Part, Sink, Source
from australis.kernel.durations import format_duration


def summary(part: Part) -> str:
    """One short line that describes the part."""
    match part:
        case Source():
            return ", ".join(part.schema.names)
        case Sink():
            return f"to {part.options['path']}" if "path" in part.options else part.stream
        case Operator():
            return part.summary()
    return ""


def details(part: Part) -> list[str]:
    """Every expression the user wrote, one a line."""
    match part:
        case Source():
            time = "on arrival" if part.time == ARRIVAL else f"from {part.time}"
            idle = "" if part.idle_us is None else f", idle {format_duration(part.idle_us)}"
            return [str(part.schema), f"time {time}, slack {format_duration(part.slack_us)}{idle}"]
        case Operator():
            return part.details()
    return [summary(part)]
