"""A scenario with real processes on this machine."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import yaml

from australis.deployment.cluster import Cluster, Engine, LogChoice, ResultPromise
from australis.diagram.diagram_file import dump
from australis.kernel.durations import SECOND, format_duration
from australis.kernel.errors import AustralisError, Stopped
from australis.runtime.admin import NoAnswer
from australis.runtime.supervise import last_line
from australis.runtime.testbed import START_TIMEOUT_S, Computed, Testbed, free_ports, stable_upto
from australis.scenarios.check import lost_fragments
from australis.scenarios.model import CLIENT, Fault, FaultKind, Scenario, beginning, seconds
from australis.scenarios.recorded import Schedule, judge
from australis.scenarios.simulated import machine_faults
from australis.scenarios.story import starts, story
from australis.scenarios.traced import save_traces
from australis.scenarios.verdict import Course, Verdict, verdict_on
from australis.sim.harness.story import Line, Tone

MAX_RECOVERY_S = 60.0
"""The longest time that a restarted node is allowed to become stable, beyond what the simulated
world allows; what is allowed is the time that nodes took at first in the same run."""

Say = Callable[[str], None]
"""Receives progress messages."""


def run(
    scenario: Scenario,
    engine: Engine = "reference",
    say: Say = lambda said: None,
    directory: Path | None = None,
) -> Verdict:
    """Run a scenario; without a directory its files are deleted unless an expectation is missed."""
    place = directory or Path(tempfile.mkdtemp(prefix="australis-"))
    keep = directory is not None
    try:
        clocks = {node: seconds(ahead_us) for node, ahead_us in scenario.clocks.items()}
        testbed = Stage(write(scenario, place, engine), scenario.streams, clocks)
        performance = _Performance(scenario, testbed, say)
        course = performance.course()
        known = testbed.computed()
        if not course.broken:
            course = performance.judged(course, known)
        verdict = verdict_on(scenario, "live", known, course)
        keep |= not verdict.ok
        if verdict.ok:
            return verdict
        return replace(verdict, logs=str(place), story=performance.story())
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


def write(scenario: Scenario, directory: Path, engine: Engine) -> Path:
    """Write the files of the scenario's cluster, beginning now, on free ports."""
    cluster = scenario.cluster
    diagram = beginning(scenario.diagram, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    (directory / cluster.diagram_path).write_text(dump(diagram), encoding="utf-8")
    computing = {node for nodes in cluster.replicas.values() for node in nodes}
    nodes = {
        node: {
            "address": f"127.0.0.1:{port}",
            "engine": engine if node in computing else "reference",
            "trace": True,
        }
        for node, port in zip(cluster.nodes, free_ports(len(cluster.nodes)), strict=True)
    }
    settings = {
        "cluster": cluster.name,
        "diagram": cluster.diagram_path,
        "state": cluster.state,
        "max_delay": format_duration(cluster.max_delay_us),
        "heartbeat": format_duration(cluster.heartbeat_us),
        "nodes": nodes,
        "replicas": {fragment: list(nodes) for fragment, nodes in cluster.replicas.items()},
        "sources": {source: _home(cluster, source) for source in cluster.sources},
        "policies": asdict(cluster.policies),
        "clients": {
            name: {"stream": client.stream, "hedge": client.hedge}
            for name, client in cluster.clients.items()
        },
        "faults": "allowed",
    }
    streams = {name: _bounds(choice) for name, choice in cluster.logs.items()}
    settings["log"] = _bounds(cluster.log) | ({"streams": streams} if streams else {})
    waits = {"clients": cluster.leases.clients_us, "replicas": cluster.leases.replicas_us}
    settings["leases"] = {
        who: "never" if silence_us is None else format_duration(silence_us)
        for who, silence_us in waits.items()
    }
    if cluster.hop_us is not None:
        settings["hop"] = format_duration(cluster.hop_us)
    if cluster.policies.up_failure == "suspend":
        settings["policies"] = {"up_failure": "suspend"}
    if cluster.results:
        settings["results"] = {name: _promise(one) for name, one in cluster.results.items()}
    path = directory / "cluster.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return path


def _home(cluster: Cluster, source: str) -> str | dict[str, str]:
    """What a cluster file says of a source's proxies."""
    node, second = cluster.sources[source], cluster.standbys.get(source)
    if second is None:
        return node
    return {"node": node, "standby": second.node, "witness": second.witness}


def _bounds(choice: LogChoice) -> dict[str, str]:
    """What a cluster file says of a log."""
    said = {"keep": format_duration(choice.keep_us)}
    if choice.max_buckets is not None:
        said |= {"max": f"{choice.max_buckets} buckets", "full": choice.full}
    elif choice.max_bytes is not None:
        said |= {"max": f"{choice.max_bytes // 10**6} MB", "full": choice.full}
    return said


def _promise(result: ResultPromise) -> dict[str, str]:
    """What a cluster file says of a result."""
    if result.max_delay_us is None:
        return {"tentative": result.tentative}
    return {"max_delay": format_duration(result.max_delay_us)}


class Stage(Testbed):
    """A testbed on which the faults of a scenario are inflicted."""

    def __init__(
        self, path: Path, streams: Sequence[str], clocks: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(path, streams[0], also=streams[1:], clocks=clocks)
        self._down: set[str] = set()

    def begin(self, fault: Fault) -> None:
        """Begin a fault."""
        for node in fault.nodes:
            match fault.kind:
                case FaultKind.KILL | FaultKind.LOSE_DISK:
                    self._down.add(node)
                    self.kill(node)
                    if fault.kind is FaultKind.LOSE_DISK:
                        save_traces(self.base, self.cluster.state, node)
                        shutil.rmtree(self.base / self.cluster.state / node)
                case FaultKind.PAUSE:
                    self.pause(node)
                case FaultKind.CUT | FaultKind.SLOW:
                    self._patiently(lambda node=node: self._touch(node, fault))  # type: ignore[misc]

    def end(self, fault: Fault) -> None:
        """End a fault, and wait until restarted nodes answer."""
        for node in fault.nodes:
            match fault.kind:
                case FaultKind.KILL | FaultKind.LOSE_DISK:
                    self.start(node)
                    self._down.discard(node)
                case FaultKind.PAUSE:
                    self.resume(node)
                case FaultKind.CUT | FaultKind.SLOW:
                    self._patiently(lambda node=node: self._heal(node, fault))  # type: ignore[misc]
        if fault.kind in (FaultKind.KILL, FaultKind.LOSE_DISK):
            self._patiently(lambda: all(map(self._operator.says_hello, fault.nodes)))

    def _touch(self, node: str, fault: Fault) -> bool:
        """Cut or slow a link; returns whether both ends have answered."""
        try:
            for other in self._others(fault):
                if fault.kind is FaultKind.CUT:
                    self._network.cut(node, other, one_way=fault.one_way)
                else:
                    by_s = seconds(fault.by_us)
                    self._network.slow(node, other, by_s, one_way=fault.one_way)
        except NoAnswer:
            return False
        return True

    def _heal(self, node: str, fault: Fault) -> bool:
        silent = [self._network.heal(node, other) for other in self._others(fault)]
        return not any(silent)

    def _others(self, fault: Fault) -> list[str]:
        """The other ends of a link: a node, or all clients."""
        return [*self.cluster.clients] if fault.other == CLIENT else [fault.other]

    def _patiently(self, what: Callable[[], bool]) -> None:
        """Send a request to nodes, with retries, since a node that just started may not listen
        yet.
        """
        self.until(what, "a node did not answer", START_TIMEOUT_S)

    def _check(self) -> None:
        """Check that no node has ended by itself, which ends the testbed."""
        super()._check()
        for node, process in self._processes.items():
            if node not in self._down and process.poll() is not None:
                said = last_line(self.base / self.cluster.state / f"{node}.txt", 0)
                raise Stopped(f"node {node} has ended by itself: {said}")

    def closed(self) -> int:
        """The last bucket that all sources have closed."""
        ends: dict[str, int] = {}

        def asked() -> bool:
            places = self.cluster.source_machines
            nodes = {node for proxies in places.values() for node in proxies.values()}
            answers = self._operator.ask_all(nodes, "status")
            for source, proxies in places.items():
                for node in proxies.values():
                    if answers[node] is not None:
                        end = int(answers[node]["sources"][source]["end"])
                        ends[source] = max(end, ends.get(source, end))
            return len(ends) == len(self.cluster.sources)

        self._patiently(asked)
        return min(ends.values())


class _Performance:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario, testbed: Stage, say: Say) -> None:
        self._scenario = scenario
        self._trial = testbed
        self._say = say
        self._begin_s = self._healed_s = self._end_s = time.monotonic()
        self._healed_bucket = 0
        self._stood_still_s = 0.0
        """The time during which the scenario's clock was stopped for starting processes."""
        self._began_s: dict[int, float] = {}
        self._happened: list[Fault] = []
        """The faults, and when each really began and ended."""
        self._told: list[Line] = []
        """The beginnings and ends of faults, for the story."""

    def course(self) -> Course:
        """Start the nodes, inflict all faults, and wait until the cluster has recovered."""
        broken: tuple[str, ...] = ()
        try:
            self._run()
        except AustralisError as error:
            broken = (f"the run could not go on: {error}",)
            self._end_s = time.monotonic()
        return Course(
            {stream: list(heard) for stream, heard in self._trial.heard_of.items()},
            self._begin_s,
            self._healed_s,
            self._healed_bucket,
            self._end_s,
            broken,
        )

    def _run(self) -> None:
        self._say(f"starting {', '.join(self._scenario.cluster.nodes)}")
        with self._trial:
            self._trial.wait_until_stable()
            self._begin_s = time.monotonic()
            self._heal_seen()
            for at_us, begins, fault in self._moments():
                self._wait_for(at_us)
                said = f"{fault}{'' if begins else ' is over'}"
                self._say(f"{seconds(at_us):g} s: {said}")
                tone = Tone.FAULT if begins else Tone.MENDED
                self._told.append(Line(self._now_us(), "fault", said, tone))
                self._change(fault, begins)
            self._wait_for(self._scenario.lasts_us)
            self._end_s = time.monotonic()
            self._settle()

    def _moments(self) -> list[tuple[int, bool, Fault]]:
        """All beginnings (True) and ends in order; of simultaneous ones, ends come first."""
        faults = self._scenario.faults
        moments = [(fault.at_us, True, fault) for fault in faults]
        moments += [(fault.until_us, False, fault) for fault in faults]
        return sorted(moments, key=lambda moment: moment[:2])

    def _change(self, fault: Fault, begins: bool) -> None:
        now_s = time.monotonic()
        if begins:
            self._began_s[id(fault)] = now_s
            self._trial.begin(fault)
            return
        self._trial.end(fault)
        self._stood_still_s += time.monotonic() - now_s
        at_s = self._began_s.pop(id(fault))
        self._heal_seen()
        at_us, lasts_us = (
            int((at_s - self._begin_s) * SECOND),
            int((self._healed_s - at_s) * SECOND),
        )
        self._happened.append(replace(fault, at_us=at_us, lasts_us=lasts_us))

    def judged(self, course: Course, known: Computed) -> Course:
        """Add the promises that the checkers of the simulated world find broken."""
        faults = (f for each in self._happened for f in machine_faults(self._scenario, each))
        end_us = int((self._end_s - self._begin_s) * SECOND)
        took = starts(self._trial, self._begin_s)
        recovery_us = int(min(took.first_s, MAX_RECOVERY_S) * SECOND)
        lost = lost_fragments(self._scenario.cluster.replicas, self._happened)
        lost_us = self._first_lost_us() if lost else None
        schedule = Schedule(tuple(faults), end_us, recovery_us, lost_us)
        found = judge(self._trial, known, self._begin_s, schedule)
        broken = tuple(f"a promise was broken: {said}" for said in found.broken)
        return replace(course, broken=broken, judged=found.judged, recovered_s=took.again_s)

    def _first_lost_us(self) -> int:
        """When the first disk was lost."""
        return min(f.at_us for f in self._happened if f.kind is FaultKind.LOSE_DISK)

    def story(self) -> tuple[str, ...]:
        """What happened and when."""
        return tuple(map(str, story(self._trial, self._begin_s, self._told)))

    def _now_us(self) -> int:
        return int((time.monotonic() - self._begin_s) * SECOND)

    def _heal_seen(self) -> None:
        """Record when a fault is over, and the sources' positions unless another one holds them."""
        self._healed_s = time.monotonic()
        if not self._began_s:
            self._healed_bucket = self._trial.closed()

    def _wait_for(self, at_us: int) -> None:
        due_s = self._begin_s + self._stood_still_s + seconds(at_us)
        self._trial.wait(due_s - time.monotonic())

    def _settle(self) -> None:
        """Wait until the client has everything produced so far, and all replicas are stable."""
        testbed = self._trial
        self._say("waiting until all is settled")
        upto = testbed.closed()

        def settled() -> bool:
            everything = all(stable_upto(heard) >= upto for heard in testbed.heard_of.values())
            return everything and not testbed.uncorrected

        testbed.until(settled, "the client has not got everything", START_TIMEOUT_S)
        testbed.wait_until_stable(timeout_s=START_TIMEOUT_S)
        testbed.until(settled, "the client has not got everything", START_TIMEOUT_S)
