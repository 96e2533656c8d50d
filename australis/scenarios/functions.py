"""The user's functions of drawn scenarios, which only Spark can call."""

from __future__ import annotations

from typing import Any


def large(frame: Any) -> Any:
    """The connections that moved much."""
    return frame.where("bytes > 1000")
