"""Options that several commands have, under one name and with one meaning."""

from __future__ import annotations

from typing import Any

import click

from australis.kernel.durations import SECOND, parse_duration
from australis.kernel.errors import UserError


class Duration(click.ParamType):
    """A duration as files have it ('500 ms', '60 s', '1 h'), taken as seconds."""

    name = "DURATION"

    def __init__(self, longest_s: float | None = None, least_s: float = 0.0) -> None:
        self._longest_s = longest_s
        self._least_s = least_s

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert a written duration to seconds; a number is returned unchanged."""
        if isinstance(value, int | float):
            return float(value)
        name = param.opts[0] if param is not None else "duration"
        try:
            seconds = parse_duration(value) / SECOND
        except UserError as error:
            raise error.at(None, name) from None
        if self._longest_s is not None and seconds > self._longest_s:
            raise UserError(f"is longer than {self._longest_s:g} s: {value!r}", name=name)
        if seconds < self._least_s:
            raise UserError(f"is shorter than {self._least_s:g} s: {value!r}", name=name)
        return seconds


def former(*names: str, into: str, each_s: float = 1.0, kind: click.ParamType) -> Any:
    """An option by its former name, which is still taken but no longer shown."""

    def take(ctx: click.Context, _param: click.Parameter, value: float | None) -> None:
        if value is not None:
            ctx.params[into] = value * each_s

    return click.option(
        *names, f"former_{into}", type=kind, hidden=True, expose_value=False, callback=take
    )
