"""The user's own code as an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar

from australis.diagram.operators.base import EventTime, Operator, operator
from australis.diagram.settings import (
    ONE_OR_MORE_STREAMS,
    Form,
    Streams,
    Wrong,
    read_text,
    setting,
    shown,
)
from australis.kernel.errors import UserError
from australis.kernel.names import known_names


def _function(value: Any) -> Any:
    if callable(value):
        if not hasattr(value, "__qualname__") or not hasattr(value, "__module__"):
            raise UserError(f"should be a function that was defined by 'def', not {shown(value)}")
        return value
    if not isinstance(value, str) or ":" not in value:
        raise UserError(f"should be 'module:name' or 'file.py:name', not {shown(value)}")
    return value


def _needs(value: Any) -> tuple[str, ...]:
    if value in (ALL, ANY):
        return NEEDS_ALL if value == ALL else ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not value:
        raise UserError(f"should be '{ALL}', '{ANY}' or inputs, not {shown(value)}")
    return tuple(read_text(one) for one in value)


def _write_needs(needs: tuple[str, ...]) -> Any:
    return list(needs) or ANY


ALL, ANY = "all", "any"
NEEDS_ALL = ("*",)
"""No stream has this name."""
FUNCTION: Form[str] = Form(_function)
NEEDS: Form[tuple[str, ...]] = Form(_needs, _write_needs)


@operator
class Spark(Operator):
    """The user's own function from DataFrame to DataFrame.

    Its behaviour is unknown, so it is assumed to do anything that an operator may do.
    """

    kind: ClassVar[str] = "spark"
    takes: ClassVar[Streams] = ONE_OR_MORE_STREAMS
    stateful: ClassVar[bool] = True
    function: str = setting(FUNCTION)
    """`module:name`, or `file.py:name` beside the diagram."""
    needs: tuple[str, ...] = setting(NEEDS, default=NEEDS_ALL)
    """The inputs that it cannot do without: all, as a join (the default), those named, or none as
    long as any input is there, as a union."""
    call: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def made_of(cls, values: Mapping[str, Any]) -> Operator:
        call = values["function"]
        if isinstance(call, str):
            return cls(**values)
        named = f"{call.__module__}:{call.__qualname__}"
        return cls(**{**values, "function": named, "call": call})

    @property
    def blocking_inputs(self) -> tuple[str, ...]:
        return self.inputs if self.needs == NEEDS_ALL else self.needs

    def verify(self, wrong: Wrong) -> None:
        for needed in self.needs:
            if self.needs != NEEDS_ALL and needed not in self.inputs:
                known = known_names(needed, self.inputs)
                raise wrong("needs", f"needs '{needed}', which it does not read ({known})")

    @property
    def emits_on_watermark(self) -> bool:
        return True

    @property
    def accepts(self) -> frozenset[EventTime]:
        return frozenset({EventTime.LOGGED})

    def summary(self) -> str:
        return self.function
