"""Runs a scenario in the simulated world, with all its checkers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from australis.deployment.sinks import readers
from australis.diagram.model import Diagram, Source
from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.proxies import Insertions, RecDone, Skipped, Tentatives, Undo
from australis.protocols.dpc.topology import Topology, deploy, dpc_options
from australis.runtime.client import Change, ChangeKind
from australis.runtime.sources import open_reader
from australis.runtime.sources.replay import stamped
from australis.runtime.testbed import Heard, computed, stable_upto
from australis.scenarios.check import lost_fragments, reach
from australis.scenarios.model import Fault, FaultKind, Scenario, beginning, seconds
from australis.scenarios.verdict import Course, Verdict, verdict_on
from australis.sim import faults as sim
from australis.sim.dpc.engine import PlanEngine
from australis.sim.dpc.hosts import SourceHost
from australis.sim.dpc.probes import Checker
from australis.sim.dpc.run import Run
from australis.sim.dpc.run import Scenario as Setup
from australis.sim.dpc.truth import merge
from australis.streams.source import SourceStream

START = "1970-01-01T00:00:00.000001Z"
"""When the simulated world begins."""
WARM_UP_US = 5 * SECOND
"""The time after which the replicas are stable."""
RECOVERY_US = 3 * SECOND
"""The time that a replica may need to recover from a fault."""
LIVENESS_US = 60 * SECOND
"""The time after the scenario within which the run must converge."""

_KINDS = {
    FaultKind.KILL: sim.Kind.CRASH,
    FaultKind.PAUSE: sim.Kind.PAUSE,
    FaultKind.LOSE_DISK: sim.Kind.WIPE,
}


def run(scenario: Scenario, change: Callable[[Setup], Setup] = lambda setup: setup) -> Verdict:
    """Run a scenario, possibly a changed one; each promise that a checker finds broken is a
    miss.
    """
    listener = Listener({name: c.stream for name, c in scenario.cluster.clients.items()})
    setup = change(setup_of(scenario))
    outcome = Run(setup, extra=lambda _: [listener]).execute()
    healed_us = WARM_UP_US + scenario.healed_us
    course = Course(
        listener.told,
        seconds(WARM_UP_US),
        seconds(healed_us),
        scenario.diagram.buckets.closed_by(healed_us),
        seconds(setup.safety_us),
        () if outcome.violation is None else (f"a promise was broken: {outcome.violation}",),
    )
    upto = max(0, *map(stable_upto, course.heard.values()))
    known = computed(setup.topology.diagram, Path(), upto)
    return verdict_on(scenario, "sim", known, course)


def setup_of(scenario: Scenario) -> Setup:
    """The scenario in the form of the simulator."""
    cluster, diagram = scenario.cluster, beginning(scenario.diagram, START)
    for source in cluster.standbys:
        raise UserError(
            "has a standby, which a scenario can have with real processes only ('--world live');"
            " `australis sim dpc --preset standby` simulates some",
            name=source,
            place=cluster.place_of("sources", source),
        )
    topology = deploy(diagram, cluster.machines, readers(cluster, diagram), hedged=cluster.hedged)
    options = dpc_options(cluster, diagram)
    safety_us = WARM_UP_US + scenario.lasts_us
    lost = lost_fragments(cluster.replicas, scenario.faults)
    spans = sum(reach(fragment, diagram) or 0 for fragment in topology.fragments)
    return Setup(
        seed=0,
        topology=topology,
        engines=_engines(topology),
        rows=_rows(diagram, safety_us + LIVENESS_US),
        options=options,
        faults=tuple(
            replace(fault, at_us=WARM_UP_US + fault.at_us)
            for each in scenario.faults
            for fault in machine_faults(scenario, each)
        ),
        ahead_us={
            machine: ahead_us
            for node, ahead_us in scenario.clocks.items()
            for machine in scenario.machines[node]
        },
        safety_us=safety_us,
        liveness_us=LIVENESS_US,
        progress_us=None if lost else _longest_us(scenario) + options.max_delay_us,
        source_host=ReplayedSource,
        promised=-spans - 2 if lost else None,
        loses_states=bool(lost),
    )


def _longest_us(scenario: Scenario) -> int:
    """The longest time without a gap between faults in which a replica could recover."""
    spans = merge((f.at_us, f.until_us + RECOVERY_US) for f in scenario.faults)
    return max((end - begin for begin, end in spans), default=0)


def machine_faults(scenario: Scenario, fault: Fault) -> Iterator[sim.Fault]:
    """The faults of machines that follow from a fault of their nodes."""
    at, lasts = fault.at_us, fault.lasts_us
    for node in fault.nodes:
        for machine in scenario.machines[node]:
            if not fault.kind.of_links:
                yield sim.Fault(_KINDS[fault.kind], at, lasts, machine)
                continue
            for other in scenario.machines[fault.other]:
                if fault.kind is FaultKind.SLOW:
                    ends = [(other, machine)] + ([] if fault.one_way else [(machine, other)])
                    for one, to in ends:
                        yield sim.Fault(sim.Kind.SLOW_LINK, at, lasts, one, to, fault.by_us)
                elif fault.one_way:
                    yield sim.Fault(sim.Kind.CUT_ONE_WAY, at, lasts, other, machine)
                else:
                    yield sim.Fault(sim.Kind.CUT, at, lasts, machine, other)


def _engines(topology: Topology) -> dict[str, Callable[[], PlanEngine]]:
    """The reference engine for every plan."""
    diagram = topology.diagram
    schemas = {source.name: source.schema for source in diagram.sources}
    made: dict[str, PlanEngine] = {}
    for stream, plan in topology.plans.items():
        made[stream] = PlanEngine(plan, schemas, diagram.buckets)
        schemas[stream] = made[stream].schema
    return {stream: lambda engine=engine: engine for stream, engine in made.items()}  # type: ignore[misc]


def _rows(diagram: Diagram, until_us: int) -> Callable[[str, int], pa.RecordBatch | None]:
    """The rows of a source in a bucket, equal to those of the live generator."""
    logs = {source.name: _log(source, diagram, until_us) for source in diagram.sources}
    return lambda source, number: logs[source].get(number)


def _log(source: Source, diagram: Diagram, until_us: int) -> dict[int, pa.RecordBatch]:
    tuples = SourceStream(source.schema, diagram.buckets, slack_us=source.slack_us)
    reader = open_reader(source, Path())
    assert reader is not None, "what is generated can be read again"
    for release in stamped(reader, source, diagram.buckets, 0):
        tuples.offer(release.rows)
        if tuples.due_boundary() >= until_us:
            break
    step = tuples.close(tuples.due_boundary())
    return {} if step is None else dict(step.buckets)


class ReplayedSource(SourceHost):
    """A source that can be replayed: its proxy reads what it missed after a restart."""

    def _new(self, after: int, upto: int, now: int) -> list[Bucket]:
        return [Bucket(n, now, self._rows(n)) for n in range(after + 1, upto + 1)]


class Listener(Checker):
    """Records what the clients receive."""

    name = "listener"

    def __init__(self, clients: Mapping[str, str]) -> None:
        self._clients = clients
        self.told: dict[str, list[Heard]] = {stream: [] for stream in clients.values()}
        """What was received of each stream."""

    def delivered(self, client: str, what: Any, now: int) -> None:
        self.told[self._clients[client]].append(Heard(seconds(now), _change(what)))


def _change(what: Any) -> Change:
    match what:
        case Insertions(bucket=bucket):
            return Change(ChangeKind.INSERTION, bucket.number, bucket.batch)
        case Tentatives(bucket=bucket):
            return Change(ChangeKind.TENTATIVE, bucket.number, bucket.batch)
        case Undo(upto=upto):
            return Change(ChangeKind.UNDO, upto)
        case Skipped(upto=upto):
            return Change(ChangeKind.SKIPPED, upto)
        case RecDone():
            return Change(ChangeKind.REC_DONE, -1)
    raise AssertionError(f"a client cannot be told {what!r}")
