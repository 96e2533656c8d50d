"""Which streams are blocked while inputs are missing (thesis, appendix A).

A stream is blocked if its operator needs an input that is blocked, or has no other input:

>>> join = Box(("merged", "c"), ("pairs",), needs=("merged", "c"))
>>> union = Box(("a", "b"), ("merged",))
>>> sorted(blocked([union, join], {"a"})), sorted(blocked([union, join], {"a", "b"}))
(['a'], ['a', 'b', 'merged', 'pairs'])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Box:
    """An operator, and the inputs that it cannot do without."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Without any of these it has no output, such as a join without either input (4.1.3)."""


def blocked(boxes: Iterable[Box], missing: Iterable[str]) -> set[str]:
    """The missing streams, and all that operators, in order, cannot produce without them."""
    gone = set(missing)
    for box in boxes:
        if not gone.isdisjoint(box.needs) or gone.issuperset(box.inputs):
            gone.update(box.outputs)
    return gone
