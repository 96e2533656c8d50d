"""Applies the checkers that observe lanes to a live run.

The traces of its nodes tell when each tentative lane was forked, what there was of its inputs and
what it said, with digests for tuples, and which states were lost (`runtime.node.lane_trace`). All
tuples are computed anew from those of the sources, and the simulated world's checkers observe the
same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from msgspec import convert

from australis.diagram.fragments import Plan, cut
from australis.diagram.model import Diagram, Spark
from australis.protocols.dpc.effects import (
    AnnounceDifference,
    AnnounceLoss,
    ForkLane,
    RunTentative,
    SkipAhead,
    TentativeDone,
)
from australis.protocols.dpc.messages import Bucket, TentativeData, reader_key
from australis.protocols.dpc.missing import Missing, MissingSource
from australis.protocols.dpc.proxies import Skipped, Tentatives
from australis.protocols.dpc.spans import Span, Spans
from australis.protocols.dpc.topology import Topology, dpc_options
from australis.reference import ReferenceEngine, State
from australis.runtime.client import Change, ChangeKind
from australis.runtime.node.lane_trace import IN_LOG, digest
from australis.runtime.testbed import Computed, Testbed
from australis.scenarios.traced import Line, from_the_beginning, lines_of, topology_of
from australis.sim.dpc.checkers.differences import DifferencesAnnounced
from australis.sim.dpc.checkers.logs_bounded import BoundedLogs
from australis.sim.dpc.checkers.loss import LossTold
from australis.sim.dpc.checkers.precision import Precision
from australis.sim.dpc.checkers.tentative import TentativeContent
from australis.sim.dpc.oracle import UNKNOWN, equal
from australis.sim.dpc.probes import Checker, Violation
from australis.sim.dpc.run import let_go
from australis.sim.faults import Fault


@dataclass(frozen=True)
class Content:
    """The tuples of a bucket, known by their digest."""

    digest: str


def _content(said: str | None) -> Content | None:
    return Content(said) if said else None


def _missing(said: Iterable[Any]) -> Missing:
    return tuple(
        MissingSource(source, tuple((after, upto) for after, upto in runs)) for source, runs in said
    )


class LiveTruth:
    """The fault-free streams up to a bucket, and what follows from other inputs."""

    def __init__(self, diagram: Diagram, known: Computed, upto: int) -> None:
        self._known = known
        self._upto = upto
        self._plans: dict[str, Plan] = {p.output: p for f in cut(diagram) for p in f.plans}
        self._engines = {
            stream: ReferenceEngine(plan, known.schemas, diagram.buckets)
            for stream, plan in self._plans.items()
            if not any(isinstance(operator, Spark) for operator in plan.operators)
        }
        """What a user's function makes of other inputs is not known."""
        self._batches: dict[str, pa.RecordBatch] = {}
        """All tuples met so far, by their digest."""

    def _met(self, batch: pa.RecordBatch | None) -> Content | None:
        found = _content(digest(batch))
        if found is not None and batch is not None:
            self._batches[found.digest] = batch
        return found

    def content(self, stream: str, number: int) -> Any:
        """The content of a bucket; UNKNOWN beyond the last one that is known."""
        if number > self._upto:
            return UNKNOWN
        return self._met(self._known.logs[stream].get(number))

    def state(self, stream: str, number: int, after: int = -1) -> Any:
        """The state after a bucket of a lane that has read what follows bucket `after`."""
        engine = self._engines.get(stream)
        if engine is None or number > self._upto:
            return UNKNOWN
        inputs = [
            [batch for n, batch in self._known.logs[s].items() if after < n <= number]
            for s in self._plans[stream].inputs
        ]
        return engine.step(engine.initial, inputs, number)[0]

    def step(self, stream: str, state: State, inputs: tuple[Any, ...], number: int) -> Any:
        """The state after one more bucket, and the content of the stream's bucket."""
        if any(one is not None and one.digest not in self._batches for one in inputs):
            return UNKNOWN, UNKNOWN
        batches = [[] if one is None else [self._batches[one.digest]] for one in inputs]
        state, made = self._engines[stream].step(state, batches, number)
        return state, self._met(dict(made).get(number))


class ReplayedContent(TentativeContent):
    """The same promise, over the records of a live run."""

    def delivered(self, client: str, what: Any, now: int) -> None:
        """Compare what a client delivers with what any lane must have said, since a client keeps no
        trace of what it receives."""
        if isinstance(what, Tentatives):
            stream, bucket = self._clients[client], what.bucket
            known = [*self._replay.versions(stream, bucket.number)]
            known.append(self._truth.content(stream, bucket.number))
            if not any(one is UNKNOWN or equal(one, bucket.batch) for one in known):
                self.fail(f"{client} delivered tuples in bucket {bucket.number} that no lane said")

    def _knows_clock(self, machine: Any, sender: str, data: TentativeData) -> bool:
        """Links keep the order: the answer that tells the clock comes first."""
        return True


class ReplayedPrecision(Precision):
    """The same promise, over the records of a live run."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self._streams = {client.name: client.stream for client in topology.clients}

    def delivered(self, client: str, what: Any, now: int) -> None:
        """Compare the names that a client delivers with what any lane was missing."""
        if isinstance(what, Tentatives):
            number, stream = what.bucket.number, self._streams[client]
            known: list[set[str]] = [set()]
            for (_, output, _, other), absent in self._truth.items():
                if (output, other) == (stream, number):
                    known.append({source for source, _ in absent})
            said = {one.source for one in what.bucket.missing}
            if said not in known:
                told = ", ".join(sorted(said)) or "nothing"
                self.fail(f"{client} was told that {told} is missing in bucket {number}")


@dataclass(frozen=True)
class Size:
    """The size of a log before something is appended to it; its bytes are not in traces."""

    end: int
    trimmed_upto: int
    kept_bytes: int = 0


Sizes = dict[tuple[str, str], Size]
"""The sizes of logs, by machine and stream."""


class Retold:
    """Tells a checker what traces say, as the simulated world tells it what happens."""

    def __init__(
        self, truth: LiveTruth, topology: Topology, checker: Checker, sizes: Sizes | None = None
    ) -> None:
        """It keeps the `sizes` of logs up to date, for a checker that asks for them."""
        self._truth = truth
        self._checker = checker
        self._spans = {o.stream: o.span for r in topology.replicas for o in r.outputs}
        self._sizes = {} if sizes is None else sizes
        self._machines: dict[str, Any] = {}
        """What is to be known of each running machine."""
        self._told: dict[str, Callable[[str, Line], None]] = {
            "began": self._began,
            "arrived": self._has_arrived,
            "forked": self._has_forked,
            "released": self._has_released,
            "computed": self._has_computed,
            "skipped": self._has_skipped,
            "installed": self._has_installed,
            "appended": self._has_appended,
            "lost": self._has_lost,
            "differs": self._has_differed,
        }

    def take(self, line: Line) -> None:
        """Tell of a line of a trace."""
        for word in self._told.keys() & line.keys():
            self._told[word](line["machine"], line)

    def _machine(self, name: str) -> Any:
        return self._machines.setdefault(name, SimpleNamespace(inputs={}, outputs={}))

    def _output(self, machine: Any, stream: str) -> Any:
        new = SimpleNamespace(config=SimpleNamespace(span=self._spans[stream]))
        return machine.outputs.setdefault(stream, new)

    def _began(self, machine: str, line: Line) -> None:
        self._machines.pop(machine, None)

    def _has_arrived(self, machine: str, line: Line) -> None:
        told, sender = line["arrived"], line["sender"]
        there = self._machine(machine)
        curr = sender if told["reads"] else ""
        choice = SimpleNamespace(curr=curr)
        key = reader_key(told["stream"], told["reader"])
        there.inputs[key] = SimpleNamespace(choice=choice, standby=None, have=told["have"])
        said, missing = _content(told["said"]), _missing(told["missing"])
        bucket = Bucket(told["bucket"], 0, said, missing=missing)
        data = TentativeData(told["stream"], told["epoch"], bucket, told["reader"])
        self._checker.received(machine, there, sender, data)

    def _has_forked(self, machine: str, line: Line) -> None:
        told = line["forked"]
        there = self._machine(machine)
        self._output(there, told["output"]).upto = told["upto"]
        self._checker.forked(machine, there, ForkLane(told["output"], told["epoch"]))

    def _has_released(self, machine: str, line: Line) -> None:
        told = line["released"]
        number = told["bucket"]
        inputs = [self._input(one, number) for one in told["inputs"]]
        there = self._machine(machine)
        self._output(there, told["output"]).inputs = [one for one, _ in inputs]
        spans = tuple(those for _, those in inputs)
        missing = _missing(told["missing"])
        effect = RunTentative(told["output"], told["epoch"], number, 0, spans, missing)
        self._checker.released(machine, there, effect)

    def _input(self, told: Line, number: int) -> tuple[Any, Spans]:
        """An input as its machine had it, and what its lane was given."""
        said, sender = told["said"], told["from"]
        one = SimpleNamespace(
            stream=told["stream"],
            reader=told["reader"],
            have=told["have"],
            overlay={} if said is None else {number: Bucket(number, 0, _content(said))},
            said={} if sender is None else {number: tuple(sender)},
            options=SimpleNamespace(input_window=told["window"]),
        )
        if not told["there"]:
            return one, ()
        in_log = told["given"] == IN_LOG
        given = self._truth.content(one.stream, number) if in_log else _content(told["given"])
        return one, (Span(number - 1, number, (Bucket(number, 0, given),)),)

    def _has_computed(self, machine: str, line: Line) -> None:
        told = line["computed"]
        said = _content(told["said"])
        done = TentativeDone(told["output"], told["epoch"], told["bucket"], 0, said)
        self._checker.computed(machine, done)

    def _has_skipped(self, machine: str, line: Line) -> None:
        told = line["skipped"]
        effect = SkipAhead(told["output"], told["after"], told["right_from"])
        self._checker.skipped(machine, effect)

    def _has_installed(self, machine: str, line: Line) -> None:
        told = line["installed"]
        inputs = [SimpleNamespace(stream=s, reader=reader) for s, reader in told["inputs"]]
        there: Any = SimpleNamespace(outputs={told["output"]: SimpleNamespace(inputs=inputs)})
        self._checker.installed(machine, there, told["output"])

    def _has_appended(self, machine: str, line: Line) -> None:
        told = line["appended"]
        stream, end = told["stream"], told["before"]
        self._sizes[machine, stream] = Size(end, told["trimmed_upto"])
        new = [Bucket(number, 0) for number in range(end + 1, told["end"] + 1)]
        self._checker.appended(machine, stream, end, new)

    def _has_lost(self, machine: str, line: Line) -> None:
        told = line["lost"]
        gone = tuple((stream, upto) for stream, upto in told["gone"])
        waits_for = tuple(told["waits_for"])
        self._checker.lost(machine, AnnounceLoss(told["output"], gone, waits_for))

    def _has_differed(self, machine: str, line: Line) -> None:
        self._checker.differs(machine, convert(line["differs"], AnnounceDifference))


@dataclass(frozen=True)
class Judgement:
    """What the checkers say that observe the lanes of a live run."""

    broken: tuple[str, ...] = ()
    compared: int = 0
    """The number of tentative buckets whose content was compared."""
    precise: int = 0
    """The number of tentative buckets in which something was missing, as they said themselves."""


def judge(
    testbed: Testbed, known: Computed, upto: int, happened: Sequence[Fault] | None
) -> Judgement:
    """Apply the checkers that observe lanes to a testbed; if its faults are not known, those of
    losses do not apply. Without complete traces nothing is known of lanes."""
    lines = lines_of(testbed)
    if not lines or not from_the_beginning(testbed):
        return Judgement()
    options = dpc_options(testbed.cluster, testbed.diagram)
    topology = topology_of(testbed)
    clients = {client.name: client.stream for client in topology.clients}
    truth = LiveTruth(testbed.diagram, known, upto)
    content = ReplayedContent(truth, clients)
    precision = ReplayedPrecision(topology)
    beat_us = options.heartbeat_us
    checkers: list[Checker] = [content, precision]
    checkers.append(DifferencesAnnounced(topology, beat_us, lambda: 0, expected=False))
    if happened is not None:
        left = let_go(options, happened)
        checkers.append(LossTold(topology, happened, clients, False, left))
    sizes: Sizes = {}
    if options.bounded:
        checkers.append(BoundedLogs(options, lambda machine, stream: sizes[machine, stream]))
    retold = ((Retold(truth, topology, one, sizes), one) for one in checkers)
    broken = (_broken(testbed, lines, told, one) for told, one in retold)
    return Judgement(tuple(said for said in broken if said), content.compared, precision.compared)


def _broken(testbed: Testbed, lines: list[Line], retold: Retold, checker: Checker) -> str:
    """What a checker says of all lines and of all that the client heard, if it is not content."""
    at = ""
    try:
        for line in lines:
            at = f"{line['time']}: "
            retold.take(line)
        at = ""
        for client, place in testbed.cluster.clients.items():
            for one in testbed.heard_of[place.stream]:
                if (what := _heard(one.change)) is not None:
                    checker.delivered(client, what, 0)
        checker.finish()
    except Violation as broken:
        return f"{at}{broken}"
    return ""


def _heard(change: Change) -> Tentatives | Skipped | None:
    """What a client was told that depends on lanes, with digests for tuples."""
    if change.kind is ChangeKind.SKIPPED:
        return Skipped(-1, change.bucket)
    if change.kind is not ChangeKind.TENTATIVE:
        return None
    missing = tuple(MissingSource(source, ()) for source in change.missing)
    said = _content(digest(change.batch))
    return Tentatives(Bucket(change.bucket, 0, said, missing=missing))
