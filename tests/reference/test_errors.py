"""What the engine does not know is told when it is built, with the operator's place and name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reference.runs import plans

import australis as au
from australis.diagram.build import DiagramBuilder, Stream
from australis.kernel.errors import UserError
from australis.reference import ReferenceEngine

SCHEMA = "t timestamp, k string, v int, x double, d decimal(10,2), p struct<q: int>"


def refusal(make: Callable[[DiagramBuilder, Stream], object]) -> UserError:
    d = au.diagram("wrong")
    make(d, d.source("a", push=True, schema=SCHEMA, time="t"))
    diagram = d.done()
    (plan,) = plans(diagram)
    with pytest.raises(UserError) as caught:
        ReferenceEngine(plan, {"a": diagram.sources[0].schema}, diagram.buckets)
    return caught.value


def test_a_refusal_names_file_line_and_operator() -> None:
    error = refusal(lambda d, a: d.map("odd", a, {"y": "exp(x)"}))
    assert error.name == "odd"
    assert error.place is not None
    assert error.place.file.endswith("test_errors.py")
    assert "'EXP(x)', which the reference engine does not know" in str(error)


def user_function(frame: object) -> object:
    return frame


def test_user_functions_are_refused() -> None:
    error = refusal(lambda d, a: d.spark("mine", a, function=user_function))
    assert "is a spark operator, which the reference engine cannot run" in str(error)


def test_approximate_distinct_over_time_is_refused() -> None:
    error = refusal(
        lambda d, a: d.aggregate("n", a, window="1 s", compute={"n": "approx_count_distinct(v)"})
    )
    assert "approx_count_distinct in a window of time" in str(error)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("k rlike 'a+'", "does not know"),
        ("pow(x, 2)", "does not know"),
        ("t + interval 1 second", "does not know"),
        ("substring(k, x, 1)", "does not know"),
        ("round(x, -1)", "does not know"),
        ("date_format(t, 'EEE')", "does not know"),
        ("k like concat(k, '%')", "not written out"),
        ("k = 'a\\\\b'", "backslash"),
        ("v & 1 | 2", "parentheses"),
        ("v = 1 = true", "parentheses"),
        ("k || v + 1", "parentheses"),
        ("cast(1 as bigint) * d", "write the number alone"),
        ("cast(p as string)", "casts struct<q: int> to string"),
        ("nosuch + 1", "'nosuch' that is unknown"),
        ("p.r", "unknown field 'r'"),
        ("k.r", "takes the field 'r' of string"),
        ("if(v, 1, 2)", "as a condition, but it is int"),
        ("p = p", "compares structs"),
        ("t > 1", "compares timestamp with int"),
        ("case when v > 1 then p else k end", "mixes"),
        ("k in (true)", "mixes"),
        ("t * 2", "computes with timestamp"),
        ("v +", "cannot be read"),
        ("null", "of type void"),
    ],
)
def test_expressions_that_are_refused(expression: str, reason: str) -> None:
    assert reason in str(refusal(lambda d, a: d.map("m", a, {"y": expression})))


def test_a_predicate_is_boolean() -> None:
    error = refusal(lambda d, a: d.filter("f", a, "v + 1"))
    assert "has a predicate that is int, not boolean: 'v + 1'" in str(error)


def test_unlike_schemas_are_not_merged() -> None:
    error = refusal(lambda d, a: d.union("u", a, d.map("m", a, {"k": "k"})))
    assert "merges streams of unlike schemas: column 't' is timestamp in 'a'" in str(error)


@pytest.mark.parametrize("window", ["2 s", "3 tuples"])
@pytest.mark.parametrize("call", ["sum(k)", "bool_and(v)", "bit_or(x)", "stddev(t)", "median(k)"])
def test_aggregates_of_the_wrong_type(window: str, call: str) -> None:
    error = refusal(lambda d, a: d.aggregate("g", a, window=window, compute={"y": call}))
    assert f"computes {call.split('(')[0]} of" in str(error)


def test_a_join_must_not_give_two_columns_of_one_name() -> None:
    error = refusal(lambda d, a: d.join("j", a, a, within="1 s", on="left.k = right.k"))
    assert "would have two columns 't'" in str(error)
    error = refusal(lambda d, a: d.join("j", a, a, within="1 s", on="k = right.k"))
    assert "'k' that is ambiguous" in str(error)
