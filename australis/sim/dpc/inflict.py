"""Inflicts faults on replicas and sources, and mends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from australis.sim.dpc.dynamic import StewardHost
from australis.sim.dpc.hosts import ReplicaHost, SourceHost
from australis.sim.dpc.lies import LyingDisks
from australis.sim.dpc.pairs import MemberHost, SimWitness
from australis.sim.faults import Fault, Inflictor, Lie
from australis.sim.network import Link
from australis.sim.register.simulation import KeeperHost, ProposerHost
from australis.sim.world import World

SLOWNESS = 20


class DpcInflictor(Inflictor):
    """Begins and ends faults of nodes that have a disk and an engine."""

    def __init__(
        self,
        world: World,
        link: Link,
        bucket_us: int,
        step_us: Callable[[], int],
        disks: LyingDisks,
    ) -> None:
        """An inflictor; `step_us` gives how far a replica's clock is stepped while it is down."""
        super().__init__(world, link, self._start)
        self._bucket_us = bucket_us
        self._step_us = step_us
        self._disks = disks

    def _start(self, node: str) -> None:
        host = self._world.hosts[node]
        if isinstance(host, SourceHost | MemberHost):
            host.boot(self._bucket_us)
        elif isinstance(host, ReplicaHost | SimWitness):
            host.clock.step(self._step_us())
            host.boot()
        elif isinstance(host, KeeperHost | ProposerHost | StewardHost):
            host.boot()

    def plan(self, faults: Iterable[Fault]) -> None:
        faults = tuple(faults)
        super().plan(faults)
        for fault in faults:
            if fault.kind is Lie.OLD_COPY:
                self._world.at(fault.at_us - fault.extra_us, self._remember, fault)

    def _remember(self, fault: Fault) -> None:
        self._disks.remember(fault, self._with_disk(fault))

    def begin(self, fault: Fault) -> None:
        super().begin(fault)
        if isinstance(fault.kind, Lie):
            if fault.kind is not Lie.ROT and self._hold("down", fault.node):
                self.crash(fault.node)
            self._disks.strike(fault, self._with_disk(fault))

    def end(self, fault: Fault) -> None:
        super().end(fault)
        dies = isinstance(fault.kind, Lie) and fault.kind is not Lie.ROT
        if dies and self._release("down", fault.node):
            self._start(fault.node)

    def _with_disk(self, fault: Fault) -> ReplicaHost | SourceHost:
        host = self._world.hosts[fault.node]
        assert isinstance(host, ReplicaHost | SourceHost)
        return host

    def wipe(self, node: str) -> None:
        """Lose a replica's disk, or that of one of a source's two proxies."""
        host = self._world.hosts[node]
        if isinstance(host, ReplicaHost | MemberHost):
            host.wipe()

    def slow(self, node: str, *, begins: bool) -> None:
        """Make a replica's engine slower by a factor."""
        host = self._world.hosts[node]
        if isinstance(host, ReplicaHost):
            host.slowness = SLOWNESS if begins else 1
