"""The story of one run: faults, phases, switches, and what each client is told.

The narrator is a checker that breaks nothing. It watches the machines from within (its
`watched` scenario has the same machines, which show themselves after each event) and
puts what a client is told into as few lines as possible.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from typing import Any

from australis.kernel.durations import format_duration
from australis.kernel.trace import Entry, Trace
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.proxies import ClientMachine, Insertions, RecDone, Tentatives, Undo
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.states import TRANSITIONS, Phase
from australis.sim.dpc.faults import Fault
from australis.sim.dpc.probes import Checker
from australis.sim.dpc.run import Outcome, Run, Scenario

BEGINNINGS = ("TimerFired(name=heartbeat", "TimerFired(name=close", "Started(")
"""What came before one of these explains nothing: clocks that tick, and the boot."""


FAULT_NODE = "fault"
"""The name under which a run notes its faults."""
AT_ONCE_US = 100_000
"""Switches so close together are told as one."""

Chosen = tuple[str, str | None]
"""`Curr` and `Bck` of table 4.3."""


class Tone(Enum):
    """What kind of news a line is."""

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


@dataclass
class Switch:
    """A change of the replicas an input is read from, and its line in the story."""

    at_us: int
    place: int
    before: Chosen
    rows: dict[int, None]


@dataclass
class Told:
    """What a client was told last, as long as more of the same may follow."""

    kind: str
    first: int
    last: int
    first_us: int
    last_us: int
    tuples: int = 0
    waited_us: int = 0

    def follows(self, kind: str, number: int) -> bool:
        """Whether a bucket goes on with this."""
        return kind == self.kind and number == self.last + 1

    def line(self, client: str) -> Line:
        """All of it in one line; tentative tuples matter when they begin, stable when they end."""
        buckets = _span(self.first, self.last)
        tuples = f"({self.tuples} tuples)"
        if self.kind == "stable":
            return Line(self.last_us, client, f"stable up to bucket {self.last}", Tone.STABLE)
        if self.kind == "corrected":
            return Line(self.last_us, client, f"corrected {buckets} {tuples}", Tone.STABLE)
        text = f"tentative {buckets} {tuples}, at most {self.waited_us / 1e6:.2f} s old"
        return Line(self.first_us, client, text, Tone.TENTATIVE)


class Narrator(Checker):
    """Writes down what happens."""

    name = "story"

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._now: Callable[[], int] = lambda: 0
        self._starting: set[tuple[str, str]] = set()
        """The outputs that have never been stable yet."""
        self._started_us: int | None = None
        self._switches: dict[tuple[str, str], Switch] = {}
        self._turns: dict[tuple[str, str], tuple[Any, int]] = {}
        self._choices: dict[tuple[str, str], Chosen] = {}
        self._lives: dict[str, int] = {}
        self._told: dict[str, Told] = {}
        self._correcting: set[str] = set()

    def attach(self, run: Run) -> list[Checker]:
        """Follow a run; to be given to it as `extra`."""
        self._now = lambda: run.world.now
        replicas = run.scenario.topology.replicas
        self._starting = {(r.name, o.stream) for r in replicas for o in r.outputs}
        return [self]

    def watched(self, scenario: Scenario) -> Scenario:
        """The same scenario, with machines that let the narrator look after each event."""

        def watched(machine: type) -> Any:
            def handle(itself: Any, event: Any, now: int) -> Any:
                effects = machine.handle(itself, event, now)  # type: ignore[attr-defined]
                self.looked_into(itself)
                return effects

            return type(machine.__name__, (machine,), {"handle": handle})

        return replace(
            scenario,
            replica_class=watched(scenario.replica_class),
            client_class=watched(scenario.client_class),
        )

    # --- nodes -----------------------------------------------------------------------------

    def looked_into(self, machine: ReplicaMachine | ClientMachine) -> None:
        """A machine has handled an event."""
        if isinstance(machine, ClientMachine):
            self._look_at_choice(machine.name, machine.input)
            return
        node = machine.config.name
        self._look_at_life(node, machine)
        for one in machine.inputs.values():
            self._look_at_choice(node, one)
        for output in machine.outputs.values():
            self._look_at_turns(node, output.stream, output.turns)

    def _look_at_life(self, node: str, machine: ReplicaMachine) -> None:
        before = self._lives.get(node, 0)
        self._lives[node] = machine.life
        if before and machine.life != before:
            lost = any(o.state_lost for o in machine.outputs.values())
            having = "its disk empty, and asks a replica for its state" if lost else "from its disk"
            self._say(node, f"starts again, {having}")
            for one in machine.inputs.values():
                self._choices.pop((node, one.stream), None)

    def _look_at_choice(self, node: str, one: Input) -> None:
        choice = (one.choice.curr, one.choice.bck)
        before = self._choices.setdefault((node, one.stream), choice)
        if choice != before:
            self._choices[node, one.stream] = choice
            self._switched(node, one, before)

    def _switched(self, node: str, one: Input, before: Chosen) -> None:
        """Tell of a switch, together with others right before it."""
        now, row = self._now(), one.choice.row
        switch = self._switches.get((node, one.stream))
        if switch is None or now - switch.at_us > AT_ONCE_US:
            switch = Switch(now, len(self.lines), before, {})
            self._switches[node, one.stream] = switch
            self._say(node, "")
        switch.rows[row] = None
        after = (one.choice.curr, one.choice.bck)
        rows = ", ".join(map(str, switch.rows))
        text = f"{one.stream}: {_switch(switch.before, after)} (row {rows})"
        self.lines[switch.place] = Line(switch.at_us, node, text if switch.before != after else "")

    def _look_at_turns(self, node: str, stream: str, turns: list[Any]) -> None:
        of, seen = self._turns.get((node, stream), (turns, 0))
        if of is not turns:
            seen = 0  # another life
        for phase, turn in turns[seen:]:
            to = TRANSITIONS[phase, turn]
            reason = turn.name.lower().replace("_", " ")
            self._say(node, f"{stream}: {phase.name} -> {to.name} ({reason})")
            if to is Phase.STABLE:
                self._stable(node, stream)
        self._turns[node, stream] = (turns, len(turns))

    def _stable(self, node: str, stream: str) -> None:
        """Remember when everything was stable for the first time."""
        self._starting.discard((node, stream))
        if not self._starting and self._started_us is None:
            self._started_us = self._now()

    def _say(self, who: str, text: str, tone: Tone = Tone.PLAIN) -> None:
        self.lines.append(Line(self._now(), who, text, tone))

    # --- clients -----------------------------------------------------------------------------

    def delivered(self, client: str, what: Any, now: int) -> None:
        if isinstance(what, Insertions):
            kind = "corrected" if client in self._correcting else "stable"
            self._add(client, kind, what.bucket, now)
        elif isinstance(what, Tentatives):
            self._add(client, "tentative", what.bucket, now)
        else:
            self._flush(client)
            self._signal(client, what)

    def _signal(self, client: str, what: Any) -> None:
        if isinstance(what, Undo):
            self._correcting.add(client)
            text = f"UNDO: everything after bucket {what.upto} is taken back"
            self._say(client, text, Tone.TENTATIVE)
        elif isinstance(what, RecDone):
            self._correcting.discard(client)
            self._say(client, "REC_DONE: the corrections are complete", Tone.STABLE)

    def _add(self, client: str, kind: str, bucket: Bucket, now: int) -> None:
        told = self._told.get(client)
        if told is None or not told.follows(kind, bucket.number):
            self._flush(client)
            told = self._told[client] = Told(kind, bucket.number, bucket.number, now, now)
        told.last, told.last_us = bucket.number, now
        told.tuples += 0 if bucket.batch is None else bucket.batch.num_rows
        told.waited_us = max(told.waited_us, now - bucket.entered_us)

    def _flush(self, client: str) -> None:
        told = self._told.pop(client, None)
        if told is not None:
            self.lines.append(told.line(client))

    # --- the end -------------------------------------------------------------------------------

    def timeline(self, outcome: Outcome) -> list[Line]:
        """Everything in the order of time."""
        for client in list(self._told):
            self._flush(client)
        lines = [*_fault_lines(outcome.scenario.faults, outcome.simulated_us), *self._begun()]
        lines = sorted((line for line in lines if line.text), key=lambda line: line.at_us)
        if outcome.violation is not None:
            said = f"promise '{outcome.violation.checker}' broken: {outcome.violation.said}"
            lines.append(Line(outcome.simulated_us, "", said, Tone.BROKEN))
        return list(_together(lines))

    def _begun(self) -> list[Line]:
        """The lines without those of an undisturbed start."""
        start = self._started_us
        if start is None:
            return self.lines
        late = [line for line in self.lines if line.at_us > start or line.tone is not Tone.PLAIN]
        return [Line(start, "all nodes", "STABLE"), *late]


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _switch(before: Chosen, after: Chosen) -> str:
    """What a change of `Curr` and `Bck` means."""
    curr, bck = after
    said = [f"reads {curr} instead of {before[0]}"] if curr != before[0] else []
    if bck != before[1]:
        said.append(f"takes corrections from {bck}" if bck else "needs no second replica any more")
    return ", ".join(said)


def _fault_lines(faults: Iterable[Fault], until_us: int) -> Iterator[Line]:
    for fault in faults:
        what = fault.kind.value
        where = f" {fault.other}" if fault.other else ""
        if fault.at_us <= until_us:
            lasts = f"for {fault.lasts_us / 1e6:.2f} s"
            yield Line(fault.at_us, fault.node, f"FAULT {what}{where} {lasts}", Tone.FAULT)
        if fault.until_us <= until_us:
            yield Line(fault.until_us, fault.node, f"MENDED {what}{where}", Tone.MENDED)


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
    return b.at_us - a.at_us <= 1_000_000 and len(a.who) < 30


# --- telling ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Telling:
    """A run that was told: how it ended, its timeline, and how the last thing came about."""

    run: Run
    outcome: Outcome
    lines: list[Line]
    trace: Trace

    @property
    def broken_by(self) -> int | None:
        """The entry of the trace during which a promise was broken, if it was at a moment."""
        broken = self.outcome.violation
        return None if broken is None or broken.checker == "liveness" else self.run.world.cause

    @property
    def worst_delay_us(self) -> int:
        """The longest any client waited for news of a bucket while a path worked."""
        return self.run.delay.worst

    @property
    def delay_bound_us(self) -> int:
        """How long it may wait at most."""
        return self.run.delay.bound_us


def tell(scenario: Scenario) -> Telling:
    """Run a scenario and tell its story."""
    narrator, trace = Narrator(), Trace(keep=None)
    run = Run(narrator.watched(scenario), trace, narrator.attach)
    outcome = run.execute()
    return Telling(run, outcome, narrator.timeline(outcome), trace)


def chain_to(trace: Trace, entry: int) -> list[Entry]:
    """How an entry came about, from the fault or the last tick of a clock on."""
    chain = trace.story(entry)
    begins = [place for place, e in enumerate(chain) if _begins(e)]
    if len(begins) > 1 and chain[begins[-2]].node == FAULT_NODE:
        begins.pop()  # a start that a fault has caused
    return chain[begins[-1] :] if begins else chain


def _begins(entry: Entry) -> bool:
    return entry.node == FAULT_NODE or entry.text.startswith(BEGINNINGS)


def explain(telling: Telling, containing: str | None = None) -> list[str]:
    """How the violation, or the last entry with this text, came about: short lines."""
    entry = telling.broken_by
    if containing is not None:
        found = telling.trace.last(containing)
        entry = found.id if found is not None else None
    return [] if entry is None else list(_folded(chain_to(telling.trace, entry)))


def _folded(chain: list[Entry]) -> Iterator[str]:
    """The entries as short lines; of a long row of the same kind only the ends."""
    for (node, _), group in groupby(chain, key=lambda e: (e.node, e.text.partition("(")[0])):
        alike = list(group)
        if len(alike) <= 3:
            yield from map(_short, alike)
            continue
        yield _short(alike[0])
        yield f"{'':10}{node:16} ... {len(alike) - 2} more of the same ..."
        yield _short(alike[-1])


def _short(entry: Entry) -> str:
    text = entry.text
    for pattern, instead in _SHORTER:
        text = pattern.sub(instead, text)
    return f"{entry.at_us / 1e6:8.2f}  {entry.node:16} {text}"


_SHORTER = [
    (re.compile(r"^MessageReceived\(sender=(.*?), message=(.*)\)$"), r"<- \1: \2"),
    (re.compile(r"^Send\(to=(.*?), message=(.*)\)$"), r"-> \1: \2"),
    (re.compile(r", \w+=(False|None|\[\])(?=[,)])"), ""),
    (re.compile(r"Bucket\(number=(-?\d+), entered_us=\d+, batch=(.*?)\)"), r"\1: \2"),
]


def options_of(scenario: Scenario) -> dict[str, str]:
    """What was drawn, in a few phrases."""
    o, c, link, us = scenario.options, scenario.costs, scenario.link, format_duration
    how = "one replica after the other" if o.staggered else "in place"
    order = "in order" if link.in_order else "out of order"
    return {
        "delay": f"X {us(o.max_delay_us)} {o.deadline.value}, hop {us(o.hop_us)},"
        f" bucket {us(o.bucket_us)}",
        "failures": f"heartbeat {us(o.heartbeat_us)}, failed after {o.misses} misses,"
        f" long after {us(o.long_failure_us)}",
        "policies": f"up-failure {o.up_failure.value}, stabilization {o.stabilization.value}, {how}",
        "buffers": f"input {o.input_window} buckets, under way {o.send_window},"
        f" batch {o.batch_buckets}, log {o.max_log or 'unlimited'},"
        f" checkpoint every {o.checkpoint_batches}",
        "costs": f"batch {us(c.batch_us)} and {us(c.bucket_us)} a bucket, sync {us(c.sync_us)},"
        f" fork {us(c.fork_us)}",
        "network": f"{us(link.latency_us)} to {us(link.latency_us + link.jitter_us)}, {order}",
        "clocks": f"off by {us(scenario.clock_offset_us)} at most, drift {scenario.clock_drift:g}",
    }


def nodes_of(scenario: Scenario) -> dict[str, str]:
    """Who computes what from what, fragment by fragment."""
    replicas = Counter(r.name.rpartition("/")[0] for r in scenario.topology.replicas)
    said = dict.fromkeys(scenario.topology.sources, "source")
    for fragment in scenario.topology.fragments:
        plans = "; ".join(f"{p.output} from {', '.join(p.inputs)}" for p in fragment.plans)
        said[fragment.name] = f"{replicas[fragment.name]} replicas, {plans}"
    return said | {c.name: f"reads {c.stream}" for c in scenario.topology.clients}


def promises_of(telling: Telling) -> dict[str, tuple[str, str]]:
    """Each promise that was watched: whether it was kept, and what it says."""
    broken = telling.outcome.violation
    kept = "kept" if broken is None else "kept so far"
    said = {
        checker.name: (kept, str(type(checker).__doc__).split("\n")[0])
        for checker in telling.run.probe.checkers
        if checker.name not in ("oracle", "coverage", Narrator.name)
    }
    said["liveness"] = (kept, "When everything has healed all nodes catch up.")
    if broken is not None:
        said[broken.checker] = ("BROKEN", broken.said)
    return said
