"""Applies the checkers that inspect machines to the traces of a run with real processes.

A node that keeps a trace (`trace: true`) records each change of its replicas' state, each
subscription, and each message it sends. Merged by time, the traces of all nodes are what checkers
observe in the simulated world.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from australis.deployment.sinks import readers
from australis.protocols.dpc.states import Phase
from australis.protocols.dpc.topology import Topology, deploy, dpc_options, pairs_of
from australis.runtime.node.json_lines import before
from australis.runtime.node.trace import FILE, whole
from australis.runtime.testbed import Testbed
from australis.sim.dpc.checkers.bounded import BoundedBuffers
from australis.sim.dpc.checkers.kept import KeptUpstream
from australis.sim.dpc.checkers.loss import behind_losses
from australis.sim.dpc.checkers.one_at_a_time import OneAtATime
from australis.sim.dpc.checkers.subscribed import Subscribed
from australis.sim.dpc.probes import Checker, Violation
from australis.sim.dpc.run import let_go
from australis.sim.faults import Fault, Kind

Line = Mapping[str, Any]
LOST = "lost"
"""The directory of the traces of nodes that have lost their disks, beside the nodes' state."""


def broken_promises(testbed: Testbed, faults: Sequence[Fault]) -> list[str]:
    """The broken promises of the machines, given the faults that have happened; empty if all were
    kept, or no node kept a trace.
    """
    lines = lines_of(testbed)
    if not lines:
        return []
    options = dpc_options(testbed.cluster, testbed.diagram)
    topology = topology_of(testbed)
    alive: dict[str, Any] = {}
    gone = {f.node for f in faults if f.kind is Kind.WIPE} | let_go(options, faults)
    kept = KeptUpstream(gone, behind_losses(topology, faults))
    checkers: list[Checker] = [BoundedBuffers(options), kept]
    if from_the_beginning(testbed):
        checkers.append(Subscribed())
    if options.staggered:
        peers = {replica.name: replica.peers for replica in topology.replicas}
        checkers.append(OneAtATime(peers.__getitem__, alive.get))
    return [said for checker in checkers if (said := _tell(checker, lines, alive))]


def topology_of(testbed: Testbed) -> Topology:
    """What reads what in the cluster of a testbed."""
    cluster, diagram = testbed.cluster, testbed.diagram
    return deploy(diagram, cluster.machines, readers(cluster, diagram), pairs_of(cluster))


def lines_of(testbed: Testbed) -> list[Line]:
    """The lines of all nodes' traces in order, and the times at which each node was killed."""
    return sorted(_lines(testbed), key=lambda line: str(line["time"]))


def _lines(testbed: Testbed) -> Iterator[Line]:
    for node in testbed.cluster.nodes:
        for directory in _directories(testbed, node):
            for line in whole(directory):
                yield line if node not in testbed.clocks else line | {"time": _true(testbed, line)}
    for at_s, node in testbed.kills:
        at = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds")
        yield {"time": at, "node": node, "killed": True}


def _true(testbed: Testbed, line: Line) -> str:
    """The time of a line by the clock of this machine, where that of its node is off."""
    at = datetime.fromisoformat(line["time"]) - timedelta(seconds=testbed.clocks[line["node"]])
    return at.isoformat(timespec="microseconds")


def from_the_beginning(testbed: Testbed) -> bool:
    """Whether every node's trace is complete from its beginning."""
    return not incomplete(testbed)


def incomplete(testbed: Testbed) -> list[str]:
    """The nodes whose traces have become too large, so that their beginnings are gone."""

    def is_cut(directory: Path) -> bool:
        return before(directory / FILE).exists()

    return [n for n in testbed.cluster.nodes if any(map(is_cut, _directories(testbed, n)))]


def _directories(testbed: Testbed, node: str) -> list[Path]:
    """The directories with parts of a node's trace, the earliest first."""
    saved = sorted((testbed.base / LOST / node).glob("*"), key=lambda path: int(path.name))
    return [*saved, testbed.base / testbed.cluster.state / node]


def first_full_s(testbed: Testbed) -> float | None:
    """The time of day at which a log was full for the first time; None: none ever was."""
    options = dpc_options(testbed.cluster, testbed.diagram)
    for line in lines_of(testbed) if options.bounded else ():
        if "appended" in line:
            told = line["appended"]
            most = options.bounds_of(told["stream"]).max_buckets
            if most is not None and told["end"] - told["trimmed_upto"] >= most:
                return datetime.fromisoformat(line["time"]).timestamp()
    return None


def save_traces(base: Path, state: str, node: str) -> None:
    """Move the trace of a node that is about to lose its disk to where the disk's loss spares it."""
    saved = base / LOST / node
    place = saved / str(len([*saved.glob("*")]) if saved.exists() else 0)
    place.mkdir(parents=True)
    for path in (before(base / state / node / FILE), base / state / node / FILE):
        if path.exists():
            path.rename(place / path.name)


def _tell(checker: Checker, lines: list[Line], alive: dict[str, Any]) -> str:
    alive.clear()
    nodes: dict[str, str] = {}
    try:
        for line in lines:
            if "killed" in line:
                for machine in [m for m in alive if nodes[m] == line["node"]]:
                    del alive[machine]
                continue
            machine = line["machine"]
            nodes[machine] = line["node"]
            if "wants" in line:
                wants = [SimpleNamespace(stream=s, log=True) for s in line["wants"]]
                heartbeat: Any = SimpleNamespace(wants=wants)
                checker.heard(machine, line["sender"], heartbeat)
            if "to" in line:
                checker.sent(machine, line["to"], line["stream"])
            if "state" in line:
                alive[machine] = _Replica(line["state"])
                checker.looked(machine, alive[machine])
    except Violation as broken:
        return f"{line['time']}: {broken}"
    return ""


class _Replica:
    """The state of a replica, as far as checkers inspect it."""

    def __init__(self, state: Line) -> None:
        self.inputs = {
            str(n): SimpleNamespace(
                stream=one["stream"], stable=range(one["stable"]), overlay=range(one["overlay"])
            )
            for n, one in enumerate(state["inputs"])
        }
        self.outputs = {
            one["stream"]: SimpleNamespace(
                stream=one["stream"],
                phase=Phase[one["phase"]],
                available=one["available"],
                overlay=SimpleNamespace(buckets=range(one["overlay"])),
                trimmed_upto=0,
                end=one["kept"],
                left_behind=one["left_behind"],
            )
            for one in state["outputs"]
        }
        self.stagger = SimpleNamespace(active=state["has_turn"], alone=state["by_itself"])
        self.monitors = dict.fromkeys(state["reads_from"])
