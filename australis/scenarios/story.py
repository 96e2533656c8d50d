"""The story of a run with real processes: its faults, what its nodes recorded, what its client heard."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from australis.kernel.durations import SECOND
from australis.runtime.client import ChangeKind
from australis.runtime.node.events import FILE, INFO
from australis.runtime.node.json_lines import before
from australis.runtime.node.trace import lines as json_lines
from australis.runtime.testbed import Heard, Testbed
from australis.scenarios.model import CLIENT
from australis.sim.harness.story import Line, Tone

GAP_S = 1.0
"""Deliveries further apart than this get a line each."""
_ABOUT = ("time", "level", "node", "event", "id", "cause", "on", "trace")
_TONES = {ChangeKind.TENTATIVE: Tone.TENTATIVE, ChangeKind.UNDO: Tone.TENTATIVE}


def story(testbed: Testbed, began_s: float, faults: Iterable[Line]) -> list[Line]:
    """All lines in their order; times count from the moment `began_s` of the monotonic clock."""
    found = [*faults, *_events(testbed, began_s), *_heard(testbed, began_s)]
    return sorted(found, key=lambda line: line.at_us)


def events(testbed: Testbed, began_s: float) -> Iterator[tuple[int, dict[str, Any]]]:
    """The events of all nodes, each with its microseconds since the beginning."""
    began = began_s + time.time() - time.monotonic()
    for node in testbed.cluster.nodes:
        path = testbed.base / testbed.cluster.state / node / FILE
        for file in (before(path), path):
            for event in json_lines(file) if file.exists() else ():
                at_s = datetime.fromisoformat(event["time"]).timestamp()
                yield int((at_s - began) * SECOND), event


def _events(testbed: Testbed, began_s: float) -> Iterator[Line]:
    for at_us, event in events(testbed, began_s):
        if event["event"] == "phase":
            where = f"{event['replica'].partition('@')[0]}, {event['output']}"
            said = f"{where}: {event['was']} -> {event['now']} ({event['why']})"
        else:
            fields = (f"{key} {event[key]}" for key in event if key not in _ABOUT)
            said = f"{event['event']} {', '.join(fields)}"
        tone = Tone.PLAIN if event["level"] == INFO else Tone.TENTATIVE
        yield Line(at_us, event["node"], said[:200], tone)


def _heard(testbed: Testbed, began_s: float) -> Iterator[Line]:
    """What the client heard: deliveries of one kind that follow each other share a line."""
    group: list[Heard] = []
    for one in [*testbed.heard, None]:
        if one is None or (group and not _follows(group[-1], one)):
            if group:
                yield _line(group, began_s, testbed.base_bucket)
            group = []
        if one is not None:
            group.append(one)


def _follows(last: Heard, one: Heard) -> bool:
    return last.change.kind is one.change.kind and one.at - last.at < GAP_S


def _line(group: list[Heard], began_s: float, base: int) -> Line:
    first, last = group[0], group[-1]
    kind, tuples = first.change.kind, sum(one.change.rows for one in group)
    said = kind.value
    if kind in (ChangeKind.INSERTION, ChangeKind.TENTATIVE):
        said += f" buckets {first.change.bucket - base}..{last.change.bucket - base}"
        said += f" ({tuples} tuples), until {last.at - began_s:.2f} s"
    elif kind is not ChangeKind.REC_DONE:
        said += f" bucket {last.change.bucket - base}"
    at_us = int((first.at - began_s) * SECOND)
    return Line(at_us, CLIENT, said, _TONES.get(kind, Tone.STABLE))


@dataclass(frozen=True)
class Starts:
    """The longest times from a start of a node until all its outputs were stable, in seconds."""

    first_s: float
    """Of first starts, when all nodes start at once."""
    again_s: float | None
    """Of restarts, if there were any."""


def starts(testbed: Testbed, began_s: float) -> Starts:
    """How long nodes took to become stable; those that started before `began_s` did so at first."""
    of_node: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for at_us, event in events(testbed, began_s):
        of_node.setdefault(event["node"], []).append((at_us, event))
    first: list[float] = [0.0]
    again: list[float] = []
    for told in of_node.values():
        begins = [at_us for at_us, event in told if event["event"] == "started"]
        for start, end in pairwise([*begins, 1 << 62]):
            stable: dict[tuple[str, str], int] = {}
            for at_us, event in told:
                if event["event"] == "phase" and start <= at_us < end and event["now"] == "stable":
                    stable.setdefault((event["replica"], event["output"]), at_us)
            if stable:
                # Not by its number: a node that lost its disk has lost its earlier events.
                (first if start < 0 else again).append((max(stable.values()) - start) / SECOND)
    return Starts(max(first), max(again, default=None))
