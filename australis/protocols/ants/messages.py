"""Ants, which are messages between cells, and the other messages of cells."""

from __future__ import annotations

import msgspec

from australis.kernel.machine import Message
from australis.placement.queries import Query
from australis.placement.reuse import Tap
from australis.protocols.ants.chains import Pull
from australis.protocols.ants.observations import ServerObservation, Way
from australis.protocols.ants.path_search import Stop


class Hop(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A cell on an ant's path, and the duration of the hop to the next one."""

    cell: str
    took_us: int


class Routing(Message, frozen=True, gc=False):
    """A routing ant on its way to a destination."""

    destination: str
    hops: tuple[Hop, ...]
    at: str
    """The last cell it left."""
    since_us: int
    """The time when it reached that cell."""
    age_us: int = 0
    """The duration of all hops, including those on cycles."""
    steps: int = 0
    """The number of cells visited, including those on cycles."""
    beside: tuple[str, ...] = ()
    """Servers whose distances scouts will need."""


class Ping(Message, frozen=True, gc=False):
    """Asks for a `Pong` to measure the distance."""

    asked_us: int


class Pong(Message, frozen=True, gc=False):
    """The answer to a `Ping`."""

    asked_us: int


class Homing(Message, frozen=True, gc=False):
    """A routing ant on its way back; the cells it still visits are in it."""

    destination: str
    hops: tuple[Hop, ...]
    next: str
    """The cell it comes from, one hop closer to the destination."""
    took_us: int
    """The duration from that cell to the destination."""


Rank = tuple[int, str]
"""The arrival time and the name of a query, which uses tasks of earlier ones only (no cycles)."""


class Goal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The goal of scouts: servers for one chain of a query."""

    query: Query
    version: int
    chain: int
    hosts: dict[str, str]
    """The hosts of tasks in earlier chains."""
    again: bool = False
    """Whether the query runs already."""
    pulls: tuple[Pull, ...] = ()
    """The flows that join the chain or split off."""
    rank: Rank | None = None
    """The rank of the query if tasks of earlier queries may be used."""


class Scout(Message, frozen=True, gc=False):
    """A scouting ant."""

    goal: Goal
    destination: str
    number: int
    alpha: float
    greed: int
    stops: tuple[Stop, ...]
    steps: int = 0
    """The number of cells visited, including those on cycles."""
    taps: tuple[Tap, ...] = ()
    """Reusable tasks of other queries on its path."""
    straight: bool = False
    """Whether it follows the network's route instead of pheromones."""


class Report(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A placement of a chain that a scout has found."""

    hosts: dict[str, str]
    routes: dict[str, tuple[str, ...]]
    """The routes, by the task or consumer at the end of an edge; the chain gives the other end."""
    cost: float
    least: float
    """A lower bound on the cost of any placement on its path."""
    pulled: float = 0.0
    """The additional cost of the flows to servers that pull the chain."""


class Reporting(Message, frozen=True, gc=False):
    """A scouting ant on its way back with a report; without one its path is discouraged."""

    goal: tuple[str, int, int]
    """Query, version and chain."""
    number: int
    destination: str
    path: tuple[str, ...]
    """The cells it still visits, the next one last."""
    come_by: str
    """The cell it comes from."""
    report: Report | None
    taps: tuple[Tap, ...] = ()


class Seek(Message, frozen=True, gc=False):
    """Asks the cell at a chain's source to search for servers for the chain."""

    goal: Goal
    destination: str


class Sought(Message, frozen=True, gc=False):
    """The best report for a chain, if there is one."""

    query: str
    version: int
    chain: int
    report: Report | None
    taps: tuple[Tap, ...] = ()
    """Reusable tasks of other queries."""


class Share(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A cell's share of a placement: tasks to run, edges whose tuples it sends to a neighbour, and
    tasks of other queries whose tuples it reuses."""

    cell: str
    tasks: tuple[str, ...]
    sends: tuple[tuple[str, str, str], ...]
    """The neighbour and the two ends of the edge."""
    taps: tuple[Tap, ...] = ()


class Enforcement(Message, frozen=True, gc=False):
    """An enforcement ant: each cell in turn recomputes the cost of its share and holds it."""

    query: Query
    version: int
    leader: str
    shares: tuple[Share, ...]
    at: int
    cost: float
    most: float
    """The maximum cost at which the placement is enforced."""
    rank: Rank
    remembers: tuple[tuple[str, str], ...] = ()
    """The servers of stateful tasks by signature, including those of other queries."""
    beside: bool = False
    """Whether the running version remains for a while because others use it, so that there must be
    room for both."""


class Enforced(Message, frozen=True, gc=False):
    """The result of an enforcement ant: the cost, or the cell that refused its share."""

    query: str
    version: int
    cost: float
    refused_by: str = ""


class Keep(Message, frozen=True, gc=False):
    """Run a share of a query, or renew its lease."""

    query: str
    version: int


class Kept(Message, frozen=True, gc=False):
    """Whether a cell has its share, and its present cost."""

    query: str
    version: int
    there: bool
    cost: float = 0.0
    tapped: bool = False
    """Whether other queries use a task of the share."""
    ends: bool = False
    """Whether a task of another query that it uses will soon be gone."""


class Fetch(Message, frozen=True, gc=False):
    """Fetch the state of tasks that run elsewhere so far, while the share is held."""

    query: str
    version: int
    tasks: dict[str, str]
    """The present host of each task."""


class Fetched(Message, frozen=True, gc=False):
    """The state of these tasks has arrived."""

    query: str
    version: int
    tasks: tuple[str, ...]


class ReleaseShares(Message, frozen=True, gc=False):
    """Stop or no longer hold a share of a query."""

    query: str
    version: int
    soon: bool = False
    """Whether to release the share after a grace period, since other queries use it."""


class Known(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A server that may be worth a detour, as a cell knows it."""

    server: ServerObservation
    path: tuple[str, ...]
    """The path from the cell to the server, both included."""
    there: Way
    back: Way
    seen_us: int


class Scent(Message, frozen=True, gc=False):
    """A cell's knowledge of itself and of servers near it, for its neighbours."""

    known: tuple[Known, ...]
    link: Way
    """The link from the cell to that neighbour."""
