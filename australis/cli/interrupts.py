"""Ctrl-C and SIGTERM, which service managers send, end a command in the same way."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM raise `KeyboardInterrupt` too."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
