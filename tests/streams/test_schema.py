"""Schemas: Spark SQL text in and out, Arrow inside."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams.stream_data import EVERYTHING

from australis.kernel.errors import UserError
from australis.streams.schema import (
    HEADER_NAMES,
    TIMESTAMP,
    Field,
    Schema,
    from_arrow,
    parse_schema,
    parse_type,
    type_name,
)

NAMES = st.from_regex(r"[a-z]([a-z0-9_ .:<>,()-]{0,6}[a-z0-9])?", fullmatch=True)
DECIMALS = st.integers(1, 38).flatmap(
    lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})")
)
SCALARS = DECIMALS | st.sampled_from(
    [f.type for f in EVERYTHING if not f.type.startswith(("decimal", "struct"))]
)


def _struct(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    return fields.map(lambda fs: "struct<" + ", ".join(f"`{n}`: {t}" for n, t in fs.items()) + ">")


TYPES = st.recursive(SCALARS, _struct, max_leaves=5)


@given(st.dictionaries(NAMES, TYPES, min_size=1, max_size=4))
def test_a_schema_reads_back_what_it_writes(columns: dict[str, str]) -> None:
    schema = parse_schema(", ".join(f"`{name}` {kind}" for name, kind in columns.items()))
    assert schema.names == tuple(columns)
    assert parse_schema(str(schema)) == schema
    assert from_arrow(schema.arrow) == schema
    for field in schema:
        assert type_name(field.arrow) == field.type
        assert parse_type(field.type) == field.arrow


def test_types_become_arrow_types() -> None:
    schema = parse_schema("a LONG, b Integer, c bool, d real, e numeric(5), f decimal, g timestamp")
    assert str(schema) == (
        "a bigint, b int, c boolean, d float, e decimal(5,0), f decimal(10,0), g timestamp"
    )
    assert schema.attributes.types == [
        pa.int64(),
        pa.int32(),
        pa.bool_(),
        pa.float32(),
        pa.decimal128(5, 0),
        pa.decimal128(10, 0),
        TIMESTAMP,
    ]


def test_the_header_stands_first() -> None:
    assert tuple(EVERYTHING.arrow.names[:3]) == HEADER_NAMES == ("_type", "_id", "_stime")
    assert tuple(EVERYTHING.arrow.names[3:]) == EVERYTHING.names
    assert EVERYTHING.arrow.types[:3] == [pa.int8(), pa.int64(), TIMESTAMP]


def test_schemas_are_equal_by_what_they_say() -> None:
    """Equal schemas share one port of a merged input, so they must hash alike."""
    one, two = parse_schema("a int,b string"), parse_schema(" a  INTEGER , b string ")
    assert one == two
    assert hash(one) == hash(two)
    assert one.arrow == two.arrow
    assert one != parse_schema("b string, a int")


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "a int,", "a int b int", ", a int", "a int)", "a int; b", "int", "`` int"),
        *("a decimal(3", "a decimal(,2)", "a decimal(3,2", "a struct<", "a struct<x>"),
        "a struct<>",
    ],
)
def test_what_is_not_a_schema_says_so(text: str) -> None:
    with pytest.raises(UserError, match=r"is not a schema|unknown type"):
        parse_schema(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a int, A string", "two columns named 'A'"),
        ("_id int", "begin with _ are the header's"),
        ("a array<int>", "lists and maps have no canonical order"),
        ("a map<int,int>", "lists and maps have no canonical order"),
        ("a varint", "unknown type 'varint'"),
        ("a decimal(39,0)", "out of range"),
        ("a decimal(0)", "out of range"),
        ("a decimal(3,4)", "out of range"),
    ],
)
def test_what_a_stream_cannot_carry_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence.replace("(", r"\(")):
        parse_schema(text)


def test_arrow_types_without_a_spark_name_are_refused() -> None:
    for odd in (pa.list_(pa.int32()), pa.timestamp("us"), pa.uint8(), pa.large_string()):
        with pytest.raises(UserError, match="cannot carry"):
            from_arrow(pa.schema([("a", odd)]))


def test_a_type_must_be_the_whole_text() -> None:
    with pytest.raises(UserError):
        parse_type("int int")
    assert Schema((Field("a", "int"),)).attributes == pa.schema([("a", pa.int32())])
