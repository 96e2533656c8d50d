"""How Spark orders values and tells them apart: one NaN above all numbers, NULL below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from australis.reference.expressions import Compiled, Run
from australis.reference.numbers import NAN


def rank(kind: pa.DataType) -> Callable[[Any], Any]:
    """A key that sorts values of this type as Spark does, NULL first."""
    if pa.types.is_struct(kind):
        keys = [rank(field.type) for field in kind]
        return lambda v: (
            (0,) if v is None else (1, *[key(child) for key, child in zip(keys, v, strict=True)])
        )
    if pa.types.is_floating(kind):
        return lambda v: (0, 0) if v is None else (1, v) if v == v else (2, 0)
    return lambda v: (0, 0) if v is None else (1, v)


def distinct_key(value: Compiled) -> Run:
    """The value in a form that is equal where Spark groups: one NaN, one zero."""
    change = _same_form(value.kind)
    if change is None:
        return value.run
    run = value.run
    return lambda row: change(run(row))


def _same_form(kind: pa.DataType) -> Callable[[Any], Any] | None:
    if pa.types.is_floating(kind):
        return lambda v: None if v is None else NAN if v != v else v + 0.0
    if pa.types.is_struct(kind):
        changes = [_same_form(field.type) or (lambda v: v) for field in kind]
        return lambda v: (
            None if v is None else tuple([change(x) for change, x in zip(changes, v, strict=True)])
        )
    return None
