"""What an expression may be: a computation over the columns of its stream, and nothing else.

An expression is Spark SQL, whose functions can read files, call code and fail for a single tuple
as well. So the functions that an expression may call are listed here: those that depend on their
arguments alone and give a value or NULL for every tuple. Where a function fails for some values of
an argument, that argument must be written out. What is beyond this list belongs into a `spark`
operator.

>>> fault("upper(name) || '(select 1)'") is None
True
>>> fault("length((select max(value) from text.`/etc/passwd`))")
'holds a subquery; an expression reads the columns of its stream and nothing else'
"""

from __future__ import annotations

from collections.abc import Sequence

from australis.diagram.determinism import refused
from australis.diagram.sql import Token, tokens
from australis.kernel.names import meant

MAX_CHARACTERS = 20_000
MAX_TOKENS = 2_000
MAX_NESTING = 40
"""Bounds of one expression, so that parsers which recurse end well."""

_CHOICES = (
    "coalesce if ifnull nvl nvl2 nullif nullifzero zeroifnull isnull isnotnull isnan nanvl"
    " greatest least cast try_cast struct named_struct"
)
_NUMBERS = (
    "abs sign signum negative positive ceil ceiling floor round bround rint mod pmod sqrt cbrt exp"
    " expm1 ln log log10 log2 log1p pow power sin cos tan asin acos atan atan2 sinh cosh tanh"
    " degrees radians hypot e pi bit_count shiftleft shiftright shiftrightunsigned width_bucket"
    " try_add try_subtract try_multiply try_divide try_mod hash xxhash64"
)
_TEXTS = (
    "upper ucase lower lcase initcap length len char_length character_length octet_length bit_length"
    " trim ltrim rtrim btrim concat concat_ws substring substr substring_index left right replace"
    " translate overlay reverse instr locate position charindex startswith endswith contains"
    " split_part find_in_set lpad rpad repeat space ascii chr char soundex levenshtein md5 sha sha1"
    " sha2 crc32 hex bin base64 regexp_like regexp_count regexp_instr regexp_extract regexp_replace"
    " regexp_substr get_json_object"
)
_TIMES = (
    "year month day dayofmonth dayofweek weekday dayofyear quarter weekofyear hour minute second"
    " extract date_part to_date to_timestamp try_to_timestamp unix_timestamp unix_date unix_seconds"
    " unix_millis unix_micros timestamp_micros date_from_unix_date date_format date_trunc trunc"
    " date_add dateadd date_sub datediff date_diff add_months months_between last_day next_day"
    " make_date"
)
_TYPES = (
    "boolean tinyint smallint int bigint float double decimal dec numeric char varchar string binary"
    " date timestamp"
)
FUNCTIONS = frozenset(" ".join((_CHOICES, _NUMBERS, _TEXTS, _TIMES, _TYPES)).split())
"""The functions that expressions may call."""

_WRITTEN_OUT = {
    "lpad": (1,), "rpad": (1,), "repeat": (1,), "space": (0,), "split_part": (2,),
    "date_format": (1,), "to_date": (1,), "to_timestamp": (1,), "try_to_timestamp": (1,),
    "unix_timestamp": (1,), "date_add": (1,), "dateadd": (1,), "date_sub": (1,), "add_months": (1,),
    "regexp_like": (1,), "regexp_count": (1,), "regexp_instr": (1, 2), "regexp_extract": (1, 2),
    "regexp_replace": (1, 2), "regexp_substr": (1,), "get_json_object": (1,),
}  # fmt: skip
"""The arguments, counted from 0, that must be literals: of others the result could be an error or
as long as a tuple likes."""
_KEYWORDS = frozenset(
    "and or not in when then else case between like ilike rlike regexp div from distinct as".upper().split()
)
"""Words that may stand before a parenthesis without calling anything."""
_QUERIES = frozenset("select with from values table map reduce".upper().split())
"""The words with which a subquery begins."""
_MARKS = frozenset("(),.+-*/%=<>!&|^~:")


def fault(expression: str) -> str | None:
    """What is wrong with an expression, as the rest of a sentence about its operator."""
    if len(expression) > MAX_CHARACTERS:
        return f"has an expression of more than {MAX_CHARACTERS:,} characters"
    found = tokens(expression)
    if len(found) > MAX_TOKENS:
        return f"has an expression of more than {MAX_TOKENS:,} words and marks"
    chance = refused(expression)
    if chance is not None:
        name, reason = chance
        return f"uses {name}: {reason}, so two replicas would compute different results"
    depth = 0
    for at, token in enumerate(found):
        if token.kind == "mark":
            depth += (token.text == "(") - (token.text == ")")
        if depth > MAX_NESTING:
            return f"has an expression with more than {MAX_NESTING} parentheses inside each other"
        said = _fault_at(found, at)
        if said is not None:
            return said
    return None


def _fault_at(found: Sequence[Token], at: int) -> str | None:
    token = found[at]
    following = found[at + 1] if at + 1 < len(found) else None
    if token.kind == "mark" and token.text not in _MARKS:
        return f"has {token.text!r} in an expression, outside of a text"
    if following is None:
        return None
    if _is_mark(token, "(") and following.kind == "word" and following.text.upper() in _QUERIES:
        return "holds a subquery; an expression reads the columns of its stream and nothing else"
    if not _is_mark(following, "("):
        return None
    if token.kind == "word" and token.text.upper() in _KEYWORDS:
        return None
    return _fault_of_call(found, at) if token.kind in ("word", "quoted") else None


def _is_mark(token: Token, text: str) -> bool:
    return token.kind == "mark" and token.text == text


def _fault_of_call(found: Sequence[Token], at: int) -> str | None:
    name = found[at].text.lower()
    if at and _is_mark(found[at - 1], "."):
        return f"calls '{name}' with a name before it; functions have plain names"
    if name not in FUNCTIONS:
        hint = meant(name, FUNCTIONS) or " (the reference of diagram files has a list)"
        return f"calls '{name}', which is not a function that expressions may call{hint}"
    arguments = _arguments(found, at + 2)
    for number in _WRITTEN_OUT.get(name, ()):
        if number < len(arguments) and not _is_literal(arguments[number]):
            return f"calls '{name}' with an argument {number + 1} that is not written out"
    return None


def _arguments(found: Sequence[Token], at: int) -> list[list[Token]]:
    """The tokens of each argument of a call whose parenthesis ends before this token."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for token in found[at:]:
        mark = token.text if token.kind == "mark" else ""
        depth += (mark == "(") - (mark == ")")
        if depth < 0:
            break
        if mark == "," and depth == 0:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments


def _is_literal(argument: Sequence[Token]) -> bool:
    if argument and argument[0].kind == "mark" and argument[0].text in "+-":
        argument = argument[1:]
    return len(argument) == 1 and (argument[0].kind == "string" or argument[0].text.isdecimal())
