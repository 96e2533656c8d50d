"""Ants, which are messages between cells, and what cells tell each other besides."""

from __future__ import annotations

import msgspec

from australis.kernel.machine import Message
from australis.placement.queries import Query
from australis.placement.reuse import Tap
from australis.protocols.ants.along import Stop
from australis.protocols.ants.chains import Pull
from australis.protocols.ants.sights import ServerSight, Way


class Hop(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A cell an ant came by, and how long it took from there to the next one."""

    cell: str
    took_us: int


class Routing(Message, frozen=True, gc=False):
    """A routing ant on its way to a destination."""

    destination: str
    hops: tuple[Hop, ...]
    at: str
    """The cell it left last,"""
    since_us: int
    """and when it came there."""
    age_us: int = 0
    """What all hops took, those on cycles included."""
    steps: int = 0
    """How many cells it has come by, those on cycles included."""
    beside: tuple[str, ...] = ()
    """Servers that will matter for how far they are."""


class Ping(Message, frozen=True, gc=False):
    """Answer, so that it is seen how far away you are."""

    asked_us: int


class Pong(Message, frozen=True, gc=False):
    """The answer."""

    asked_us: int


class Homing(Message, frozen=True, gc=False):
    """A routing ant on its way back; the cells it still comes by are on its back."""

    destination: str
    hops: tuple[Hop, ...]
    next: str
    """The cell it comes from, one hop closer to the destination,"""
    took_us: int
    """and how long it took from there."""


Rank = tuple[int, str]
"""When a query came, and its name. A query uses tasks of earlier ones only: never in a circle."""


class Goal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What scouts look for: servers for one chain of a query."""

    query: Query
    version: int
    chain: int
    hosts: dict[str, str]
    """Where the chains before it are to be."""
    again: bool = False
    """Whether the query runs already."""
    pulls: tuple[Pull, ...] = ()
    """What joins the chain or splits off."""
    rank: Rank | None = None
    """If tasks of queries that rank before it may be used: where it ranks."""


class Scout(Message, frozen=True, gc=False):
    """A scouting ant."""

    goal: Goal
    destination: str
    number: int
    alpha: float
    greed: int
    stops: tuple[Stop, ...]
    steps: int = 0
    """How many cells it has come by, those on cycles included."""
    taps: tuple[Tap, ...] = ()
    """Tasks of others it has seen that make what is wanted."""
    straight: bool = False
    """Whether it goes the network's own way, whatever pheromones say."""


class Report(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A placement of a chain that a scout has found."""

    hosts: dict[str, str]
    routes: dict[str, tuple[str, ...]]
    """By the task or consumer at the end of an edge; the chain says which edge."""
    cost: float
    least: float
    """Nothing on its way could have cost less."""
    pulled: float = 0.0
    """What it would cost besides to reach the servers it should be near."""


class Reporting(Message, frozen=True, gc=False):
    """A scouting ant on its way back with a report, or with none: then its way is discouraged."""

    goal: tuple[str, int, int]
    """Query, version and chain."""
    number: int
    destination: str
    path: tuple[str, ...]
    """The cells it still comes by, the next one last,"""
    come_by: str
    """and the one it comes from."""
    report: Report | None
    taps: tuple[Tap, ...] = ()


class Seek(Message, frozen=True, gc=False):
    """Let your ants look for servers for a chain that begins at your place."""

    goal: Goal
    destination: str


class Sought(Message, frozen=True, gc=False):
    """The best that was found for a chain, if anything was."""

    query: str
    version: int
    chain: int
    report: Report | None
    taps: tuple[Tap, ...] = ()
    """Tasks of others that make what is wanted."""


class Share(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a cell has of a query: tasks to run, edges whose tuples it sends to a neighbour, and tasks
    of other queries it takes tuples from."""

    cell: str
    tasks: tuple[str, ...]
    sends: tuple[tuple[str, str, str], ...]
    """The neighbour, and the two ends of the edge."""
    taps: tuple[Tap, ...] = ()


class Enforcement(Message, frozen=True, gc=False):
    """An enforcement ant: each cell in turn works out again what its share costs, and holds it."""

    query: Query
    version: int
    leader: str
    shares: tuple[Share, ...]
    at: int
    cost: float
    most: float
    """If it costs more than this it is not done."""
    rank: Rank
    remembers: tuple[tuple[str, str], ...] = ()
    """Where tasks are, by signature, that remember something, those of other queries included."""
    beside: bool = False
    """Whether the version that runs stays for a while, because others use it: then there must be room
    for both."""


class Enforced(Message, frozen=True, gc=False):
    """An enforcement ant is back: with what it costs, or with the cell that would not have it."""

    query: str
    version: int
    cost: float
    refused_by: str = ""


class Keep(Message, frozen=True, gc=False):
    """Run your share of a query, and keep it for a while; said again and again."""

    query: str
    version: int


class Kept(Message, frozen=True, gc=False):
    """Whether a cell has its share, and what that costs now."""

    query: str
    version: int
    there: bool
    cost: float = 0.0
    tapped: bool = False
    """Whether other queries use a task of it."""
    ends: bool = False
    """Whether a task of others that it uses will soon be gone."""


class Fetch(Message, frozen=True, gc=False):
    """Get what tasks remember that run elsewhere so far, and go on holding your share meanwhile."""

    query: str
    version: int
    tasks: dict[str, str]
    """Where each runs so far."""


class Fetched(Message, frozen=True, gc=False):
    """What tasks remember has arrived."""

    query: str
    version: int
    tasks: tuple[str, ...]


class Release(Message, frozen=True, gc=False):
    """Stop a share of a query, or hold it no longer."""

    query: str
    version: int
    soon: bool = False
    """Not at once: others use some of it, and are to look for something else first."""


class Known(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A server that may be worth a detour, as a cell knows it."""

    server: ServerSight
    path: tuple[str, ...]
    """From the cell to it, both included."""
    there: Way
    back: Way
    seen_us: int


class Scent(Message, frozen=True, gc=False):
    """What a cell knows of itself and of servers near it, for its neighbours."""

    known: tuple[Known, ...]
    link: Way
    """The link from the cell to that neighbour."""
