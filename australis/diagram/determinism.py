"""Which Spark SQL functions a diagram may not use.

Replicas must compute the same from the same tuples (thesis 5.8.1). Functions of
the clock, of chance or of where a tuple happens to be processed do not.

>>> refused("price * rand()")
('rand', 'it is random')
>>> refused("'rand()' = name") is None
True
>>> refused("ts < timestamp 'now'")[0]
"timestamp 'now'"
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from australis.diagram.sql import Token, tokens

_CHANCE = "it is random"
_CLOCK = "it reads the clock; the time of a tuple is its _stime"
_WHERE = "it depends on where a tuple is processed"
_WHO = "it depends on who runs the query"
_REASONS = {
    **dict.fromkeys(
        ["rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "sample"], _CHANCE
    ),
    "aes_encrypt": "it begins with random bytes",
    **dict.fromkeys(
        ["current_timestamp", "now", "current_date", "curdate", "current_time", "localtimestamp"],
        _CLOCK,
    ),
    **dict.fromkeys(
        [
            "spark_partition_id",
            "monotonically_increasing_id",
            "input_file_name",
            "input_file_block_start",
            "input_file_block_length",
        ],
        _WHERE,
    ),
    **dict.fromkeys(
        [
            "current_user",
            "session_user",
            "user",
            "current_database",
            "current_schema",
            "current_catalog",
            "current_path",
            "current_timezone",
        ],
        _WHO,
    ),
    **dict.fromkeys(
        ["java_method", "reflect", "try_reflect"], "it calls code Australis cannot see"
    ),
}
_BARE = {
    "current_timestamp",
    "current_date",
    "current_time",
    "localtimestamp",
    "current_user",
    "session_user",
}
"""Names that Spark calls as functions without parentheses; a bare `user` is more likely a
column.
"""
_TIMES = {"date", "timestamp", "timestamp_ntz", "timestamp_ltz"}
_TO_TIMES = {*_TIMES, "to_date", "try_to_date", "to_timestamp", "try_to_timestamp"} | {
    "to_timestamp_ntz",
    "to_timestamp_ltz",
}
_MOMENT = re.compile(r"\W*(now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)


def refused(expression: str) -> tuple[str, str] | None:
    """The first function that is not deterministic, with the reason."""
    found = tokens(expression)
    words = ["", "", *(_word(token) for token in found), "", "", ""]
    for at, token in enumerate(found, start=2):
        name = words[at]
        called = words[at + 1] == "("
        bare = token.kind == "word" and name in _BARE and words[at - 1] != "."
        if name in _REASONS and (called or bare):
            return name, _REASONS[name]
        if name == "unix_timestamp" and words[at + 1 : at + 3] == ["(", ")"]:
            return name, _CLOCK
        if token.kind == "string" and _MOMENT.fullmatch(token.text):
            kind = _time_of(words[at - 2 : at], words[at + 1 : at + 4])
            if kind:
                return f"{kind} {token.text}", _CLOCK
    return None


def names_user(expression: str) -> bool:
    """Whether it has a bare `user`: a column, or where there is none the user who runs the query."""
    found = tokens(expression)
    dots = (None, *found)
    return any(
        token.kind == "word" and token.text.lower() == "user" and (dot is None or dot.text != ".")
        for dot, token in zip(dots, found, strict=False)
    )


def _word(token: Token) -> str:
    return "''" if token.kind == "string" else token.text.lower()


def _time_of(before: Sequence[str], after: Sequence[str]) -> str | None:
    """The type of time that a string stands for, as a literal or by a cast."""
    if before[1] in _TIMES:
        return before[1]
    if before[1] == "(" and before[0] in _TO_TIMES:
        return before[0]
    casts = before == ["cast", "("] or before == ["try_cast", "("]
    if casts and after[0] == "as" and after[1] in _TIMES:
        return after[1]
    return after[2] if list(after[:2]) == [":", ":"] and after[2] in _TIMES else None
