"""The checkers that look into machines, over the traces of a run with real processes.

A node that keeps a trace (`trace: true`) writes down what its replicas look like whenever that
changes, who asked it for what, and what it sends. Laid side by side by time, that is what checkers
see in the simulated world.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from australis.live.node.json_lines import before
from australis.live.node.trace import FILE, whole
from australis.live.trial import Trial
from australis.protocols.dpc.states import Phase
from australis.protocols.dpc.topology import deploy, dpc_options
from australis.sim.dpc.checkers.bounded import BoundedBuffers
from australis.sim.dpc.checkers.kept import KeptUpstream
from australis.sim.dpc.checkers.subscribed import Subscribed
from australis.sim.dpc.checkers.turns import OneAtATime
from australis.sim.dpc.probes import Checker, Violation

Line = Mapping[str, Any]


def broken_promises(trial: Trial, wiped: Set[str]) -> list[str]:
    """What the checkers say of the machines; nothing if all promises were kept, or no node of the
    trial kept a trace. `wiped`: machines that have lost their disk."""
    lines = sorted(_lines(trial), key=lambda line: str(line["time"]))
    if not lines:
        return []
    options = dpc_options(trial.cluster, trial.diagram)
    topology = deploy(trial.diagram, trial.cluster.machines, trial.cluster.readers)
    alive: dict[str, Any] = {}
    checkers: list[Checker] = [BoundedBuffers(options), KeptUpstream(wiped)]
    if _from_the_beginning(trial):
        checkers.append(Subscribed())
    if options.staggered:
        peers = {replica.name: replica.peers for replica in topology.replicas}
        checkers.append(OneAtATime(peers, alive.get))
    return [said for checker in checkers if (said := _tell(checker, lines, alive))]


def _lines(trial: Trial) -> Iterator[Line]:
    """What all nodes wrote, and when each was killed."""
    for node in trial.cluster.nodes:
        yield from whole(trial.base / trial.cluster.state / node)
    for at_s, node in trial.kills:
        at = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds")
        yield {"time": at, "node": node, "killed": True}


def _from_the_beginning(trial: Trial) -> bool:
    """Whether no node's trace grew so long that its beginning is gone."""
    state = trial.base / trial.cluster.state
    return not any(before(state / node / FILE).exists() for node in trial.cluster.nodes)


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
    """What a replica looked like, as far as checkers look at it."""

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
                begins=0,
                end=one["kept"],
                left_behind=one["left_behind"],
            )
            for one in state["outputs"]
        }
        self.stagger = SimpleNamespace(active=state["has_turn"], alone=state["by_itself"])
        self.monitors = dict.fromkeys(state["reads_from"])
