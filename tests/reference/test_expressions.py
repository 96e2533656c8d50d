"""Expressions: Spark's types and values, without ANSI mode."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.kernel.errors import UserError
from australis.reference import types as t
from australis.reference.calls import percentile
from australis.reference.casts import java_decimal, java_float
from australis.reference.hashing import xxh64
from australis.reference.numbers import divide_half_up, float32, round_half_up, wrap
from australis.reference.operators import scope_of
from australis.streams.schema import parse_schema

SCHEMA = (
    "a int, b bigint, s smallint, x double, f float, k string, d decimal(10,2),"
    " e decimal(20,5), t timestamp, o boolean, day date, p struct<q: int, r: string>, nul int"
)
SCOPE = scope_of(parse_schema(SCHEMA))
ROW = (
    1_000_000, 7, -9, 300, 2.5, 1.5, "Ash", 12345, 10**9 + 1, 1_760_000_000_123_456, True, 20000,
    (4, "z"), None, 99,
)  # fmt: skip

EXPRESSIONS = {
    # integers keep their type and wrap
    "a + 1": ("int", 8),
    "a + b": ("bigint", -2),
    "s * s": ("smallint", 24464),
    "2147483647 + 1": ("int", -(2**31)),
    "9223372036854775807 + 1": ("bigint", -(2**63)),
    "-2147483648": ("int", -(2**31)),
    "abs(-2147483648)": ("int", -(2**31)),
    # division
    "a / 2": ("double", 3.5),
    "a div 2": ("bigint", 3),
    "b div 2": ("bigint", -4),
    "b % 4": ("bigint", -1),
    "pmod(b, 4)": ("bigint", 3),
    "x / 0": ("double", None),
    "a % 0": ("int", None),
    "a div 0": ("bigint", None),
    "x % 1": ("double", 0.5),
    # floating point
    "f * 2": ("float", 3.0),
    "a * f": ("float", 10.5),
    "f + x": ("double", 4.0),
    "1.1F + 0": ("float", float32(1.1)),
    # decimals
    "0.908 * b": ("decimal(24,3)", -8172),
    "d * 2": ("decimal(12,2)", 24690),
    "d + e": ("decimal(21,5)", 1_012_345_001),
    "d * e": ("decimal(31,7)", 12_345_000_012_345),
    "d / e": ("decimal(36,23)", 1_234_499_998_765_500_001_234),
    "d % 3": ("decimal(3,2)", 45),
    "d / 0": ("decimal(14,6)", None),
    "d + x": ("double", 125.95),
    "cast(99999999.99 + d as decimal(10,2))": ("decimal(10,2)", None),
    # three-valued logic
    "nul > 1": ("boolean", None),
    "nul > 1 and a > 100": ("boolean", False),
    "nul > 1 and a > 1": ("boolean", None),
    "nul > 1 or a > 1": ("boolean", True),
    "a > 100 or nul > 1": ("boolean", None),
    "not (nul > 1)": ("boolean", None),
    "nul is null": ("boolean", True),
    "nul <=> null": ("boolean", True),
    "a <=> null": ("boolean", False),
    "a in (1, 7)": ("boolean", True),
    "a not in (1, null)": ("boolean", None),
    "a between 1 and nul": ("boolean", None),
    "a not between 8 and 9": ("boolean", True),
    # comparison across types
    "d = 123.45": ("boolean", True),
    "d > 100": ("boolean", True),
    "a = '7'": ("boolean", True),
    "a = 'x'": ("boolean", None),
    "t > '2020-01-01'": ("boolean", True),
    "day < t": ("boolean", True),
    "double('nan') = double('nan')": ("boolean", True),
    "double('nan') > 1e300": ("boolean", True),
    "k like 'A%'": ("boolean", True),
    "k not like '_s_'": ("boolean", False),
    "k ilike 'a%'": ("boolean", True),
    # choices
    "case when a > 3 then 'x' else k end": ("string", "x"),
    "case a when 7 then 1 when 8 then 2 end": ("int", 1),
    "if(o, a, x)": ("double", 7.0),
    "coalesce(nul, b)": ("bigint", -9),
    "nvl(nul, 1.5)": ("decimal(11,1)", 15),
    "nvl2(nul, 1, 2)": ("int", 2),
    "nullif(a, 7)": ("int", None),
    "greatest(a, x, null)": ("double", 7.0),
    "least(a, b)": ("bigint", -9),
    "if(a > 1, k, 5)": ("string", "Ash"),
    # texts
    "upper(k)": ("string", "ASH"),
    "length('ünï')": ("int", 3),
    "substring(k, -2)": ("string", "sh"),
    "concat(k, a, nul)": ("string", None),
    "k || '-' || a": ("string", "Ash-7"),
    "trim('  a ')": ("string", "a"),
    "replace(k, 's', '')": ("string", "Ah"),
    "split_part('a/b/c', '/', 2)": ("string", "b"),
    "instr(k, 'h')": ("int", 3),
    "left(k, 2)": ("string", "As"),
    "startswith(k, 'A')": ("boolean", True),
    # rounding
    "round(x)": ("double", 3.0),
    "round(-2.5D)": ("double", -3.0),
    "round(2.675D, 2)": ("double", 2.68),
    "round(d, 1)": ("decimal(10,1)", 1235),
    "floor(-2.5D)": ("bigint", -3),
    "ceil(d)": ("decimal(9,0)", 124),
    "floor(1e300)": ("bigint", 2**63 - 1),
    # casts
    "cast(x as int)": ("int", 2),
    "cast(1e20 as int)": ("int", 2**31 - 1),
    "cast(300 as tinyint)": ("tinyint", 44),
    "cast(double('nan') as bigint)": ("bigint", 0),
    "cast(' 1.7 ' as int)": ("int", 1),
    "cast('1e1' as int)": ("int", None),
    "cast('1e1' as double)": ("double", 10.0),
    "cast('x' as double)": ("double", None),
    "cast('yes' as boolean)": ("boolean", True),
    "cast(1e7 as string)": ("string", "1.0E7"),
    "cast(0.1F as string)": ("string", "0.1"),
    "cast(d as string)": ("string", "123.45"),
    "cast(d as int)": ("int", 123),
    "cast(12.345 as decimal(4,2))": ("decimal(4,2)", 1235),
    "cast(t as bigint)": ("bigint", 1_760_000_000),
    "cast(t as date)": ("date", 20370),
    "cast(day as string)": ("string", "2024-10-04"),
    "cast(t as string)": ("string", "2025-10-09 08:53:20.123456"),
    "cast('2025-10-09T08:53:20.5+02:00' as timestamp)": ("timestamp", 1_759_992_800_500_000),
    # times and structs
    "hour(t)": ("int", 8),
    "year(t)": ("int", 2025),
    "date_format(t, 'yyyy-MM-dd HH:mm:ss')": ("string", "2025-10-09 08:53:20"),
    "unix_micros(t)": ("bigint", 1_760_000_000_123_456),
    "p.q + 1": ("int", 5),
    "P.R": ("string", "z"),
    "_stime": ("timestamp", 1_000_000),
    "_id": ("bigint", 99),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_types_and_values(text: str) -> None:
    kind, value = EXPRESSIONS[text]
    compiled = SCOPE.compile(text)
    assert (t.name_of(compiled.kind), compiled.run(ROW)) == (kind, value)


BEYOND_PYTHON = {
    "year(t)": {2**63 - 1: 294_247, -(2**63): -290_308, -62_135_596_800_000_001: 0},
    "month(t)": {2**63 - 1: 1, -(2**63): 12},
    "hour(t)": {2**63 - 1: 4},
    "cast(t as string)": {
        253_402_300_800_000_000: "+10000-01-01 00:00:00",
        -62_167_219_200_000_001: "-0001-12-31 23:59:59.999999",
    },
    "cast(cast(t as date) as string)": {253_402_300_800_000_000: "+10000-01-01"},
    "date_format(t, 'yyyy-MM-dd')": {253_402_300_800_000_000: "+10000-01-01"},
}


@pytest.mark.parametrize("text", BEYOND_PYTHON)
def test_times_beyond_the_years_of_python(text: str) -> None:
    compiled = SCOPE.compile(text)
    for time, value in BEYOND_PYTHON[text].items():
        row = (*ROW[:9], time, *ROW[10:])
        assert compiled.run(row) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("cast(k as decimal(10,2))", {"1e999999999": None, "1e-999999999": 0, "9" * 5_000: None}),
        ("cast(k as decimal(38,2))", {"0." + "9" * 5_000: 100, "1.005": 101, "-1.005": -101, ".": None}),
        ("cast(k as decimal(5,0))", {"1e99999999999999999999": None, "0e9": 0, "\u0663": None}),
        ("cast(k as bigint)", {"9" * 5_000: None, "0" * 5_000 + "7": 7}),
        ("cast(k as double)", {"9" * 5_000: float("inf")}),
        ("cast(k as timestamp)", {"0000-01-01": -62_167_219_200_000_000, "0000-02-30": None}),
    ],
)  # fmt: skip
def test_texts_of_any_length_are_cast(text: str, value: dict[str, Any]) -> None:
    compiled = SCOPE.compile(text)
    for given_text, wanted in value.items():
        assert compiled.run((*ROW[:6], given_text, *ROW[7:])) == wanted


def test_an_expression_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(UserError, match="nested too deeply"):
        SCOPE.compile("1" + " + 1" * 5_000)


def test_spark_gives_this_hash() -> None:
    """The example of Spark's own documentation: xxhash64('Spark', array(123), 2)."""
    found = xxh64(b"Spark", 42)
    for number in (123, 2):
        found = xxh64(struct.pack("<i", number), found)
    assert wrap(found, 64) == 5602566077635097486


def test_hashes_of_long_texts() -> None:
    """Known answers of XXH64 for lengths around its blocks of 32 bytes."""
    assert xxh64(b"a" * 31, 0) != xxh64(b"a" * 32, 0)
    assert xxh64(b"Nobody inspects the spammish repetition", 0) == 0xFBCEA83C8A378BF1


@settings(max_examples=300)
@given(st.integers(-(2**70), 2**70), st.integers(1, 10**20))
def test_halves_are_rounded_away_from_zero(value: int, divisor: int) -> None:
    exact = Decimal(value) / Decimal(divisor)
    assert abs(divide_half_up(value, divisor) - exact) <= Decimal("0.5000001")
    assert divide_half_up(-value, divisor) == -divide_half_up(value, divisor)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_a_double_to_a_whole_number(value: float) -> None:
    if abs(value) < 2**60:
        shortest = Decimal(repr(value)).to_integral_value("ROUND_HALF_UP")
        assert round_half_up(value) == float(shortest)


@given(st.floats(allow_nan=False))
def test_written_doubles_can_be_read_again(value: float) -> None:
    text = java_float(value, repr(value))
    assert float(text) == value
    assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7 and abs(value) < 1e309)


@pytest.mark.parametrize(
    ("value", "scale", "text"),
    [(12345, 2, "123.45"), (0, 2, "0.00"), (1, 7, "1E-7"), (-5, 0, "-5"), (123, 9, "1.23E-7")],
)
def test_decimals_as_java_writes_them(value: int, scale: int, text: str) -> None:
    assert java_decimal(value, scale) == text


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.floats(0, 1))
def test_percentiles_lie_where_numpy_puts_them(values: list[float], share: float) -> None:
    ours: Any = percentile(sorted(values), share)
    assert ours == pytest.approx(np.quantile(values, share), abs=1e-6)
