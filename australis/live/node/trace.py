"""Everything that a node handles and does about it, as lines of JSON in `trace.jsonl`.

A line is an entry (`id`, its `cause`, the `event`), an `effect` with the entry that is its cause, or
what a replica looks like (`state`) whenever that has changed: with it the checkers of the simulated
world can look into machines that ran for real (`scenarios.traced`). It is for finding out what went
wrong: it costs far more than what it writes down, so a node keeps one only where its cluster file
says `trace: true`. Only the latest part is kept: two files of `LARGEST` bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from australis.kernel.machine import Effect, Event, Machine, MessageReceived, describe
from australis.live.node.entries import NO_ENTRY
from australis.live.node.json_lines import JsonLines, before
from australis.protocols.dpc.effects import SendHead, SendLog
from australis.protocols.dpc.messages import Heartbeat
from australis.protocols.dpc.replica import ReplicaMachine

FILE = "trace.jsonl"
LARGEST = 64 << 20


class Trace:
    """The trace of one node, written by its driver."""

    def __init__(self, directory: Path, node: str, largest: int = LARGEST) -> None:
        self._file = JsonLines(directory / FILE, largest)
        self._node = node
        self._looked: dict[str, dict[str, Any]] = {}
        """What each replica looked like last."""

    def handled(self, at_us: int, machine: str, entry: str, cause: str, event: Event) -> None:
        """An entry; written before the machine hears of it, which may be its end."""
        line = self._begin(at_us, machine) | {"id": entry}
        if cause != NO_ENTRY:
            line["cause"] = cause
        if isinstance(event, MessageReceived) and isinstance(event.message, Heartbeat):
            wants = (w for w in event.message.wants if w.log or w.overlay or w.head)
            line |= {"sender": event.sender, "wants": [want.stream for want in wants]}
        self._file.write(line | {"event": describe(event)})

    def effects(self, at_us: int, machine: str, entry: str, effects: Sequence[Effect]) -> None:
        """What is done about it."""
        begin = self._begin(at_us, machine) | {"cause": entry}
        self._file.write(*(begin | _told(effect) for effect in effects))

    def looked(self, at_us: int, name: str, machine: Machine) -> None:
        """A machine has handled something; if it is a replica that looks different now, say so."""
        if isinstance(machine, ReplicaMachine):
            state = state_of(machine)
            if self._looked.get(name) != state:
                self._looked[name] = state
                self._file.write(self._begin(at_us, name) | {"state": state})

    def _begin(self, at_us: int, machine: str) -> dict[str, Any]:
        at = datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="microseconds")
        return {"time": at, "node": self._node, "machine": machine}

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _told(effect: Effect) -> dict[str, Any]:
    told: dict[str, Any] = {"effect": describe(effect)}
    if isinstance(effect, SendLog | SendHead):
        told |= {"to": effect.to, "stream": effect.stream}
    return told


def state_of(machine: ReplicaMachine) -> dict[str, Any]:
    """What can be promised of a replica at any moment: how much it holds, and whose turn it is."""
    return {
        "inputs": [
            {"stream": one.stream, "stable": len(one.stable), "overlay": len(one.overlay)}
            for one in machine.inputs.values()
        ],
        "outputs": [
            {
                "stream": one.stream,
                "phase": one.phase.name,
                "available": one.available,
                "overlay": len(one.overlay.buckets),
                "kept": one.end - one.begins,
                "left_behind": one.left_behind,
            }
            for one in machine.outputs.values()
        ],
        "has_turn": machine.stagger.active,
        "by_itself": machine.stagger.alone,
        "reads_from": sorted(machine.monitors),
    }


def story(directories: Iterable[Path], entry: str) -> list[dict[str, Any]]:
    """How an entry came about: the chain of its causes over these nodes, the first one first.

    It begins where there is no cause, or where the trace of the node no longer has it.
    """
    entries: dict[str, dict[str, Any]] = {}
    for directory in directories:
        for path in (before(directory / FILE), directory / FILE):
            if path.exists():
                entries |= {line["id"]: line for line in lines(path) if "id" in line}
    chain: list[dict[str, Any]] = []
    while entry in entries:
        chain.append(entries[entry])
        entry = entries[entry].get("cause", NO_ENTRY)
    return chain[::-1]


def whole(directory: Path) -> list[dict[str, Any]]:
    """All that is kept of a node's trace."""
    paths = (before(directory / FILE), directory / FILE)
    return [line for path in paths if path.exists() for line in lines(path)]


def lines(path: Path) -> Iterable[dict[str, Any]]:
    """Whole lines only: a node that runs may be writing the last one."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)
