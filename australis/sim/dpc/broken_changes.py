"""Deliberately broken variants of changes of a deployment."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from australis.deployment import deployed
from australis.deployment.deployed import Deployment, Edit, MemberRole, ReplicaSet
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect
from australis.protocols.change.events import ChangeWanted, EditDecided, SubmitEdit
from australis.protocols.change.messages import OutputProgress, Progress
from australis.protocols.change.steward import StewardMachine, Watch
from australis.protocols.dpc.effects import InstallSnapshot, Rewired
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.monitor import Monitor
from australis.protocols.dpc.options import Lease
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.proxies import SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.states import State
from australis.protocols.dpc.subscribers import Subscribers
from australis.sim.dpc.dynamic import DynamicCluster
from australis.sim.dpc.hosts import DpcHost, ReplicaHost
from australis.sim.dpc.run import Scenario
from australis.sim.harness.model import Variant

Break = Callable[[Scenario], Scenario]


# --- stewards -------------------------------------------------------------------------------------


class SkipsTheBarrier(StewardMachine):
    """Lets a replica be read though upstream logs are not kept for it yet."""

    def _is_ready(self, output: OutputProgress, ends: dict[str, int]) -> bool:
        return True


class AsksTooSoon(ReplicaMachine):
    """Takes a state before upstream logs are kept for it."""

    def _is_held(self, output: Output) -> bool:
        return True


class RemovesAtOnce(StewardMachine):
    """Removes the replicas that leave though they are read."""

    def _emptied(self, deployment: Deployment, watch: Watch, now: int) -> bool:
        return True


class TrustsWhoIsSilent(StewardMachine):
    """Takes it that replicas without a report are ready, and that nobody reads them."""

    def _fresh(self, watch: Watch, machines: Iterable[str], now: int) -> list[Progress]:
        return [one for _, one in watch.progress.values() if one.machine in {*machines}]

    def _ready(self, deployment: Deployment, watch: Watch, now: int) -> bool:
        return True

    def _emptied(self, deployment: Deployment, watch: Watch, now: int) -> bool:
        return True


class DropsTheLast(StewardMachine):
    """Drops members without a look at how many are left."""

    def _wanted(self, event: ChangeWanted, now: int) -> list[Effect]:
        def edit(deployment: Deployment) -> Deployment:
            one = deployment.set_of(event.fragment)
            members = tuple(m for m in one.members if m.node not in event.drop)
            return deployed._next(deployment, deployed.ReplicaSet(one.fragment, members), None)

        if event.add:
            return super()._wanted(event, now)
        return [SubmitEdit(f"user {event.tag}", event.application, edit)]


class KeepsItToItself(StewardMachine):
    """Tells nobody of a deployment that it has decided."""

    def _tell_all(self, deployment: Deployment) -> list[Effect]:
        return []

    def _gossip(self, now: int) -> list[Effect]:
        return super()._gossip(now)[:1]


class DecidesAlone(StewardMachine):
    """Takes its own edit for decided without asking the register."""

    def _submit(self, deployment: Deployment, watch: Watch, edit: Edit | None) -> list[Effect]:
        if edit is None:
            return super()._submit(deployment, watch, edit)
        return self._decided(EditDecided("", edit(deployment)), watch.since_us)


class DrainsNothing(StewardMachine):
    """Leaves replicas on nodes that are being drained."""

    def _empty(self, deployment: Deployment, now: int) -> list[Effect]:
        return []


class DrainsOntoDrained(StewardMachine):
    """Moves replicas without a look at what else is being drained."""

    def _target(self, deployment: Deployment, one: ReplicaSet, leaves: str) -> str | None:
        return super()._target(msgspec.structs.replace(deployment, avoids=()), one, leaves)

    def _moving(self, version: int, fragment: str, source: str, target: str) -> Edit:
        def edit(current: Deployment) -> Deployment:
            if current.version != version:
                raise UserError("has gone on meanwhile", name=current.application)
            free = msgspec.structs.replace(current, avoids=())
            moved = deployed.begin(free, fragment, add=(target,), drop=(source,), steward=self.name)
            return msgspec.structs.replace(moved, avoids=current.avoids)

        return edit


class GivesUpWhatWasSwitched(StewardMachine):
    """Cancels a change whose new members are read already."""

    def _emptied(self, deployment: Deployment, watch: Watch, now: int) -> bool:
        return False

    def _look(self, deployment: Deployment, watch: Watch, now: int) -> list[Effect]:
        change = deployment.change
        assert change is not None
        mine = change.steward == self.name and not watch.editing
        if not (change.switched and mine and now - watch.since_us > 5_000_000):
            return super()._look(deployment, watch, now)

        def back(current: Deployment) -> Deployment:
            one = current.set_of(change.fragment)
            kept = tuple(m for m in one.members if m.role is MemberRole.LEAVING)
            full = tuple(deployed.Member(m.node, m.incarnation) for m in kept) or one.members
            return deployed._next(current, deployed.ReplicaSet(one.fragment, full), None)

        return self._submit(deployment, watch, back)


# --- machines -------------------------------------------------------------------------------------


class ForgetsNewReaders(Subscribers):
    """Keeps no log for consumers of a newer deployment, and says that it does."""

    def rewire(
        self,
        consumers: Iterable[str],
        joining: Container[str],
        leases: Mapping[str, Lease],
        now: int,
    ) -> None:
        super().rewire([name for name in consumers if name in self.all], joining, leases, now)

    def holds(self, node: str, reader: str) -> bool:
        return True


class KeepsForThoseWhoLeft(Subscribers):
    """Keeps logs for consumers that are in no deployment any more."""

    def rewire(
        self,
        consumers: Iterable[str],
        joining: Container[str],
        leases: Mapping[str, Lease],
        now: int,
    ) -> None:
        super().rewire({**self.all, **dict.fromkeys(consumers)}, joining, leases, now)


class StaysWithWhoLeaves(Input):
    """Goes on reading a replica that leaves."""

    def _leave(self, states: dict[str, State]) -> None:
        pass


class KeepsItsChoice(Input):
    """Keeps a choice that names a replica which is gone."""

    def rewire(self, monitors: Mapping[str, Monitor], leaving: frozenset[str], now: int) -> bool:
        choice = self.choice
        super().rewire(monitors, leaving, now)
        self.choice = choice
        return False


class GoesBack(ReplicaMachine):
    """Follows whichever deployment it hears of last."""

    def _rewired(self, event: Rewired, now: int) -> list[Effect]:
        self.version = -1
        return super()._rewired(event, now)


class IgnoresChanges(ReplicaMachine):
    """Goes on reading from and serving whom it knew at first."""

    def _rewired(self, event: Rewired, now: int) -> list[Effect]:
        if self.version == 0:
            return super()._rewired(event, now)
        self.version = event.version
        return []


# --- worlds ---------------------------------------------------------------------------------------


class TellsAnything(DynamicCluster):
    """Tells machines of older deployments too, now and then."""

    def _tell(self, host: DpcHost, topology: Any, deployment: Deployment) -> None:
        if host.known > deployment.version and host.machine is not None and not host.paused:
            wiring = self._wiring(host, topology, deployment)
            if wiring is not None:
                host.take(wiring)
        super()._tell(host, topology, deployment)
        late_us = self._rng.randrange(20_000_000)
        if deployment.version == self.newest.version and not host.gone:
            self.world.at(self.world.now + late_us, self._tell_old, host, topology, deployment)

    def _tell_old(self, host: DpcHost, topology: Any, deployment: Deployment) -> None:
        if host.known > deployment.version:
            self._tell(host, topology, deployment)


class ClosesWhoLeaves(DynamicCluster):
    """Closes a replica as soon as it is to leave."""

    def _wiring(self, host: DpcHost, topology: Any, deployment: Deployment) -> Rewired | None:
        if host.name in topology.leaving:
            return None
        return super()._wiring(host, topology, deployment)


class LeavesThemRunning(DynamicCluster):
    """Never closes a replica that was removed."""

    def _tell(self, host: DpcHost, topology: Any, deployment: Deployment) -> None:
        if self._wiring(host, topology, deployment) is not None:
            super()._tell(host, topology, deployment)


class CopiesNothing(ReplicaHost):
    """Joins with an empty state instead of a copy of another replica's."""

    def install(self, e: InstallSnapshot) -> None:
        super().install(e)
        state = self._engines[e.stream].initial
        self._states[e.stream] = state
        self._committed[e.stream] = (state, e.upto)
        self.stores[e.stream].checkpoint(state, e.upto)


def _steward(kind: type[StewardMachine]) -> Break:
    return lambda s: replace(s, steward_class=kind)


def _replica(kind: type[ReplicaMachine]) -> Break:
    return lambda s: replace(s, replica_class=kind)


def _part(kind: type, name: str) -> Break:
    """A part of every machine that has it."""

    def apply(scenario: Scenario) -> Scenario:
        part = {name: kind}
        if name == "input_class":
            client: Any = type("Broken", (scenario.client_class,), part)
            replica: Any = type("Broken", (scenario.replica_class,), part)
            return replace(scenario, replica_class=replica, client_class=client)
        output: Any = type("Broken", (Output,), part)
        replica = type("Broken", (scenario.replica_class,), {"output_class": output})
        source: Any = type("Broken", (SourceMachine,), part)
        return replace(scenario, replica_class=replica, source_class=source)

    return apply


def _cluster(kind: type[DynamicCluster], more: type[ReplicaMachine] | None = None) -> Break:
    def apply(scenario: Scenario) -> Scenario:
        broken = replace(scenario, cluster_class=kind)
        return broken if more is None else replace(broken, replica_class=more)

    return apply


def _no_barrier(scenario: Scenario) -> Scenario:
    return replace(scenario, steward_class=SkipsTheBarrier, replica_class=AsksTooSoon)


_LIST: list[tuple[str, type, Break, str]] = [
    ("no barrier", SkipsTheBarrier, _no_barrier, "kept"),
    ("removes at once", RemovesAtOnce, _steward(RemovesAtOnce), "removed"),
    ("trusts who is silent", TrustsWhoIsSilent, _steward(TrustsWhoIsSilent), "copies"),
    ("drains nothing", DrainsNothing, _steward(DrainsNothing), "liveness"),
    ("drains onto drained", DrainsOntoDrained, _steward(DrainsOntoDrained), "drained"),
    ("drops the last", DropsTheLast, _steward(DropsTheLast), "copies"),
    ("keeps it to itself", KeepsItToItself, _steward(KeepsItToItself), "liveness"),
    ("decides alone", DecidesAlone, _steward(DecidesAlone), "liveness"),
    (
        "gives up what was switched",
        GivesUpWhatWasSwitched,
        _steward(GivesUpWhatWasSwitched),
        "removed",
    ),
    (
        "forgets new readers",
        ForgetsNewReaders,
        _part(ForgetsNewReaders, "subscribers_class"),
        "kept",
    ),
    (
        "keeps for those who left",
        KeepsForThoseWhoLeft,
        _part(KeepsForThoseWhoLeft, "subscribers_class"),
        "orphans",
    ),
    (
        "stays with who leaves",
        StaysWithWhoLeaves,
        _part(StaysWithWhoLeaves, "input_class"),
        "liveness",
    ),
    ("keeps its choice", KeepsItsChoice, _part(KeepsItsChoice, "input_class"), "crash"),
    ("copies nothing", CopiesNothing, lambda s: replace(s, replica_host=CopiesNothing), "logs"),
    ("goes back", GoesBack, _cluster(TellsAnything, GoesBack), "history"),
    ("ignores changes", IgnoresChanges, _replica(IgnoresChanges), "liveness"),
    ("closes who leaves", ClosesWhoLeaves, _cluster(ClosesWhoLeaves), "removed"),
    ("leaves them running", LeavesThemRunning, _cluster(LeavesThemRunning), "liveness"),
]
CHANGE_VARIANTS: Mapping[str, Variant[Scenario]] = {
    name: Variant(name, str(kind.__doc__), apply, (caught_by,), range(60), "dynamic")
    for name, kind, apply, caught_by in _LIST
}
