"""Just enough of Spark SQL's lexer to tell code from strings, quoted names and comments.

>>> [token.text for token in tokens("`rand` /* a ) */ (x, ')') -- done")]
['rand', '(', 'x', ',', "')'", ')']
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<space> \s+ | --(?:\\\n|[^\r\n])* )
    | (?P<comment> /\* )
    | (?P<string> [rR](?:'[^']*'|"[^"]*") | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<quoted> `(?:[^`]|``)*` )
    | (?P<word> \w+ )
    | (?P<mark> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Token:
    """A piece of an expression: a `word`, a `quoted` name, a `string` or a `mark`."""

    kind: str
    text: str
    start: int


def tokens(expression: str) -> list[Token]:
    """The pieces of an expression, without space and comments."""
    found: list[Token] = []
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        assert match is not None, "a mark is any character"
        kind, text = str(match.lastgroup), match[0]
        if kind == "quoted":
            text = text[1:-1]
        if kind not in ("space", "comment"):
            found.append(Token(kind, text, at))
        at = _comment_end(expression, match.end()) if kind == "comment" else match.end()
    return found


def _comment_end(expression: str, at: int) -> int:
    """The end of a comment; comments nest, and an unclosed one extends to the end."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(expression, at):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    return len(expression)
