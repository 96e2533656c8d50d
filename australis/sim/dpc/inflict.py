"""Inflicts faults on replicas and sources, and mends them."""

from __future__ import annotations

from collections.abc import Callable

from australis.sim.dpc.hosts import ReplicaHost, SourceHost
from australis.sim.dpc.pairs import MemberHost, SimWitness
from australis.sim.faults import Inflictor
from australis.sim.network import Link
from australis.sim.world import World

SLOWNESS = 20


class DpcInflictor(Inflictor):
    """Begins and ends faults of nodes that have a disk and an engine."""

    def __init__(
        self, world: World, link: Link, bucket_us: int, step_us: Callable[[], int]
    ) -> None:
        """An inflictor; `step_us` gives how far a replica's clock is stepped while it is down."""
        super().__init__(world, link, self._start)
        self._bucket_us = bucket_us
        self._step_us = step_us

    def _start(self, node: str) -> None:
        host = self._world.hosts[node]
        if isinstance(host, SourceHost | MemberHost):
            host.boot(self._bucket_us)
        elif isinstance(host, ReplicaHost | SimWitness):
            host.clock.step(self._step_us())
            host.boot()

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
