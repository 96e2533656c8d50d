"""The name that was probably meant by one that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_NAME = 100
"""The largest number of characters of a name: names become those of files and directories."""
MAX_LENGTH = 100
"""The largest length of a name that is compared with others, since comparing takes time."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant.

    >>> nearest("edg", ["a", "edge"]), nearest("EDGE", ["a", "edge"]), nearest("z", ["a"])
    ('edge', 'edge', None)
    """
    if len(name) > MAX_LENGTH:
        return None
    by_lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), list(by_lower), n=1)
    return by_lower[found[0]] if found else None


def meant(name: str, known: Iterable[str]) -> str:
    """The question whether the nearest name was meant, in parentheses; empty if none is near.

    >>> meant("readngs", ["readings", "alerts"])
    " (did you mean 'readings'?)"
    """
    close = nearest(name, known)
    return f" (did you mean '{close}'?)" if close else ""


def listed(known: Iterable[str], *unknown: str, also: str = "") -> str:
    """The known names, and the one that was probably meant by an unknown one.

    >>> listed(["filter", "map"], "fliter")
    "filter, map; did you mean 'filter'?"
    """
    names = list(known)
    close = next(filter(None, (nearest(name, names) for name in unknown)), None)
    question = f"; did you mean '{close}'?" if close else ""
    return f"{', '.join(names) or 'none'}{also}{question}"


def known_names(name: str, known: Iterable[str], heading: str = "known") -> str:
    """The hint after an unknown name: the closest known name, else all known names.

    >>> known_names("edg", ["a", "edge"]), known_names("z", ["a", "edge"], "nodes")
    ("did you mean 'edge'?", 'nodes: a, edge')
    """
    names = list(known)
    close = nearest(name, names)
    return f"did you mean '{close}'?" if close else f"{heading}: {', '.join(names) or 'none'}"
