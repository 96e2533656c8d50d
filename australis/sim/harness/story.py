"""The story of one run: its schedule, its events, and the causal chain of one of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from typing import Any

from australis.kernel.trace import Entry, Trace
from australis.sim.faults import Fault, Planned
from australis.sim.harness.model import (
    HARNESS_CHECKERS,
    Model,
    SeedResult,
    Setup,
    Simulation,
    Violation,
)
from australis.sim.harness.search import LIMIT_S, run_guarded

FAULT_NODE = "fault"
"""The name under which a run records its faults."""


class Tone(Enum):
    """The kind of event that a line describes."""

    FAULT = "fault"
    MENDED = "mended"
    PLAIN = "plain"
    STABLE = "stable"
    TENTATIVE = "tentative"
    BROKEN = "broken"


@dataclass(frozen=True)
class Line:
    """One line of a story."""

    at_us: int
    who: str
    text: str
    tone: Tone = Tone.PLAIN

    def __str__(self) -> str:
        return f"{self.at_us / 1e6:8.2f}  {self.who:16} {self.text}"


@dataclass(frozen=True)
class Story:
    """A run with its story: how it ended, and its timeline."""

    model: Model[Any]
    scenario: Any
    simulation: Simulation
    result: SeedResult
    lines: list[Line]
    trace: Trace

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The promises that were broken."""
        return self.result.violations

    @property
    def promises(self) -> dict[str, tuple[str, str]]:
        """Each promise with its description, and whether it was kept."""
        kept = "kept so far" if self.violations else "kept"
        says = {**self.model.checkers, **HARNESS_CHECKERS}
        found = {checker: (kept, text) for checker, text in says.items()}
        return found | {one.checker: ("BROKEN", one.said) for one in self.violations}


def tell(setup: Setup[Any], scenario: Any, limit_s: float = LIMIT_S) -> Story:
    """Run a scenario and tell its story."""
    model, trace = setup.model, Trace(keep=None)
    simulation = model.build_watched(scenario, trace)
    violations = run_guarded(simulation, limit_s)
    schedule = model.schedule(scenario)
    counts = Counter(simulation.counts)
    result = SeedResult(scenario.seed, violations, counts, len(schedule))
    now = simulation.world.now
    lines = [*schedule_lines(schedule, now), *model.lines(simulation, trace)]
    lines = sorted((line for line in lines if line.text), key=lambda line: line.at_us)
    lines = list(_together(lines))
    lines += [Line(now, "", f"promise '{v.checker}' broken: {v.said}", Tone.BROKEN)
              for v in violations]  # fmt: skip
    return Story(model, scenario, simulation, result, lines, trace)


def schedule_lines(schedule: Iterable[Planned], until_us: int) -> Iterator[Line]:
    """The schedule's entries that have begun, or ended, by then."""
    for planned in schedule:
        if planned.at_us > until_us:
            continue
        if not isinstance(planned, Fault):
            yield Line(planned.at_us, "", str(planned).partition(": ")[2], Tone.FAULT)
            continue
        lasts = f"for {planned.lasts_us / 1e6:.2f} s"
        yield Line(planned.at_us, planned.node, f"FAULT {planned.what} {lasts}", Tone.FAULT)
        if planned.until_us <= until_us:
            yield Line(planned.until_us, planned.node, f"MENDED {planned.what}", Tone.MENDED)


def entry_lines(trace: Trace, *beginnings: str) -> Iterator[Line]:
    """The entries of a trace that begin with one of these prefixes."""
    for entry in trace:
        if entry.text.startswith(beginnings):
            yield Line(entry.at_us, entry.node, _shorter(entry.text)[:200])


def _together(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines in which several nodes do the same within a second, as one line."""
    held: Line | None = None
    for line in lines:
        if held and (line.text, line.tone) == (held.text, held.tone) and _near(held, line):
            held = replace(held, who=f"{held.who}, {line.who}")
            continue
        if held:
            yield held
        held = line
    if held:
        yield held


def _near(a: Line, b: Line) -> bool:
    return b.at_us - a.at_us <= 1_000_000 and len(a.who) < 30 and bool(a.who)


# --- causal chains ----------------------------------------------------------------------------


def explain(story: Story, containing: str | None = None) -> list[str]:
    """Explain the violation, or the last entry with this text, as short lines."""
    entry = None
    if containing is not None:
        found = story.trace.last(containing)
        entry = found.id if found is not None else None
    elif story.violations:
        entry = story.model.broken_by(story.simulation, story.violations[0])
    if entry is None:
        return []
    return list(_folded(chain_to(story.trace, entry, story.model.beginnings)))


def chain_to(trace: Trace, entry: int, beginnings: tuple[str, ...] = ()) -> list[Entry]:
    """The causal chain of an entry, from a fault or the last tick of a clock on."""
    chain = trace.story(entry)
    places = [
        place
        for place, e in enumerate(chain)
        if e.node == FAULT_NODE or (beginnings and e.text.startswith(beginnings))
    ]
    if len(places) > 1 and chain[places[-2]].node == FAULT_NODE:
        places.pop()  # a start that a fault has caused
    return chain[places[-1] :] if places else chain


def _folded(chain: list[Entry]) -> Iterator[str]:
    """The entries as short lines; of a long row of the same kind only both ends."""
    for (node, _), group in groupby(chain, key=lambda e: (e.node, e.text.partition("(")[0])):
        alike = list(group)
        if len(alike) <= 3:
            yield from map(_short, alike)
            continue
        yield _short(alike[0])
        yield f"{'':10}{node:16} ... {len(alike) - 2} more of the same ..."
        yield _short(alike[-1])


def _short(entry: Entry) -> str:
    return f"{entry.at_us / 1e6:8.2f}  {entry.node:16} {_shorter(entry.text)}"


def _shorter(text: str) -> str:
    for pattern, instead in _SHORTER:
        text = pattern.sub(instead, text)
    return text


_SHORTER = [
    (re.compile(r"^MessageReceived\(sender=(.*?), message=(.*)\)$"), r"<- \1: \2"),
    (re.compile(r"^Send\(to=(.*?), message=(.*)\)$"), r"-> \1: \2"),
    (re.compile(r", \w+=(False|None|\[\])(?=[,)])"), ""),
    (re.compile(r"Bucket\(number=(-?\d+), entered_us=\d+, batch=(.*?)\)"), r"\1: \2"),
]
