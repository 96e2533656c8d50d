"""Ctrl-C and SIGTERM, which service managers send, end a command in the same way."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


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


@dataclass
class Request:
    """Whether a stop was requested."""

    made: bool = False


@contextmanager
def asked_to_stop() -> Iterator[Request]:
    """Record these signals, and the end of the terminal, instead of raising, so that work can
    finish.
    """
    request = Request()

    def note(_signal: int, _frame: object) -> None:
        request.made = True

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, note) for number in numbers]
    try:
        yield request
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
