"""Files that users name."""

from __future__ import annotations

from pathlib import Path

import click

from australis.kernel.errors import UserError


def write_text(text: str, to: str) -> None:
    """Write a text to a file, or to standard output where the name is '-'."""
    if to == "-":
        click.echo(text)
        return
    try:
        Path(to).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", name=to) from None
