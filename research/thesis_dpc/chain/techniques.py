"""The chains of replicated nodes that `dpc-chain` runs: techniques, depths and failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from australis.kernel.durations import SECOND
from australis.protocols.dpc.options import Deadline, Policy
from australis.protocols.dpc.replica import ReplicaMachine
from australis.sim.dpc.hosts import Costs
from research.thesis_dpc.measure import Heard
from research.thesis_dpc.replicas import MutedSource, ThesisReplica
from research.thesis_dpc.setting import FAILS_AT_US, Setting

RATE = 500
D_S = 2.0
DEEPEST = 4
LONG_S = 60
"""Figure 5-13 is about failures of this duration."""
WHOLE_S = 6.5
"""The delay that the thesis assigns to each SUnion instead of 8 s, "because queues start to
form".
"""
COSTS = Costs(batch_us=1_000, bucket_us=500, row_us=250.0, sync_us=1_000)
"""The cost model of a chain: about eight times real time at 500 tuples/s.

The thesis gives no speed for its chains, only that a failure of 30 s is where reconciliation
begins to take longer than the delays through the chain: some seconds.
"""


@dataclass(frozen=True)
class Technique:
    """How the nodes of a chain delay their tuples."""

    name: str
    policy: Policy
    delay_s: float
    deadline: Deadline = Deadline.PER_NODE
    replica_class: type[ReplicaMachine] = ThesisReplica
    staggered: bool = False
    """Whether the replicas of a node reconcile in turn (4.7.3)."""

    def setting(self, depth: int, failure_s: int) -> Setting:
        """A chain of this depth with a failure of this duration."""
        until_us = FAILS_AT_US + failure_s * SECOND
        return Setting(
            RATE,
            int(self.delay_s * SECOND),
            up_failure=self.policy,
            stabilization=self.policy,
            deadline=self.deadline,
            depth=depth,
            replicas=2,
            staggered=self.staggered,
            costs=COSTS,
            source=partial(MutedSource, which="s3", from_us=FAILS_AT_US, until_us=until_us),
            replica_class=self.replica_class,
            ends_us=(failure_s + 5) * SECOND,
        )


PROCESS = Technique("Process & Process, D = 2 s", Policy.PROCESS, D_S)
DELAY = Technique("Delay & Delay, D = 2 s", Policy.DELAY, D_S)
WHOLE = Technique("Process & Process, D = 6.5 s", Policy.PROCESS, WHOLE_S)
END_2 = Technique("end to end, X = 2 s", Policy.PROCESS, D_S, Deadline.END_TO_END, ReplicaMachine)
END_8 = Technique(
    "end to end, X = 8 s", Policy.PROCESS, D_S * DEEPEST, Deadline.END_TO_END, ReplicaMachine
)
IN_TURN = Technique(
    "in turn, X = 2 s", Policy.PROCESS, D_S, Deadline.END_TO_END, ReplicaMachine, staggered=True
)
ARRIVAL = Technique("D = 2 s from arrival", Policy.PROCESS, D_S, Deadline.PER_NODE, ReplicaMachine)

Cell = tuple[Technique, int, int]
"""A technique, a depth, and a failure's duration in seconds."""
Found = Mapping[Cell, Heard]


@dataclass(frozen=True)
class ChainPlan:
    """The runs of the experiment."""

    depths: tuple[int, ...]
    failures: tuple[int, ...]
    standard: int
    """The failure for which depths are compared; latency hardly depends on it."""


FULL = ChainPlan((1, 2, 3, DEEPEST), (5, 10, 15, 30, LONG_S), 30)
QUICK = ChainPlan((1, DEEPEST), (5, 15), 15)


def cells(plan: ChainPlan) -> Iterable[Cell]:
    """All combinations that are run."""
    for depth in plan.depths:
        for failure in plan.failures:
            yield from ((PROCESS, depth, failure), (DELAY, depth, failure))
        yield from ((t, depth, plan.standard) for t in (END_2, END_8, ARRIVAL, IN_TURN))
        yield from ((t, depth, 5) for t in (WHOLE, END_8))
    for failure in plan.failures:
        yield from ((t, DEEPEST, failure) for t in (WHOLE, END_8))
    yield from ((t, DEEPEST, LONG_S) for t in (PROCESS, DELAY, END_2, IN_TURN))
