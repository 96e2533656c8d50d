"""The present step of a command, on standard error."""

from __future__ import annotations

import sys

import click


class StepLine:
    """Lines on standard error; on a terminal each one replaces the last."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._replaces = sys.stderr.isatty()

    def __call__(self, line: str) -> None:
        if not self._quiet:
            click.echo(
                f"\r\033[K{line}" if self._replaces else line, nl=not self._replaces, err=True
            )

    def end(self) -> None:
        """Clear the line."""
        if self._replaces:
            self("")
