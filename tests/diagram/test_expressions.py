"""What expressions may be: computations over columns that have a value for every tuple."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import australis as au
from australis.diagram.expressions import FUNCTIONS, MAX_NESTING, fault
from australis.kernel.errors import UserError

SUBQUERIES = [
    "(select max(value) from text.`/etc/passwd`)",
    "port in (select 1)",
    "port + (  /* so */ SELECT 1)",
    "port + (with a as (values 1) table a)",
    "port + ((from text.`/etc/passwd` select 1))",
    "port + (values 1)",
    "port + (table t)",
    "port + (map port using 'cat' as x from t)",
    "port + (reduce port using 'cat' as x from t)",
    "port + (\u017felect 1)",  # a long s, of which Java makes a capital S
]


@pytest.mark.parametrize("expression", SUBQUERIES)
def test_subqueries_are_refused(expression: str) -> None:
    said = "holds a subquery; an expression reads the columns of its stream and nothing else"
    assert fault(expression) == said


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("exists(select 1)", None),
        ("exists /* */ (values 1)", None),
        ("raise_error('no')", "raise_error"),
        ("RAISE_ERROR ('no')", "raise_error"),
        ("assert_true(port > 0)", "assert_true"),
        ("`raise_error`('no')", "raise_error"),
        ("identifier('reflect')('java.lang.System', 'exit', 1)", "identifier"),
        ("transform(xs, x -> x + 1)", "transform"),
        ("explode(xs)", "explode"),
        ("sum(port)", "sum"),
        ("row_number() over (order by port)", "row_number"),
        ("sequence(1, port)", "sequence"),
        ("to_number(src, '999')", "to_number"),
        ("url_decode(src)", "url_decode"),
        ("my_own_function(port)", "my_own_function"),
        ("if(port > 0, 1, raise_error('no'))", "raise_error"),
    ],
)
def test_other_functions_are_refused(expression: str, name: str | None) -> None:
    said = fault(expression)
    assert said is not None
    assert name is None or said.startswith(f"calls '{name}', which is not a function that ")


@pytest.mark.parametrize("expression", ["reflect('a', 'b')", "java_method('a', 'b')", "rand()"])
def test_what_is_not_deterministic_says_why(expression: str) -> None:
    name = expression.partition("(")[0]
    said = fault(expression) or ""
    assert said.startswith(f"uses {name}: it ")
    assert said.endswith(", so two replicas would compute different results")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("system.builtin.upper(src)", "calls 'upper' with a name before it"),
        ("repeat(src, port)", "calls 'repeat' with an argument 2 that is not written out"),
        ("lpad(src, -(port), ' ')", "calls 'lpad' with an argument 2 that is not written out"),
        ("date_format(t, src)", "calls 'date_format' with an argument 2"),
        ("regexp_like(src, dst)", "calls 'regexp_like' with an argument 2"),
        ("$$'$$ || reflect('a', 'b') || $$'$$", "has '$' in an expression"),
        ("src || ${env:HOME}", "has '$' in an expression"),
        ("xs[0]", "has '[' in an expression"),
        ("port; drop", "has ';' in an expression"),
        ("'unclosed", 'has "\'" in an expression'),
        ("(" * (MAX_NESTING + 1), "parentheses inside each other"),
        ("1" + "+1" * 2_000, "more than 2,000 words and marks"),
        ("'" + "x" * 30_000 + "'", "more than 20,000 characters"),
    ],
)
def test_other_expressions_that_are_refused(expression: str, said: str) -> None:
    assert said in (fault(expression) or "")


@pytest.mark.parametrize(
    "expression",
    [
        "port > 1024 and (src = 'a' or not (dst in ('b', 'c')))",
        "case when (port) > 1 then (1) else (2) end",
        "cast(port as decimal(10,2)) + decimal(1)",
        "'(select 1)' || upper(src) || `odd (name)`",
        "extract(year from (t))",
        "trim(both from src)",
        "src is distinct from (dst)",
        "lpad(src, 10, ' ') || repeat('-', 3)",
        "split_part(src, '/', -1)",
        "date_format(t, 'yyyy-MM-dd')",
        "left.k = right.k and abs(left.v - right.w) <= 1e3",
        "p.q::string",
        "now + reflect",
        "values + 1",
    ],
)
def test_computations_over_columns_pass(expression: str) -> None:
    assert fault(expression) is None


def test_a_diagram_names_the_operator_and_the_line() -> None:
    d = au.diagram("d")
    a = d.source("a", push=True, schema="port int")
    d.map("m", a, {"y": SUBQUERIES[0]})
    with pytest.raises(UserError) as caught:
        d.done()
    assert caught.value.name == "m"
    assert caught.value.place is not None
    assert "holds a subquery" in str(caught.value)


def test_functions_are_lower_case_words() -> None:
    assert all(name == name.lower() and name.isidentifier() for name in FUNCTIONS)


def test_the_reference_lists_the_functions() -> None:
    text = (Path(__file__).parents[2] / "docs/reference/diagram-file.md").read_text()
    table = text.partition("## Expressions")[2].partition("Patterns, formats")[0]
    assert {*re.findall(r"`(\w+)`", table)} - {"_stime"} == FUNCTIONS
