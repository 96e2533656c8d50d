"""Making faults happen in a simulated world, and mending them.

Faults may overlap: a node is up again, and a link whole again, when the last fault that
holds it is over.
"""

from __future__ import annotations

from collections import Counter

from australis.sim.dpc.faults import Fault, Kind
from australis.sim.dpc.hosts import ReplicaHost, SourceHost
from australis.sim.network import Link
from australis.sim.world import World

SLOWNESS = 20
LOSS, DUPLICATES, EXTRA_US = 0.3, 0.1, 20_000


class Inflictor:
    """Begins and ends faults."""

    def __init__(self, world: World, link: Link, bucket_us: int) -> None:
        self._world = world
        self._link = link
        self._bucket_us = bucket_us
        self._held: Counter[tuple[str, ...]] = Counter()
        """How many faults hold a node down, paused or slow, or a link lossy."""

    def begin(self, fault: Fault) -> None:
        """Something goes wrong."""
        self._world.note("fault", f"{fault} begins")
        host = self._world.hosts[fault.node]
        match fault.kind:
            case Kind.CUT | Kind.CUT_ONE_WAY | Kind.ISOLATE:
                for pair in self._pairs(fault):
                    self._world.network.cut(*pair)
            case Kind.LOSSY:
                for pair in self._pairs(fault):
                    self._hold("lossy", *pair)
                    link = self._world.network.link(*pair)
                    link.loss, link.duplicate, link.extra_us = LOSS, DUPLICATES, EXTRA_US
            case Kind.CRASH | Kind.WIPE:
                if self._hold("down", fault.node):
                    host.crash()
                if fault.kind is Kind.WIPE and isinstance(host, ReplicaHost):
                    host.wipe()
            case Kind.PAUSE if self._hold("paused", fault.node):
                host.pause()
            case Kind.SLOW if self._hold("slow", fault.node) and isinstance(host, ReplicaHost):
                host.slowness = SLOWNESS

    def end(self, fault: Fault) -> None:
        """It is mended."""
        self._world.note("fault", f"{fault} ends")
        host = self._world.hosts[fault.node]
        match fault.kind:
            case Kind.CUT | Kind.CUT_ONE_WAY | Kind.ISOLATE:
                for pair in self._pairs(fault):
                    self._world.network.mend(*pair)
            case Kind.LOSSY:
                for pair in self._pairs(fault):
                    if self._release("lossy", *pair):
                        link = self._world.network.link(*pair)
                        link.loss, link.duplicate = self._link.loss, self._link.duplicate
                        link.extra_us = 0
            case Kind.CRASH | Kind.WIPE if self._release("down", fault.node):
                self._boot(fault.node)
            case Kind.PAUSE if self._release("paused", fault.node):
                host.resume()
            case Kind.SLOW if self._release("slow", fault.node) and isinstance(host, ReplicaHost):
                host.slowness = 1

    def _boot(self, node: str) -> None:
        host = self._world.hosts[node]
        if isinstance(host, SourceHost):
            host.boot(self._bucket_us)
        elif isinstance(host, ReplicaHost):
            host.boot()
        if self._held["paused", node]:
            host.pause()

    def _hold(self, *what: str) -> bool:
        """Count a fault; whether it is the first of its kind there."""
        self._held[what] += 1
        return self._held[what] == 1

    def _release(self, *what: str) -> bool:
        """Count it as over; whether it was the last."""
        self._held[what] -= 1
        return self._held[what] == 0

    def _pairs(self, fault: Fault) -> list[tuple[str, str]]:
        """The links a fault touches."""
        node = fault.node
        if fault.kind is Kind.ISOLATE:
            others = [n for n in self._world.hosts if n != node]
            return [(node, o) for o in others] + [(o, node) for o in others]
        if fault.kind is Kind.CUT_ONE_WAY:
            return [(node, fault.other)]
        return [(node, fault.other), (fault.other, node)]
