"""What happens to a cell, what it asks of its server, and what can be set about it."""

from __future__ import annotations

from dataclasses import dataclass

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.machine import Effect, Event
from australis.placement.metric import LATENCY, Metric
from australis.placement.queries import Query
from australis.placement.reuse import Tap
from australis.placement.use import Use
from australis.protocols.ants.messages import Rank, Routing, Scout


@dataclass(frozen=True)
class AntOptions:
    """The settings of a colony."""

    metric: Metric = LATENCY
    """What counts."""
    routing_ants: int = 20
    """So many leave for a destination to which no way is known yet, or when too few scouts come back."""
    routes_needed: int = 8
    """So many have to be back before scouts leave."""
    scouts: int = 12
    """So many leave at once"""
    scouts_again: int = 4
    """(so many if the query runs already and something better is looked for),"""
    reports_needed: int = 8
    """and the best report is taken when so many have come."""
    patience_us: int = 2 * SECOND
    """So long ants are waited for before more leave,"""
    tries: int = 5
    """so often."""
    outstanding: float = 0.02
    """A report is taken at once if nothing on its way could cost less by more than this part."""
    reinforcement: float = 0.2
    """How much a trip as good as the best changes a vector."""
    failures_told: int = 3
    """So many scouts that failed on one way discourage it."""
    expiry_us: int = 60 * SECOND
    """Vectors that nobody has used for so long are forgotten."""
    scent_us: int = 5 * SECOND
    """So often a cell tells its neighbours what it knows of servers,"""
    known: int = 6
    """of so many at most,"""
    detours: int = 2
    """of which a scout takes so many into account at each stop,"""
    typical_work: float = 0.01
    """the best ones for so much work."""
    again_us: int = 10 * SECOND
    """So often a leader looks for something better, more seldom while it finds nothing,"""
    beta: float = 1.1
    """and takes it if what there is costs so many times as much,"""
    settle_us: int = 20 * SECOND
    """but not so soon after the last time, and each time twice as long if it has just been taken
    back: placements do not swing to and fro."""
    tolerance: float = 0.2
    """A placement may cost so much more than its report says when it is enforced."""
    hold_us: int = 10 * SECOND
    """A share that is held is let go after this, unless it is to be kept;"""
    lease_us: int = 30 * SECOND
    """one that is kept, when its leader has not been heard of for so long."""
    grace_us: int = 20 * SECOND
    """What others use is there for so long after it is not wanted any more."""
    reuse: bool = True
    """Whether tasks of other queries are used that make the same."""
    resend_us: int = 500 * MILLISECOND


class Started(Event, frozen=True, gc=False):
    """A life begins; these queries have a producer here and are to be led from here."""

    life: int
    queries: tuple[Query, ...] = ()
    placed: tuple[TellPlaced, ...] = ()
    """Where those run that ran in an earlier life, as was told last."""


class Submitted(Event, frozen=True, gc=False):
    """A query is to be placed, in place of an earlier one of that name; here is a producer of it."""

    query: Query


class Withdrawn(Event, frozen=True, gc=False):
    """A query is not wanted any longer."""

    name: str


class Measured(Event, frozen=True, gc=False):
    """What a query does has changed, as far as was measured: its rates, sizes or work."""

    query: Query


class Disturbed(Event, frozen=True, gc=False):
    """What uses the server besides queries has changed."""

    use: Use


class Aged(Event, frozen=True, gc=False):
    """How old what a task here puts out is then, as far as was measured."""

    query: str
    task: str
    age_s: float


class StateCame(Event, frozen=True, gc=False):
    """What a task remembers is here now."""

    query: str
    version: int
    task: str


class Dequeued(Event, frozen=True, gc=False):
    """An ant has waited its turn in the server's queue."""

    ant: Routing | Scout


class Queue(Effect, frozen=True, gc=False):
    """Let an ant wait at the end of the server's queue like a tuple."""

    ant: Routing | Scout


class FetchState(Effect, frozen=True, gc=False):
    """Bring what a task remembers here; the version that runs goes on meanwhile."""

    query: str
    version: int
    task: str
    source: str


class TellPlaced(Effect, frozen=True, gc=False):
    """A query runs: where, and what that costs. Kept for the next life."""

    query: str
    version: int
    hosts: dict[str, str]
    routes: dict[tuple[str, str], tuple[str, ...]]
    cost: float
    taps: dict[str, Tap]
    rank: Rank


class TellUnplaced(Effect, frozen=True, gc=False):
    """A query could not be placed, for now."""

    query: str
    why: str
