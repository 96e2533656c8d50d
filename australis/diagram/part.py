"""What sources, operators and sinks have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from australis.kernel.errors import Place


@dataclass(frozen=True, kw_only=True)
class Part:
    """A named part of a diagram.

    The name is required and stable: logs, checkpoints and metrics are keyed by it. The place where
    a part is written (`place`) is ignored when two parts are compared.
    """

    name: str
    place: Place | None = field(default=None, compare=False, repr=False)
