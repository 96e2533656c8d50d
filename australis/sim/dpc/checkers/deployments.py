"""Deployments that change: one history, always a copy, nothing removed that is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from australis.deployment.deployed import Deployment, MemberRole
from australis.kernel.durations import SECOND
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.replica import ReplicaMachine
from australis.sim.dpc.hosts import DpcHost, ReplicaHost, SourceHost
from australis.sim.dpc.probes import Checker

if TYPE_CHECKING:
    from australis.sim.dpc.run import Run

FOLLOWED_US = 3 * SECOND
"""Who has followed a replica for so long cannot have turned to it while its end was decided."""


class OneHistory(Checker):
    """All deployments form one history, and no machine goes back in it."""

    name = "history"

    def __init__(self, first: Deployment) -> None:
        self._known = {first.version: first}
        self._versions: dict[str, tuple[int, int]] = {}
        """The machine of each node, and the version that it knows."""

    def decided(self, deployment: Deployment) -> None:
        known = self._known.setdefault(deployment.version, deployment)
        if known != deployment:
            self.fail(f"version {deployment.version} is two different deployments")
        if deployment.version - 1 not in self._known and deployment.version > max(self._known):
            self.fail(f"version {deployment.version} follows none that was decided")

    def looked(self, node: str, machine: ReplicaMachine) -> None:
        before = self._versions.get(node, (0, 0))
        if before[0] == id(machine) and machine.version < before[1]:
            self.fail(f"{node} goes back from version {before[1]} to {machine.version}")
        self._versions[node] = id(machine), machine.version


class AlwaysACopy(Checker):
    """There is never a moment in which no member that is read has a fragment's state."""

    name = "copies"

    def __init__(self, run: Run) -> None:
        self._run = run

    def decided(self, deployment: Deployment) -> None:
        for one in deployment.sets:
            names = one.machines(MemberRole.FULL) + one.machines(MemberRole.LEAVING)
            if not any(map(self._has_state, names)):
                self.fail(
                    f"no member of {one.fragment} has a state in version {deployment.version}"
                )

    def _has_state(self, name: str) -> bool:
        host = self._run.world.hosts.get(name)
        if not isinstance(host, ReplicaHost) or host.gone:
            return False
        return not any(store.lost for store in host.stores.values())


class NotWhileRead(Checker):
    """A replica that is read is not removed."""

    name = "removed"

    def __init__(self, run: Run) -> None:
        self._run = run
        self._since: dict[tuple[str, str], tuple[str, int]] = {}
        """The replica from which each reader reads each stream, and since when."""

    def looked(self, node: str, machine: ReplicaMachine) -> None:
        for key, one in machine.inputs.items():
            before = self._since.get((node, key))
            if before is None or before[0] != one.choice.curr:
                self._since[node, key] = one.choice.curr, self._run.world.now

    def decided(self, deployment: Deployment) -> None:
        there = {name for names in _machines(deployment) for name in names}
        for reader, one, name in self._followed():
            if "@" in name and name not in there:
                self.fail(f"{name} is removed while {reader} reads {one.stream} from it")

    def closed(self, node: str) -> None:
        for reader, one, name in self._followed():
            if name == node:
                self.fail(f"{name} is closed while {reader} reads {one.stream} from it")

    def _followed(self) -> Iterator[tuple[str, Input, str]]:
        """The replicas that are followed for long, and answer."""
        now = self._run.world.now
        for (reader, key), (name, since_us) in self._since.items():
            host = self._run.world.hosts[reader]
            if (
                not isinstance(host, ReplicaHost)
                or host.machine is None
                or host.paused
                or host.gone
            ):
                continue
            one = host.machine.inputs[key]
            follows = one.choice.curr == name and name in one.monitors
            if follows and not one.monitors[name].failed and now - since_us >= FOLLOWED_US:
                yield reader, one, name


class NothingNewOnDrained(Checker):
    """No replica joins on a node that is being drained."""

    name = "drained"

    def __init__(self, first: Deployment) -> None:
        self._before = first

    def decided(self, deployment: Deployment) -> None:
        if deployment.version <= self._before.version:
            return
        before, self._before = self._before, deployment
        known = {name for names in _machines(before) for name in names}
        for one in deployment.sets:
            for member in one.members:
                new = member.machine(one.fragment) not in known
                if new and member.node in deployment.avoids:
                    self.fail(f"{one.fragment} joins on {member.node}, which is being drained")


class NoOrphans(Checker):
    """In the end nothing runs that is in no deployment, and no log waits for it."""

    name = "orphans"

    def __init__(self, run: Run) -> None:
        self._run = run

    def finish(self) -> None:
        topology = self._run.topology
        there = {r.name for r in topology.replicas}
        for host in self._run.world.hosts.values():
            if not isinstance(host, DpcHost) or host.machine is None:
                continue
            if isinstance(host, ReplicaHost):
                if host.name not in there:
                    self.fail(f"{host.name} runs though it is in no deployment any more")
                config = next(r for r in topology.replicas if r.name == host.name)
                for output in config.outputs:
                    waits = host.machine.outputs[output.stream].subscribers.all
                    self._compare(host.name, waits.keys(), output.consumers)
            elif isinstance(host, SourceHost):
                waits = host.machine.subscribers.all
                self._compare(host.name, waits.keys(), topology.sources[host.name])

    def _compare(self, producer: str, waits: object, consumers: tuple[str, ...]) -> None:
        found = sorted(set(waits) - set(consumers))  # type: ignore[call-overload]
        if found:
            self.fail(f"the log of {producer} is kept for {', '.join(found)}, which have left")


def _machines(deployment: Deployment) -> Iterator[tuple[str, ...]]:
    for one in deployment.sets:
        yield tuple(member.machine(one.fragment) for member in one.members)


def of_deployments(run: Run, first: Deployment) -> list[Checker]:
    """The checkers of a run whose deployment changes."""
    make: list[Callable[[Run], Checker]] = [AlwaysACopy, NotWhileRead, NoOrphans]
    about = [OneHistory(first), NothingNewOnDrained(first)]
    return [*about, *(kind(run) for kind in make)]
