"""Compares the tentative tuples of a live run with a replay of its lanes.

The traces of its nodes tell when each tentative lane was forked, what there was of its inputs and
what it said, with digests for tuples (`runtime.node.lane_trace`). All tuples are computed anew from
those of the sources, and the simulated world's checker observes the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from australis.diagram.fragments import Plan, cut
from australis.diagram.model import Diagram, Spark
from australis.protocols.dpc.effects import ForkLane, RunTentative, SkipAhead, TentativeDone
from australis.protocols.dpc.messages import Bucket, TentativeData, reader_key
from australis.protocols.dpc.proxies import Tentatives
from australis.protocols.dpc.spans import Span, Spans
from australis.reference import ReferenceEngine, State
from australis.runtime.client import ChangeKind
from australis.runtime.node.lane_trace import IN_LOG, digest
from australis.runtime.testbed import Computed, Testbed
from australis.scenarios.traced import Line, from_the_beginning, lines_of
from australis.sim.dpc.checkers.tentative import TentativeContent
from australis.sim.dpc.oracle import UNKNOWN, equal
from australis.sim.dpc.probes import Violation


@dataclass(frozen=True)
class Content:
    """The tuples of a bucket, known by their digest."""

    digest: str


def _content(said: str | None) -> Content | None:
    return Content(said) if said else None


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

    def __init__(self, truth: LiveTruth, clients: Mapping[str, str], *, whole: bool) -> None:
        super().__init__(truth, clients, whole=whole)
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
        }

    def take(self, line: Line) -> None:
        """Observe a line of a trace."""
        for word in self._told.keys() & line.keys():
            self._told[word](line["machine"], line)

    def delivered(self, client: str, what: Any, now: int) -> None:
        """Compare what a client delivers with what any lane must have said, since a client keeps no
        trace of what it receives."""
        if isinstance(what, Tentatives):
            stream, bucket = self._clients[client], what.bucket
            known = [*self._replay.versions(stream, bucket.number)]
            known.append(self._truth.content(stream, bucket.number))
            if self._whole and not any(one is UNKNOWN or equal(one, bucket.batch) for one in known):
                self.fail(f"{client} delivered tuples in bucket {bucket.number} that no lane said")

    # --- lines of traces ---------------------------------------------------------------------

    def _machine(self, name: str) -> Any:
        return self._machines.setdefault(name, SimpleNamespace(inputs={}, outputs={}))

    def _began(self, machine: str, line: Line) -> None:
        self._machines.pop(machine, None)

    def _knows_clock(self, machine: Any, sender: str, data: TentativeData) -> bool:
        """Links keep the order: the answer that tells the clock comes first."""
        return True

    def _has_arrived(self, machine: str, line: Line) -> None:
        told, sender = line["arrived"], line["sender"]
        there = self._machine(machine)
        curr = sender if told["reads"] else ""
        choice = SimpleNamespace(curr=curr)
        key = reader_key(told["stream"], told["reader"])
        there.inputs[key] = SimpleNamespace(choice=choice, standby=None, have=told["have"])
        bucket = Bucket(told["bucket"], 0, _content(told["said"]))
        data = TentativeData(told["stream"], told["epoch"], bucket, told["reader"])
        self.received(machine, there, sender, data)

    def _has_forked(self, machine: str, line: Line) -> None:
        told = line["forked"]
        there = self._machine(machine)
        there.outputs[told["output"]] = SimpleNamespace(upto=told["upto"])
        self.forked(machine, there, ForkLane(told["output"], told["epoch"]))

    def _has_released(self, machine: str, line: Line) -> None:
        told = line["released"]
        number = told["bucket"]
        inputs = [self._input(one, number) for one in told["inputs"]]
        there = self._machine(machine)
        there.outputs[told["output"]] = SimpleNamespace(inputs=[one for one, _ in inputs])
        spans = tuple(those for _, those in inputs)
        effect = RunTentative(told["output"], told["epoch"], number, 0, spans)
        self.released(machine, there, effect)

    def _input(self, told: Line, number: int) -> tuple[Any, Spans]:
        """An input as its machine had it, and what its lane was given."""
        said = told["said"]
        one = SimpleNamespace(
            stream=told["stream"],
            reader=told["reader"],
            have=told["have"],
            overlay={} if said is None else {number: Bucket(number, 0, _content(said))},
            options=SimpleNamespace(input_window=told["window"]),
        )
        in_log = told["given"] == IN_LOG
        given = self._truth.content(one.stream, number) if in_log else _content(told["given"])
        return one, (Span(number - 1, number, (Bucket(number, 0, given),)),)

    def _has_computed(self, machine: str, line: Line) -> None:
        told = line["computed"]
        said = _content(told["said"])
        self.computed(
            machine, TentativeDone(told["output"], told["epoch"], told["bucket"], 0, said)
        )

    def _has_skipped(self, machine: str, line: Line) -> None:
        told = line["skipped"]
        self.skipped(machine, SkipAhead(told["output"], told["after"], told["right_from"]))

    def _has_installed(self, machine: str, line: Line) -> None:
        told = line["installed"]
        inputs = [SimpleNamespace(stream=s, reader=reader) for s, reader in told["inputs"]]
        there: Any = SimpleNamespace(outputs={told["output"]: SimpleNamespace(inputs=inputs)})
        self.installed(machine, there, told["output"])


def broken_promises(trial: Testbed, known: Computed, upto: int) -> list[str]:
    """The first tentative bucket of a trial that does not follow from what was there, if there is
    one; none either if its nodes kept no complete traces."""
    lines = lines_of(trial)
    if not lines or not from_the_beginning(trial):
        return []
    (client,) = trial.cluster.clients
    truth = LiveTruth(trial.diagram, known, upto)
    checker = ReplayedContent(truth, {client: trial.stream}, whole=not _lost_traces(lines))
    at = ""
    try:
        for line in lines:
            at = f"{line['time']}: "
            checker.take(line)
        at = ""
        for one in trial.heard:
            if one.change.kind is ChangeKind.TENTATIVE:
                bucket = Bucket(one.change.bucket, 0, _content(digest(one.change.batch)))
                checker.delivered(client, Tentatives(bucket), 0)
    except Violation as broken:
        return [f"{at}{broken}"]
    return []


def _lost_traces(lines: Iterable[Line]) -> bool:
    """Whether a node that was killed has no trace from before, since it has lost its disk."""
    seen: set[str] = set()
    for line in lines:
        if "killed" in line and line["node"] not in seen:
            return True
        seen.add(line["node"])
    return False
