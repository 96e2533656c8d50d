"""Events of a cell, the effects it returns to its server, and its options."""

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
    """The options of a colony."""

    metric: Metric = LATENCY
    """The objective of placements."""
    routing_ants: int = 20
    """The number of routing ants sent if no path is known, or too few scouts return."""
    routes_needed: int = 8
    """The number of routing ants that must return before scouts leave."""
    scouts: int = 12
    """The number of scouts sent at once for a query that is not placed yet."""
    scouts_again: int = 4
    """The number of scouts sent at once to improve on the placement of a running query."""
    reports_needed: int = 8
    """The number of reports after which the best one is taken."""
    patience_us: int = 2 * SECOND
    """The time for which a search waits for ants before it sends more."""
    tries: int = 5
    """The number of times a search waits for ants."""
    outstanding: float = 0.02
    """A report is taken at once if it exceeds its path's lower bound by at most this fraction."""
    reinforcement: float = 0.2
    """The change of a vector by a trip as good as the best."""
    failures_told: int = 3
    """The number of scouts that have to fail on a path before it is discouraged."""
    expiry_us: int = 60 * SECOND
    """The time after which unused vectors are forgotten."""
    scent_us: int = 5 * SECOND
    """The interval at which a cell tells its neighbours about servers it knows."""
    known: int = 6
    """The maximum number of servers in such a message."""
    detours: int = 2
    """The maximum number of detours that a scout considers at each stop."""
    typical_work: float = 0.01
    """The amount of work by which servers are ranked as detours."""
    again_us: int = 10 * SECOND
    """The shortest interval between searches for a better placement; it grows without success."""
    beta: float = 1.1
    """The factor by which a running placement must exceed a new one in cost to be replaced."""
    settle_us: int = 20 * SECOND
    """The time after a placement in which it is not replaced, doubled when a move is taken back, so
    that placements do not oscillate."""
    tolerance: float = 0.2
    """The fraction by which a placement may exceed its reported cost when it is enforced."""
    hold_us: int = 10 * SECOND
    """The time for which a share is held unless it is confirmed."""
    lease_us: int = 30 * SECOND
    """The time for which a confirmed share runs without a message from its leader."""
    grace_us: int = 20 * SECOND
    """The time for which a share that others use remains after its query has left."""
    reuse: bool = True
    """Whether equal tasks of other queries are reused."""
    resend_us: int = 500 * MILLISECOND


class Started(Event, frozen=True, gc=False):
    """An incarnation starts, with the queries that have a producer here and are led from here."""

    incarnation: int
    queries: tuple[Query, ...] = ()
    placed: tuple[TellPlaced, ...] = ()
    """The placements that earlier incarnations reported last."""


class Submitted(Event, frozen=True, gc=False):
    """A query with a producer here is to be placed, replacing an earlier query of that name."""

    query: Query


class Withdrawn(Event, frozen=True, gc=False):
    """The user withdraws a query."""

    name: str


class Measured(Event, frozen=True, gc=False):
    """The measured rates, sizes or work of a query have changed."""

    query: Query


class Disturbed(Event, frozen=True, gc=False):
    """The load on the server besides queries has changed."""

    use: Use


class Aged(Event, frozen=True, gc=False):
    """The measured age of the tuples that a task here emits."""

    query: str
    task: str
    age_s: float


class StateCame(Event, frozen=True, gc=False):
    """The state of a task has arrived here."""

    query: str
    version: int
    task: str


class Dequeued(Event, frozen=True, gc=False):
    """An ant has passed the server's queue."""

    ant: Routing | Scout


class Queue(Effect, frozen=True, gc=False):
    """Put an ant into the server's queue like a tuple."""

    ant: Routing | Scout


class FetchState(Effect, frozen=True, gc=False):
    """Fetch the state of a task to this server while the running version continues."""

    query: str
    version: int
    task: str
    source: str


class TellPlaced(Effect, frozen=True, gc=False):
    """A query runs with this placement and cost; kept for the next incarnation."""

    query: str
    version: int
    hosts: dict[str, str]
    routes: dict[tuple[str, str], tuple[str, ...]]
    cost: float
    taps: dict[str, Tap]
    rank: Rank


class TellUnplaced(Effect, frozen=True, gc=False):
    """A query could not be placed for now."""

    query: str
    why: str
