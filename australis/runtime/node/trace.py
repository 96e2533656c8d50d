"""Every event that a node handles, and its effects, as lines of JSON in `trace.jsonl`.

A line is an entry (`id`, its `cause`, the `event`), an `effect` with the entry that is its cause,
or the `state` of a replica whenever that has changed: with it the checkers of the simulated world
can inspect machines that ran for real (`scenarios.traced`). A trace is for debugging: it costs far
more than the work it records, so a node keeps one only where its cluster file says `trace: true`.
Only the latest part is kept: two files of `MAX_FILE_BYTES` bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from australis.kernel.machine import Effect, Event, Machine, MessageReceived, describe
from australis.protocols.dpc.effects import SendHead, SendLog
from australis.protocols.dpc.messages import Heartbeat
from australis.protocols.dpc.replica import ReplicaMachine
from australis.runtime.node import lane_trace
from australis.runtime.node.entries import NO_ENTRY
from australis.runtime.node.json_lines import JsonLines, before

FILE = "trace.jsonl"
MAX_FILE_BYTES = 64 << 20


class TraceFile:
    """The trace of one node, written by its driver."""

    def __init__(self, directory: Path, node: str, largest: int = MAX_FILE_BYTES) -> None:
        self._file = JsonLines(directory / FILE, largest)
        self._node = node
        self._looked: dict[str, dict[str, Any]] = {}
        """The last recorded state of each replica."""

    def handled(
        self, at_us: int, name: str, entry: str, cause: str, event: Event, machine: Machine | None
    ) -> None:
        """Record an entry, before the machine handles it, since handling it may fail."""
        line = self._begin(at_us, name) | {"id": entry}
        if cause != NO_ENTRY:
            line["cause"] = cause
        if isinstance(event, MessageReceived) and isinstance(event.message, Heartbeat):
            wants = (w for w in event.message.wants if w.log or w.overlay or w.head)
            line |= {"sender": event.sender, "wants": [want.stream for want in wants]}
        if machine is not None:
            line |= lane_trace.of_event(machine, event)
        self._file.write(line | {"event": describe(event)})

    def effect(
        self, at_us: int, name: str, entry: str, effect: Effect, machine: Machine | None
    ) -> None:
        """Record an effect of an entry, before it is performed."""
        line = self._begin(at_us, name) | {"cause": entry, "effect": describe(effect)}
        if isinstance(effect, SendLog | SendHead):
            line |= {"to": effect.to, "stream": effect.stream}
        if machine is not None:
            line |= lane_trace.of_effect(machine, effect)
        self._file.write(line)

    def looked(self, at_us: int, name: str, machine: Machine) -> None:
        """Record the state of a machine that has handled an event, if it is a replica whose state
        has changed."""
        if isinstance(machine, ReplicaMachine):
            state = state_of(machine)
            if self._looked.get(name) != state:
                self._looked[name] = state
                self._file.write(self._begin(at_us, name) | {"state": state})

    def _begin(self, at_us: int, machine: str) -> dict[str, Any]:
        at = datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="microseconds")
        return {"time": at, "node": self._node, "machine": machine}

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def state_of(machine: ReplicaMachine) -> dict[str, Any]:
    """The part of a replica's state for which invariants hold at any time: buffers and turns."""
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
                "kept": one.end - one.trimmed_upto,
                "left_behind": one.left_behind,
            }
            for one in machine.outputs.values()
        ],
        "has_turn": machine.stagger.active,
        "by_itself": machine.stagger.alone,
        "reads_from": sorted(machine.monitors),
    }


def story(directories: Iterable[Path], entry: str) -> list[dict[str, Any]]:
    """The chain of an entry's causes over these nodes, the first one first.

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
    """All lines that are kept of a node's trace."""
    paths = (before(directory / FILE), directory / FILE)
    return [line for path in paths if path.exists() for line in lines(path)]


def lines(path: Path) -> Iterable[dict[str, Any]]:
    """The complete lines of a trace; a running node may be writing the last one."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)
