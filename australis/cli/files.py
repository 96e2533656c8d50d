"""Files that users name."""

from __future__ import annotations

from pathlib import Path

from australis.kernel.errors import UserError


def read_text(path: Path) -> str:
    """What is in a file; if it cannot be read, one sentence says why."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise UserError(f"cannot be read: {why}", name=str(path)) from None
