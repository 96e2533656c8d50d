"""Everything that a node handles and does about it, as lines of JSON in `trace.jsonl`.

A line is an entry (`id`, its `cause`, the `event`) or an `effect` with the entry that is its
cause. It is for finding out what went wrong: it costs far more than what it writes down,
so a node keeps one only where its cluster file says `trace: true`. Only the latest part is
kept: two files of `LARGEST` bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from australis.kernel.machine import Effect, Event, describe
from australis.live.node.entries import NO_ENTRY
from australis.live.node.json_lines import JsonLines, before

FILE = "trace.jsonl"
LARGEST = 64 << 20


class Trace:
    """The trace of one node, written by its driver."""

    def __init__(self, directory: Path, node: str, largest: int = LARGEST) -> None:
        self._file = JsonLines(directory / FILE, largest)
        self._node = node

    def handled(self, at_us: int, machine: str, entry: str, cause: str, event: Event) -> None:
        """An entry; written before the machine hears of it, which may be its end."""
        line = self._begin(at_us, machine) | {"id": entry}
        if cause != NO_ENTRY:
            line["cause"] = cause
        self._file.write(line | {"event": describe(event)})

    def effects(self, at_us: int, machine: str, entry: str, effects: Sequence[Effect]) -> None:
        """What is done about it."""
        begin = self._begin(at_us, machine) | {"cause": entry}
        self._file.write(*(begin | {"effect": describe(effect)} for effect in effects))

    def _begin(self, at_us: int, machine: str) -> dict[str, Any]:
        at = datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="microseconds")
        return {"time": at, "node": self._node, "machine": machine}

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def story(directories: Iterable[Path], entry: str) -> list[dict[str, Any]]:
    """How an entry came about: the chain of its causes over these nodes, the first one first.

    It begins where there is no cause, or where the trace of the node no longer has it.
    """
    entries: dict[str, dict[str, Any]] = {}
    for directory in directories:
        for path in (before(directory / FILE), directory / FILE):
            if path.exists():
                entries |= {line["id"]: line for line in _lines(path) if "id" in line}
    chain: list[dict[str, Any]] = []
    while entry in entries:
        chain.append(entries[entry])
        entry = entries[entry].get("cause", NO_ENTRY)
    return chain[::-1]


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    """Whole lines only: a node that runs may be writing the last one."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)
