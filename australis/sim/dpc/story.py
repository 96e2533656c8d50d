"""The story of one run: faults, phases, switches, and the deliveries to each client.

The narrator is a checker that breaks nothing. It watches the machines from within (its `watched`
scenario has the same machines, which show themselves after each event) and describes the deliveries
to a client in as few lines as possible.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from australis.kernel.durations import format_duration
from australis.protocols.dpc.effects import AnnouncePhase
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.options import LogBounds
from australis.protocols.dpc.proxies import ClientMachine, Insertions, RecDone, Tentatives, Undo
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.states import Phase
from australis.sim.dpc.probes import Checker
from australis.sim.dpc.run import Run, Scenario
from australis.sim.harness.story import Line, Tone
from australis.sim.world import Clock

BEGINNINGS = ("TimerFired(name=heartbeat", "TimerFired(name=close", "Started(")
"""The prefixes of trace entries at which a causal chain ends: clock ticks, and the boot."""


AT_ONCE_US = 100_000
"""Switches at most this far apart share a line."""

Chosen = tuple[str, str | None]
"""`Curr` and `Bck` of table 4.3."""


@dataclass
class Switch:
    """A change of the replicas an input is read from, and its line in the story."""

    at_us: int
    place: int
    before: Chosen
    rows: dict[int, None]


@dataclass
class Told:
    """The last deliveries to a client that one line can describe."""

    kind: str
    first: int
    last: int
    first_us: int
    last_us: int
    tuples: int = 0
    waited_us: int = 0

    def follows(self, kind: str, number: int) -> bool:
        """Whether a bucket continues this row of deliveries."""
        return kind == self.kind and number == self.last + 1

    def line(self, client: str) -> Line:
        """The row in one line; tentative tuples count from their beginning, stable ones to their
        end.
        """
        buckets = _span(self.first, self.last)
        tuples = f"({self.tuples} tuples)"
        if self.kind == "stable":
            return Line(self.last_us, client, f"stable up to bucket {self.last}", Tone.STABLE)
        if self.kind == "corrected":
            return Line(self.last_us, client, f"corrected {buckets} {tuples}", Tone.STABLE)
        text = f"tentative {buckets} {tuples}, at most {self.waited_us / 1e6:.2f} s old"
        return Line(self.first_us, client, text, Tone.TENTATIVE)


class Narrator(Checker):
    """A checker that records the story."""

    name = "story"

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._now: Callable[[], int] = lambda: 0
        self._clocks: dict[str, Clock] = {}
        self._starting: set[tuple[str, str]] = set()
        """The outputs that have not been stable yet."""
        self._started_us: int | None = None
        self._switches: dict[tuple[str, str], Switch] = {}
        self._turns: dict[tuple[str, str], tuple[Any, int]] = {}
        self._choices: dict[tuple[str, str], Chosen] = {}
        self._lives: dict[str, int] = {}
        self._told: dict[str, Told] = {}
        self._correcting: set[str] = set()

    def attach(self, run: Run) -> list[Checker]:
        """Follow a run; for its parameter `extra`."""
        self._now = lambda: run.world.now
        self._clocks = run.clocks
        replicas = run.scenario.topology.replicas
        self._starting = {(r.name, o.stream) for r in replicas for o in r.outputs}
        return [self]

    def watched(self, scenario: Scenario) -> Scenario:
        """The same scenario, with machines that let the narrator look at them after each event."""

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

    def _look_at_life(self, node: str, machine: ReplicaMachine) -> None:
        before = self._lives.get(node, 0)
        self._lives[node] = machine.incarnation
        if before and machine.incarnation != before:
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
        """Describe a switch, together with others right before it."""
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

    def phase_changed(self, node: str, effect: AnnouncePhase) -> None:
        reason = effect.trigger.name.lower().replace("_", " ")
        stream, was, now = effect.output, effect.was.name, effect.now.name
        self._say(node, f"{stream}: {was} -> {now} ({reason})")
        if effect.now is Phase.STABLE:
            self._stable(node, stream)

    def _stable(self, node: str, stream: str) -> None:
        """Record when everything was stable for the first time."""
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
        told.waited_us = max(told.waited_us, self._clocks[client].local(now) - bucket.entered_us)

    def _flush(self, client: str) -> None:
        told = self._told.pop(client, None)
        if told is not None:
            self.lines.append(told.line(client))

    # --- the end -------------------------------------------------------------------------------

    def timeline(self) -> list[Line]:
        """The events of nodes and the deliveries to clients."""
        for client in list(self._told):
            self._flush(client)
        return self._begun()

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
    """The meaning of a change of `Curr` and `Bck`."""
    curr, bck = after
    said = [f"reads {curr} instead of {before[0]}"] if curr != before[0] else []
    if bck != before[1]:
        said.append(f"takes corrections from {bck}" if bck else "needs no second replica any more")
    return ", ".join(said)


def options_of(scenario: Scenario) -> dict[str, str]:
    """What was drawn, in a few phrases."""
    o, c, link, us = scenario.options, scenario.costs, scenario.link, format_duration
    how = "one replica after the other" if o.staggered else "in place"
    how += ", inputs from two replicas" if o.hedged else ""
    own = "".join(f", {r} {us(d) if d else 'never tentative'}" for r, d in o.delays.items())
    order = "in order" if link.in_order else "out of order"
    return {
        "delay": f"X {us(o.max_delay_us)} {o.deadline.value}, hop {us(o.hop_us)},"
        f" bucket {us(o.bucket_us)}{own}",
        "failures": f"heartbeat {us(o.heartbeat_us)}, failed after {o.misses} misses,"
        f" long after {us(o.long_failure_us)}",
        "policies": f"up-failure {o.up_failure.value}, stabilization {o.stabilization.value}, {how}",
        "buffers": f"input {o.input_window} buckets, under way {o.send_window},"
        f" batch {o.batch_buckets}, log {_log_of(o.log)},"
        f" checkpoint every {o.checkpoint_batches}",
        "costs": f"batch {us(c.batch_us)} and {us(c.bucket_us)} a bucket, sync {us(c.sync_us)},"
        f" fork {us(c.fork_us)}",
        "network": f"{us(link.latency_us)} to {us(link.latency_us + link.jitter_us)}, {order}",
        "clocks": f"off by {us(scenario.clock_offset_us)} at most, those of sources"
        f" {us(scenario.source_skew_us)} apart, drift {scenario.clock_drift:g},"
        f" steps of {us(scenario.clock_step_us)} at restarts",
    }


def _log_of(bounds: LogBounds) -> str:
    """The bounds of logs in a phrase."""
    most = [f"{n} {unit}" for n, unit in _limits(bounds) if n is not None]
    return f"{' or '.join(most)}, full: {bounds.full.value}" if most else "unlimited"


def _limits(bounds: LogBounds) -> list[tuple[int | None, str]]:
    return [(bounds.max_buckets, "buckets"), (bounds.max_bytes, "bytes")]


def nodes_of(scenario: Scenario) -> dict[str, str]:
    """The replicas, inputs and outputs of each fragment."""
    replicas = Counter(re.split("[/@]", r.name)[0] for r in scenario.topology.replicas)
    said = dict.fromkeys(scenario.topology.sources, "source")
    for fragment in scenario.topology.fragments:
        plans = "; ".join(f"{p.output} from {', '.join(p.inputs)}" for p in fragment.plans)
        said[fragment.name] = f"{replicas[fragment.name]} replicas, {plans}"
    return said | {c.name: f"reads {c.stream}" for c in scenario.topology.clients}
