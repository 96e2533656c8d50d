"""Names of operators: a tree of words, from the general to the specific."""

from __future__ import annotations

import re
from collections.abc import Iterable

from australis.kernel.errors import UserError

_WORD = re.compile(r"[A-Za-z0-9_-]+")


class Ontology:
    """The operator names that all peers share.

    >>> known = Ontology(["Encryption.AES.256", "Encryption.AES.128", "Filter"])
    >>> known.below("Encryption")
    ('Encryption.AES.128', 'Encryption.AES.256')
    >>> known.check("Filter")
    'Filter'
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set()
        for name in names:
            if not all(_WORD.fullmatch(word) for word in name.split(".")):
                raise UserError("is not a name: words with dots between them", name=name)
            self._names.add(name)

    def check(self, name: str, where: str | None = None) -> str:
        """The name, if the ontology contains it; raises an error otherwise."""
        if name not in self._names:
            general = name.split(".", maxsplit=1)[0]
            near = self.below(general) or tuple(sorted(self._names))
            there = f"no operator of the ontology (there are {', '.join(near[:8])})"
            if where is None:
                raise UserError(f"is {there}", name=name)
            raise UserError(f"names '{name}', which is {there}", name=where)
        return name

    def below(self, general: str) -> tuple[str, ...]:
        """All operators of a general kind."""
        prefix = f"{general}."
        return tuple(sorted(n for n in self._names if n == general or n.startswith(prefix)))
