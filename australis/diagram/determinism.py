"""Which Spark SQL functions a diagram may not use.

Replicas must compute the same from the same tuples (thesis 5.8.1). Functions of
the clock, of chance or of where a tuple happens to be processed do not.

>>> refused("price * rand()")
('rand', 'it is random')
>>> refused("'rand()' = name") is None
True
"""

from __future__ import annotations

import re

_CHANCE = "it is random"
_CLOCK = "it reads the clock; the time of a tuple is its _stime"
_WHERE = "it depends on where a tuple is processed"
_WHO = "it depends on who runs the query"
_REASONS = {
    **dict.fromkeys(
        ["rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "sample"], _CHANCE
    ),
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
        ["current_user", "session_user", "user", "current_database", "current_catalog"], _WHO
    ),
    **dict.fromkeys(
        ["java_method", "reflect", "try_reflect"], "it calls code Australis cannot see"
    ),
}
_BARE = {"current_timestamp", "current_date", "current_time", "localtimestamp", "current_user"}
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
_NO_ARGUMENT = re.compile(r"\b(unix_timestamp)\s*\(\s*\)", re.IGNORECASE)


def refused(expression: str) -> tuple[str, str] | None:
    """The first function that is not deterministic, with the reason."""
    plain = _QUOTED.sub("''", expression)
    for word in re.finditer(r"\b(\w+)\b(\s*\()?", plain):
        name = word[1].lower()
        qualified = plain[: word.start()].rstrip().endswith(".")
        if name in _REASONS and not qualified and (word[2] or name in _BARE):
            return name, _REASONS[name]
    bare = _NO_ARGUMENT.search(plain)
    return (bare[1].lower(), _CLOCK) if bare else None
