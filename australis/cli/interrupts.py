"""Ctrl-C and SIGTERM, which service managers send, end a command in the same way."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

OWN_PROCESS = "own process"
"""The object of a command's context if the process is there for this command alone."""


def owns_process() -> bool:
    """Whether the process is there for the present command alone, and may be ended with it."""
    return click.get_current_context().obj == OWN_PROCESS


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
    interrupts: bool = False
    """Whether a request raises `KeyboardInterrupt`, as it does once at most."""


@contextmanager
def asked_to_stop(*, interrupts: bool = False) -> Iterator[Request]:
    """Record these signals, and the end of the terminal, instead of raising, so that work can
    finish; if it `interrupts`, the first one raises, and those that follow disturb no stop.
    """
    request = Request(interrupts=interrupts)

    def note(_signal: int, _frame: object) -> None:
        request.made = True
        if request.interrupts:
            request.interrupts = False
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        numbers.append(signal.SIGHUP)
    before = [signal.signal(number, note) for number in numbers]
    try:
        yield request
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
