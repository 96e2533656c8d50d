"""Aggregate calls: what may be written, how it reads back, what is refused and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.diagram.aggregates import FUNCTIONS, AggregateCall, parse_aggregate
from australis.kernel.errors import UserError

ARGUMENTS = st.sampled_from(["x", "a.b", "if(x > 1, y, 0)", "coalesce(a, b)", "', '", "`a, b`"])


@st.composite
def calls(draw: st.DrawFn) -> AggregateCall:
    name = draw(st.sampled_from(sorted(FUNCTIONS)))
    least, most = FUNCTIONS[name]
    arguments = draw(st.lists(ARGUMENTS, min_size=least, max_size=most))
    distinct = name == "count" and bool(arguments) and draw(st.booleans())
    return AggregateCall(name, tuple(arguments), distinct)


@given(calls())
def test_a_call_reads_back_what_it_writes(call: AggregateCall) -> None:
    assert parse_aggregate(str(call)) == call


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("count(*)", AggregateCall("count")),
        ("count()", AggregateCall("count")),
        (" COUNT ( * ) ", AggregateCall("count")),
        ("count(distinct a, b)", AggregateCall("count", ("a", "b"), True)),
        ("count(DISTINCT(a))", AggregateCall("count", ("(a)",), True)),
        ("count(distinctive)", AggregateCall("count", ("distinctive",))),
        ("mean(x)", AggregateCall("avg", ("x",))),
        ("std(x)", AggregateCall("stddev", ("x",))),
        ("every(ok)", AggregateCall("bool_and", ("ok",))),
        ("percentile(x, 0.5)", AggregateCall("percentile", ("x", "0.5"))),
        ("max(if(a = 'x, y', 1, 2))", AggregateCall("max", ("if(a = 'x, y', 1, 2)",))),
        ("approx_count_distinct(p, 0.01)", AggregateCall("approx_count_distinct", ("p", "0.01"))),
        ("window_end()", AggregateCall("window_end")),
        ("sum(if(x = ')', 1, 0))", AggregateCall("sum", ("if(x = ')', 1, 0)",))),
        ('sum(if(x = "(", 1, 0))', AggregateCall("sum", ('if(x = "(", 1, 0)',))),
        ("percentile(`a, (b`, 0.5)", AggregateCall("percentile", ("`a, (b`", "0.5"))),
        ("max(m['a, b'])", AggregateCall("max", ("m['a, b']",))),
        ("max(x /* :) */)", AggregateCall("max", ("x /* :) */",))),
        ("max('it\\'s, (')", AggregateCall("max", ("'it\\'s, ('",))),
    ],
)
def test_what_may_be_written(text: str, call: AggregateCall) -> None:
    assert parse_aggregate(text) == call


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x", "is not one aggregate call"),
        ("sum(a) + sum(b)", "is not one aggregate call"),
        ("sum(a", "is not one aggregate call"),
        ("sum(a) / 2", "is not one aggregate call"),
        ("frobnicate(x)", "unknown aggregate 'frobnicate'"),
        ("any_value(x)", "use first or last"),
        ("collect_list(x)", "not lists"),
        ("percentile_approx(x, 0.5)", "use percentile"),
        ("max_by(x, y)", "when keys tie"),
        ("sum(*)", "only count"),
        ("count(distinct *)", "only count"),
        ("min(distinct x)", "only count takes it"),
        ("sum()", "gives sum 0 arguments; it takes 1"),
        ("sum(a, b)", "gives sum 2 arguments; it takes 1"),
        ("count(a, b)", "gives count 2 arguments; it takes 0 to 1"),
        ("sum(distinct x)", "only count takes it"),
        ("avg(distinct x)", "only count takes it"),
        ("count(distinct a,)", "gives count an empty argument"),
        ("count(distinct , a)", "gives count an empty argument"),
        ("percentile(x, )", "gives percentile an empty argument"),
        ("sum(')'", "is not one aggregate call"),
        ("sum(a) + (')'", "is not one aggregate call"),
        ("count(distinct)", "gives count 0 arguments"),
        ("percentile(x)", "gives percentile 1 arguments; it takes 2"),
    ],
)
def test_what_is_refused_says_why(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        parse_aggregate(text)
