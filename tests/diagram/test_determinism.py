"""Functions that replicas would answer differently are found, and nothing else."""

from __future__ import annotations

import pytest

from australis.diagram.determinism import names_user, refused


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("price * rand()", "rand"),
        ("RAND (7) > 0.5", "rand"),
        ("coalesce(uuid(), 'x')", "uuid"),
        ("shuffle(xs)", "shuffle"),
        ("current_timestamp", "current_timestamp"),
        ("ts < Current_Date", "current_date"),
        ("now()", "now"),
        ("unix_timestamp( )", "unix_timestamp"),
        ("spark_partition_id()", "spark_partition_id"),
        ("monotonically_increasing_id() + 1", "monotonically_increasing_id"),
        ("current_user", "current_user"),
        ("reflect('java.util.UUID', 'randomUUID')", "reflect"),
        ("concat('it''s', rand())", "rand"),
        ("`rand`()", "rand"),
        ("`RAND` (7)", "rand"),
        ("rand/* so */(1)", "rand"),
        ("rand -- so\n ()", "rand"),
        ("/* /* ' */ ' */ rand() /* ' */", "rand"),
        ("-- it's\n rand()", "rand"),
        ("r'\\' || rand() || ''", "rand"),
        ("builtin.rand()", "rand"),
        ("session_user", "session_user"),
        ("aes_encrypt(a, b)", "aes_encrypt"),
        ("ts < timestamp 'now'", "timestamp 'now'"),
        ("ts < TIMESTAMP /* */ ' Tomorrow UTC'", "timestamp ' Tomorrow UTC'"),
        ("day = date 'today'", "date 'today'"),
        ('day = date"yesterday"', 'date "yesterday"'),
        ("ts < timestamp_ntz 'now'", "timestamp_ntz 'now'"),
        ("cast('now' as timestamp)", "timestamp 'now'"),
        ("'today'::date", "date 'today'"),
        ("to_date('yesterday')", "to_date 'yesterday'"),
        ("timestamp('now')", "timestamp 'now'"),
    ],
)
def test_what_differs_between_replicas_is_found(expression: str, name: str) -> None:
    found = refused(expression)
    assert found is not None
    assert found[0] == name
    assert found[1].startswith("it ")


@pytest.mark.parametrize(
    "expression",
    [
        "n > 100",
        "'rand()' = name",
        '"now()" = name',
        "`rand` + 1",
        "rand + 1",
        "user = 'joe'",
        "t.user",
        "left.current_date = right.current_date",
        "operand(x)",
        "random_walk > 3",
        "unix_timestamp(ts)",
        "date_trunc('day', ts)",
        "'a\\' || rand()'",
        "timestamp '2026-01-01'",
        "date 'epoch'",
        "status = 'now'",
        "date = 'today'",
        "cast('now' as string)",
        "concat('today', ts)",
        "x /* rand() */ -- now()",
        "`now()`",
        "`session_user`",
        "r'rand()' = name",
        "'unclosed",
        "/* unclosed rand()",
        "",
    ],
)
def test_what_is_the_same_everywhere_passes(expression: str) -> None:
    assert refused(expression) is None


def test_the_first_one_is_named_with_its_reason() -> None:
    assert refused("now() - rand()") == (
        "now",
        "it reads the clock; the time of a tuple is its _stime",
    )
    assert refused("rand() - now()") == ("rand", "it is random")


@pytest.mark.parametrize(
    ("expression", "named"),
    [("user = 'joe'", True), ("t.user", False), ("'user' = name", False), ("`user`", False), ("a + User", True)],
)  # fmt: skip
def test_a_bare_user_is_found(expression: str, named: bool) -> None:
    assert names_user(expression) is named
