"""What a check has found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOTHING = "nothing gives it back: begin anew from the sources"


@dataclass
class Finding:
    """A file that is not what was written, and what would repair it."""

    file: Path
    why: str
    concerns: str
    """What it belongs to: a stream, a bucket range, a node."""
    remedy: str = NOTHING
    byte: int | None = None
    repair: Callable[[], None] | None = None
    """Does what the remedy says; None where that is for a person or for the node itself."""
    harmless: bool = False
    """Whether the node loses nothing by it and repairs it when it starts."""
    repaired: bool = False

    def __str__(self) -> str:
        at = "" if self.byte is None else f", byte {self.byte}"
        return f"{self.file}{at}: {self.why} ({self.concerns})"

    def as_json(self) -> dict[str, Any]:
        """The finding for a program."""
        return {
            "file": str(self.file),
            "byte": self.byte,
            "why": self.why,
            "concerns": self.concerns,
            "remedy": self.remedy,
            "repairable": self.repair is not None,
            "harmless": self.harmless,
            "repaired": self.repaired,
        }
