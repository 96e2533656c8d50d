"""A scenario with real processes on this machine."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import yaml

from australis.catalog.cluster import Engine
from australis.diagram.text import dump
from australis.kernel.durations import SECOND, format_duration
from australis.kernel.errors import AustralisError, Stopped
from australis.live.operate import NoAnswer
from australis.live.supervise import last_line
from australis.live.trial import PATIENCE_S, Trial, free_ports
from australis.scenarios.model import CLIENT, Fault, FaultKind, Scenario, beginning, seconds
from australis.scenarios.recorded import Schedule, broken_promises
from australis.scenarios.simulated import machine_faults
from australis.scenarios.verdict import Course, Verdict, verdict_on

RECOVERY_US: dict[Engine, int] = {"reference": 2 * SECOND, "spark": 60 * SECOND}
"""So long a node of each kind may take to start, beyond what the simulated world grants."""

Say = Callable[[str], None]
"""Is told what is being done."""


def run(
    scenario: Scenario,
    engine: Engine = "reference",
    say: Say = lambda said: None,
    directory: Path | None = None,
) -> Verdict:
    """Run a scenario; without a directory its files are gone unless something is not as expected."""
    place = directory or Path(tempfile.mkdtemp(prefix="australis-"))
    keep = directory is not None
    try:
        trial = Stage(write(scenario, place, engine), scenario.stream)
        performance = _Performance(scenario, trial, say)
        course = performance.course()
        if not course.broken:
            course = replace(course, broken=performance.broken_promises(engine))
        verdict = verdict_on(scenario, "live", trial.diagram, course)
        keep |= not verdict.ok
        return verdict if verdict.ok else replace(verdict, logs=str(place))
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


def write(scenario: Scenario, directory: Path, engine: Engine) -> Path:
    """The files of the scenario's cluster, from now on, on ports that nobody uses now."""
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
        "sources": cluster.sources,
        "clients": {CLIENT: {"stream": scenario.stream}},
        "faults": "allowed",
    }
    if cluster.hop_us is not None:
        settings["hop"] = format_duration(cluster.hop_us)
    path = directory / "cluster.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return path


class Stage(Trial):
    """A trial on which the faults of a scenario happen."""

    def __init__(self, path: Path, stream: str) -> None:
        super().__init__(path, stream)
        self._down: set[str] = set()

    def begin(self, fault: Fault) -> None:
        """Something goes wrong."""
        for node in fault.nodes:
            match fault.kind:
                case FaultKind.KILL | FaultKind.LOSE_DISK:
                    self._down.add(node)
                    self.kill(node)
                    if fault.kind is FaultKind.LOSE_DISK:
                        shutil.rmtree(self.base / self.cluster.state / node)
                case FaultKind.PAUSE:
                    self.pause(node)
                case FaultKind.CUT:
                    self._patiently(lambda node=node: self._cut(node, fault))  # type: ignore[misc]

    def end(self, fault: Fault) -> None:
        """It is mended: nodes that were started again answer."""
        for node in fault.nodes:
            match fault.kind:
                case FaultKind.KILL | FaultKind.LOSE_DISK:
                    self.start(node)
                    self._down.discard(node)
                case FaultKind.PAUSE:
                    self.resume(node)
                case FaultKind.CUT:
                    self._patiently(lambda node=node: self._heal(node, fault))  # type: ignore[misc]
        if fault.kind in (FaultKind.KILL, FaultKind.LOSE_DISK):
            self._patiently(lambda: all(map(self._operator.says_hello, fault.nodes)))

    def _cut(self, node: str, fault: Fault) -> bool:
        try:
            self._network.cut(node, fault.other, one_way=fault.one_way)
        except NoAnswer:
            return False
        return True

    def _heal(self, node: str, fault: Fault) -> bool:
        return not self._network.heal(node, fault.other)

    def _patiently(self, what: Callable[[], bool]) -> None:
        """Tell nodes something; one that has just been started may not listen yet."""
        self.until(what, "a node did not answer", PATIENCE_S)

    def _check(self) -> None:
        """A node that ends by itself ends the trial too."""
        super()._check()
        for node, process in self._processes.items():
            if node not in self._down and process.poll() is not None:
                said = last_line(self.base / self.cluster.state / f"{node}.txt", 0)
                raise Stopped(f"node {node} has ended by itself: {said}")

    def closed(self) -> int:
        """The last bucket that all sources have closed."""
        return min(
            int(self._operator.ask(node, "status", timeout_s=PATIENCE_S)["sources"][source]["end"])
            for source, node in self.cluster.sources.items()
        )


class _Performance:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario, trial: Stage, say: Say) -> None:
        self._scenario = scenario
        self._trial = trial
        self._say = say
        self._begin_s = self._healed_s = self._end_s = time.monotonic()
        self._healed_bucket = 0
        self._stood_still_s = 0.0
        """So long the scenario's clock has waited for processes to start."""
        self._began_s: dict[int, float] = {}
        self._happened: list[Fault] = []
        """The faults, and when each really began and was over."""

    def course(self) -> Course:
        """Start the nodes, let everything happen, and wait until all is well again."""
        broken: tuple[str, ...] = ()
        try:
            self._run()
        except AustralisError as error:
            broken = (f"the run could not go on: {error}",)
            self._end_s = time.monotonic()
        return Course(
            list(self._trial.heard),
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
                self._say(f"{seconds(at_us):g} s: {fault}{'' if begins else ' is over'}")
                self._change(fault, begins)
            self._wait_for(self._scenario.lasts_us)
            self._end_s = time.monotonic()
            self._settle()

    def _moments(self) -> list[tuple[int, bool, Fault]]:
        """All beginnings (True) and ends in their order; where two meet, the end goes first."""
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
        self._heal_seen()
        at_s = self._began_s[id(fault)]
        at_us, lasts_us = (
            int((at_s - self._begin_s) * SECOND),
            int((self._healed_s - at_s) * SECOND),
        )
        self._happened.append(replace(fault, at_us=at_us, lasts_us=lasts_us))

    def broken_promises(self, engine: Engine) -> tuple[str, ...]:
        """What the checkers of the simulated world say of it."""
        faults = (f for each in self._happened for f in machine_faults(self._scenario, each))
        end_us = int((self._end_s - self._begin_s) * SECOND)
        schedule = Schedule(tuple(faults), end_us, RECOVERY_US[engine])
        found = broken_promises(self._trial, self._begin_s, schedule)
        return tuple(f"a promise was broken: {said}" for said in found)

    def _heal_seen(self) -> None:
        """Note how far the sources are when the last fault so far is over."""
        self._healed_s = time.monotonic()
        self._healed_bucket = self._trial.closed()

    def _wait_for(self, at_us: int) -> None:
        due_s = self._begin_s + self._stood_still_s + seconds(at_us)
        self._trial.wait(due_s - time.monotonic())

    def _settle(self) -> None:
        """Wait until the client has everything that there is by now, and all are stable."""
        trial = self._trial
        self._say("waiting until all is settled")
        upto = trial.closed()

        def settled() -> bool:
            return trial.stable_upto >= upto and not trial.uncorrected

        trial.until(settled, "the client has not got everything", PATIENCE_S)
        trial.wait_until_stable(timeout_s=PATIENCE_S)
        trial.until(settled, "the client has not got everything", PATIENCE_S)
