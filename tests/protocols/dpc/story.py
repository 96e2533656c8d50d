"""Small runs of DPC in the simulated world, and what there is to tell of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from protocols.dpc.hand import options

from australis.diagram.build import DiagramBuilder
from australis.diagram.model import Diagram
from australis.kernel.durations import SECOND
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import AnnouncePhase
from australis.protocols.dpc.proxies import (
    ClientMachine,
    Insertions,
    RecDone,
    Skipped,
    Tentatives,
    Undo,
)
from australis.protocols.dpc.topology import replicate
from australis.sim.dpc.engine import Digest, DigestEngine
from australis.sim.dpc.hosts import ReplicaHost
from australis.sim.dpc.probes import Checker
from australis.sim.dpc.run import Run, Scenario
from australis.sim.faults import Fault, Kind

SCHEMA = "k string, v int"
CLIENT = "client"


def chain(depth: int = 1) -> Diagram:
    """Sources s1, s2 and s3 merged in `merge`, then passed on by `step2`, `step3`, ..."""
    names = [f"step{i}" for i in range(2, depth + 1)]
    fragments = {"merge": ["merged"]} | {name: [f"{name}_out"] for name in names}
    d = DiagramBuilder("chain", bucket="1 s", fragments=fragments)
    sources = [d.source(f"s{i}", push=True, schema=SCHEMA) for i in (1, 2, 3)]
    stream = d.union("merged", *sources)
    for name in names:
        stream = d.filter(f"{name}_out", stream, "v > 0")
    return d.done()


def joined() -> Diagram:
    """s1 joined with s2 in one output, s1 passed on beside the join in another."""
    d = DiagramBuilder("joined", bucket="1 s", fragments={"join": ["both", "past"]})
    a, b = (d.source(f"s{i}", push=True, schema=SCHEMA) for i in (1, 2))
    d.output(d.join("both", a, b, within="2 s", on="left.k = right.k", select={"k": "left.k"}))
    d.output(d.filter("past", a, "v > 1"))
    return d.done()


def rows(source: str, number: int) -> Digest:
    """Every source has two tuples in every bucket."""
    return Digest(f"{source} {number}".encode(), 2)


def scenario(
    *faults: Fault,
    diagram: Diagram | None = None,
    replicas: int = 2,
    safety_s: int = 30,
    fields: dict[str, Any] | None = None,
    **changes: Any,
) -> Scenario:
    """A run of half a minute with these faults; `changes` are those of the options."""
    topology = replicate(diagram or chain(), {}, default=replicas)
    engines = dict.fromkeys(topology.plans, DigestEngine)
    plain: dict[str, Any] = {"safety_us": safety_s * SECOND, "faults": faults}
    return Scenario(1, topology, engines, rows, options(**changes), **(plain | (fields or {})))


def fault(kind: Kind, at_s: float, lasts_s: float, node: str, other: str = "") -> Fault:
    return Fault(kind, int(at_s * SECOND), int(lasts_s * SECOND), node, other)


def isolate(node: str, at_s: float, lasts_s: float) -> Fault:
    """Nobody hears a node."""
    return fault(Kind.ISOLATE, at_s, lasts_s, node)


def cut(node: str, other: str, at_s: float, lasts_s: float) -> Fault:
    return fault(Kind.CUT, at_s, lasts_s, node, other)


def crash(node: str, at_s: float, lasts_s: float) -> Fault:
    return fault(Kind.CRASH, at_s, lasts_s, node)


@dataclass(frozen=True)
class Line:
    """One thing worth telling."""

    at_us: int
    who: str
    text: str

    def __str__(self) -> str:
        return f"{self.at_us / SECOND:6.2f}  {self.who:8}  {self.text}"


class Watch(Checker):
    """Writes down what the clients are told."""

    name = "watch"

    def __init__(self) -> None:
        self.told: list[tuple[int, str, Any]] = []

    def delivered(self, client: str, what: Any, now: int) -> None:
        self.told.append((now, client, what))


class Play:
    """A run from its beginning to its end, with everything there is to tell of it."""

    def __init__(self, scenario: Scenario) -> None:
        self.lines: list[Line] = []
        self.watch = Watch()
        self.moments: list[tuple[int, Callable[[Run], None]]] = []
        self.run = Run(self._loud(scenario), extra=lambda run: [self.watch])
        self._short = {c.name: CLIENT for c in scenario.topology.clients}
        if len(self._short) > 1:
            self._short = {c.name: f"of {c.stream}" for c in scenario.topology.clients}

    def at(self, seconds: float, look: Callable[[Run], None]) -> Play:
        """Look at the run at some moment."""
        self.moments.append((int(seconds * SECOND), look))
        return self

    def end(self) -> Play:
        """Run it; no promise may be broken."""
        for one in self.run.scenario.faults:
            self.run.world.at(one.at_us, self._tell, "fault", _said(one))
            if one.lasts_us:
                self.run.world.at(one.until_us, self._tell, "fault", f"{_where(one)}: over")
        for when, look in self.moments:
            self.run.world.at(when, look, self.run)
        outcome = self.run.execute()
        assert outcome.violation is None, outcome.violation
        return self

    # --- what is told -----------------------------------------------------------------------

    def told(self, client: str | None = None) -> list[str]:
        """What the application was told: S3 is stable, T3 tentative, U3 undo to 3."""
        return [_word(what) for _, c, what in self.watch.told if client in (None, c)]

    def when(self, word: str) -> float:
        """When it was told this, in seconds."""
        return next(now for now, _, what in self.watch.told if _word(what) == word) / SECOND

    def phases(self, node: str) -> list[str]:
        """The phases a node's outputs went through."""
        return [line.text.split(":")[0] for line in self.lines if line.who == node]

    def reads(self) -> list[str]:
        """The replicas the client chose, one after the other."""
        return [line.text for line in self.lines if line.text.startswith("reads ")]

    def story(self) -> str:
        """All of it in order; buckets that follow each other in one line."""
        lines = self.lines + [
            Line(now, self._short[client], _word(what)) for now, client, what in self.watch.told
        ]
        shown = _joined(sorted(lines, key=lambda line: line.at_us))
        return "\n".join(str(line) for line in shown) + "\n"

    # --- listening --------------------------------------------------------------------------

    def _tell(self, who: str, text: str) -> None:
        self.lines.append(Line(self.run.world.now, who, text))

    def _loud(self, scenario: Scenario) -> Scenario:
        play = self

        class LoudHost(ReplicaHost):
            def crash(self) -> None:
                super().crash()
                play._tell(self.name, "down")

            def phase_changed(self, machine: str, effect: AnnouncePhase) -> None:
                super().phase_changed(machine, effect)
                several = f" ({effect.output})" if len(self.machine.outputs) > 1 else ""
                said = f"{effect.was.value} -> {effect.now.value}{several}: {effect.trigger.value}"
                play._tell(self.name, said)

        class LoudClient(ClientMachine):
            def handle(self, event: Event, now: int) -> Any:
                before = self.input.choice
                effects = super().handle(event, now)
                after = self.input.choice
                if (before.curr, before.bck) != (after.curr, after.bck):
                    extra = f", corrections from {after.bck}" if after.bck else ""
                    play._tell(play._short[self.name], f"reads {after.curr}{extra}")
                return effects

        return replace(scenario, replica_host=LoudHost, client_class=LoudClient)


def _where(one: Fault) -> str:
    return f"{one.node} and {one.other}" if one.other else one.node


def _said(one: Fault) -> str:
    return f"{_where(one)}: {one.kind.value} for {one.lasts_us / SECOND:g} s"


def _word(what: Any) -> str:
    match what:
        case Insertions(bucket=b):
            return f"S{b.number}"
        case Tentatives(bucket=b):
            return f"T{b.number}"
        case Undo(upto=upto):
            return f"U{upto}"
        case RecDone():
            return "REC_DONE"
        case Skipped(after=after, upto=upto):
            return f"SKIPPED {after + 1}-{upto}"
    raise AssertionError(what)


_WORDS = {"S": "stable", "T": "tentative"}


def _joined(lines: list[Line]) -> list[Line]:
    """Buckets of one kind that follow each other in one line, at the time of the first."""
    shown: list[Line] = []
    run: list[Line] = []

    def flush() -> None:
        if run:
            first, last = run[0].text, run[-1].text
            numbers = f"{first[1:]}" if first == last else f"{first[1:]}-{last[1:]}"
            begin, end = run[0].at_us, run[-1].at_us
            until = f" (until {end / SECOND:.2f})" if end - begin > SECOND // 10 else ""
            shown.append(Line(begin, run[0].who, f"{_WORDS[first[0]]} {numbers}{until}"))
            run.clear()

    for line in lines:
        data = line.text[0] in _WORDS and line.text[1:].isdigit()
        if not data or (run and (line.who, line.text[0]) != (run[0].who, run[0].text[0])):
            flush()
        if data:
            run.append(line)
        elif line.text.startswith("U") and line.text[1:].lstrip("-").isdigit():
            shown.append(Line(line.at_us, line.who, f"UNDO back to {line.text[1:]}"))
        else:
            shown.append(line)
    flush()
    return shown
