"""The thesis' set-up in the simulator: three sources, a chain of nodes, one client.

Tuples are counted, not created: a batch is a digest that stands for a number of rows, so that any
rate costs the same to simulate. The durations of work follow the cost model below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from australis.diagram.build import DiagramBuilder
from australis.diagram.model import Diagram
from australis.kernel.durations import MILLISECOND, SECOND
from australis.protocols.dpc.options import Deadline, DpcOptions, Policy
from australis.protocols.dpc.proxies import SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.topology import replicate
from australis.sim.dpc.engine import Digest, DigestEngine
from australis.sim.dpc.hosts import Costs, ReplicaHost, SourceHost
from australis.sim.dpc.run import Scenario
from australis.sim.faults import Fault, Kind

SOURCES = ("s1", "s2", "s3")
BUCKET_US = 100 * MILLISECOND
FAILS_AT_US = 10 * SECOND
"""When the first failure of every run begins."""

COSTS = Costs(batch_us=1_000, bucket_us=500, row_us=72.0, sync_us=1_000)
"""The cost model, calibrated once: 4,500 tuples/s for 8 s are reprocessed in about D = 2.7 s.

That is the only speed the thesis' prose gives (5.4.1: reconciliation becomes longer than
D "for a failure duration around 8 seconds"): 75 us a tuple, three times real time at that
rate. The fixed costs per micro-batch and bucket make up the difference.
"""


@dataclass(frozen=True)
class Setting:
    """The parameters that the experiments vary."""

    rate: int
    """Tuples per second on all three sources together."""
    delay_us: int
    """D of each SUnion, or X with an end-to-end deadline."""
    up_failure: Policy = Policy.PROCESS
    stabilization: Policy = Policy.PROCESS
    deadline: Deadline = Deadline.PER_NODE
    faults: tuple[Fault, ...] = ()
    depth: int = 1
    replicas: int = 1
    staggered: bool = False
    """Whether the replicas of a node reconcile one after the other."""
    bucket_us: int = BUCKET_US
    seed: int = 1
    ends_us: int = 60 * SECOND
    """How long the run continues after the first failure begins, before all faults must be
    healed.
    """
    costs: Costs = COSTS
    source: Callable[..., SourceMachine] = SourceMachine
    replica_class: type[ReplicaMachine] = ReplicaMachine
    replica_host: type[ReplicaHost] = ReplicaHost
    source_host: Callable[..., SourceHost] = SourceHost

    def with_(self, **changes: Any) -> Setting:
        """The same with some changes."""
        return replace(self, **changes)

    @property
    def options(self) -> DpcOptions:
        """DPC's options: buffers large enough for the longest failure, as in the thesis."""
        window = 400 * SECOND // self.bucket_us
        return DpcOptions(
            bucket_us=self.bucket_us,
            max_delay_us=self.delay_us,
            deadline=self.deadline,
            hop_us=100 * MILLISECOND,
            up_failure=self.up_failure,
            stabilization=self.stabilization,
            staggered=self.staggered,
            heartbeat_us=50 * MILLISECOND,
            long_failure_us=max(5 * SECOND, self.delay_us),
            batch_buckets=2,
            input_window=window,
            send_window=window,
        )

    def scenario(self) -> Scenario:
        """The run these settings describe."""
        topology = replicate(chain(self.depth), {}, default=self.replicas)
        return Scenario(
            self.seed,
            topology,
            dict.fromkeys(topology.plans, DigestEngine),
            rows(self.rate, self.bucket_us),
            self.options,
            costs=self.costs,
            faults=self.faults,
            safety_us=FAILS_AT_US + self.ends_us,
            liveness_us=600 * SECOND,
            source_class=self.source,  # type: ignore[arg-type]
            replica_class=self.replica_class,
            replica_host=self.replica_host,
            source_host=self.source_host,
        )


def chain(depth: int) -> Diagram:
    """A union of the three sources, then one pass-through fragment after the other."""
    names = [f"node{i}" for i in range(2, depth + 1)]
    d = DiagramBuilder("chain", fragments={"node1": ["merged"]} | {n: [n] for n in names})
    sources = [d.source(s, push=True, schema="v int") for s in SOURCES]
    stream = d.union("merged", *sources)
    for name in names:
        stream = d.filter(name, stream, "v >= 0")
    return d.done()


def rows(rate: int, bucket_us: int) -> Callable[[str, int], Digest | None]:
    """An even share of the rate for each source, to the tuple over time."""

    def made(source: str, number: int) -> Digest | None:
        per = rate * bucket_us
        share = len(SOURCES) * SECOND
        count = per * (number + 1) // share - per * number // share
        value = blake2b(f"{source} {number}".encode(), digest_size=8).digest()
        return Digest(value, count) if count else None

    return made


def disconnect(source: str, lasts_us: int, at_us: int = FAILS_AT_US) -> Fault:
    """Disconnect a source for a while; the source itself continues."""
    return Fault(Kind.ISOLATE, at_us, lasts_us, source)
