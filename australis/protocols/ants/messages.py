"""Ants, which are messages between cells, and what cells tell each other besides."""

from __future__ import annotations

import msgspec

from australis.kernel.machine import Message
from australis.placement.queries import Query
from australis.protocols.ants.along import Stop
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


class Homing(Message, frozen=True, gc=False):
    """A routing ant on its way back; the cells it still comes by are on its back."""

    destination: str
    hops: tuple[Hop, ...]
    next: str
    """The cell it comes from, one hop closer to the destination,"""
    took_us: int
    """and how long it took from there."""


class Goal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What scouts look for: servers for one chain of a query."""

    query: Query
    version: int
    chain: int
    hosts: dict[str, str]
    """Where the chains before it are to be."""
    again: bool = False
    """Whether the query runs already."""


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


class Report(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A placement of a chain that a scout has found."""

    hosts: dict[str, str]
    routes: dict[str, tuple[str, ...]]
    """By the task or consumer at the end of an edge; the chain says which edge."""
    cost: float
    least: float
    """Nothing on its way could have cost less."""


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


class Share(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a cell has of a query: tasks to run, and edges whose tuples it sends to a neighbour."""

    cell: str
    tasks: tuple[str, ...]
    sends: tuple[tuple[str, str, str], ...]
    """The neighbour, and the two ends of the edge."""


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


class Release(Message, frozen=True, gc=False):
    """Stop a share of a query, or hold it no longer."""

    query: str
    version: int


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
