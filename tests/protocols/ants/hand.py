"""Cells and leaders driven by hand: servers in a row, a query along them."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Event, Message, MessageReceived, Send
from australis.placement.network import Network, Server
from australis.placement.queries import Consumer, Producer, Query, Task
from australis.protocols.ants.cell import CellMachine
from australis.protocols.ants.events import AntOptions, Queue
from australis.protocols.ants.leader import QueryLeader
from australis.protocols.ants.messages import Goal, Report
from australis.queueing.links import Wire

WIRE = Wire(1e8, 0.001)
HOSTS = {"f": "b", "g": "b"}
"""Both tasks on the server in the middle,"""
ROUTES = {"f": ("a", "b"), "z": ("b", "c")}
"""and the ways there, as a report gives them."""


def row(*speeds: float, bound: float = 0.9) -> Network:
    """Servers a, b, ... in a row."""
    names = "abcdefgh"[: len(speeds)]
    servers = [Server(name, speed, bound) for name, speed in zip(names, speeds, strict=True)]
    return Network.both_ways(servers, dict.fromkeys(pairwise(names), WIRE))


def simple(name: str = "q", rate: float = 10.0, work: float = 0.01) -> Query:
    """Two tasks between a producer at a and a consumer at c."""
    return Query(
        name,
        (Producer("p", "a", rate),),
        (Task("f", ("p",), work), Task("g", ("f",), work)),
        (Consumer("z", "c", "g"),),
    )


def report(cost: float = 0.1, hosts: dict[str, str] | None = None, least: float = 0.0) -> Report:
    """What a scout says of a placement."""
    return Report(hosts or HOSTS, ROUTES, cost, least)


class Cell:
    """One cell of a row, what happens to it, and what it does about that."""

    def __init__(self, name: str = "b", network: Network | None = None, **options: Any) -> None:
        network = network or row(1, 1, 1)
        links = {to: wire for (here, to), wire in network.links.items() if here == name}
        self.now = 100 * SECOND
        self.machine = CellMachine(network.servers[name], links, Random(1), AntOptions(**options))

    def take(self, event: Event, after_s: float = 0.0) -> list[Effect]:
        """Something happens, some seconds later."""
        self.now += round(after_s * SECOND)
        return self.machine.handle(event, self.now)

    def hears(self, sender: str, message: Message, after_s: float = 0.0) -> list[Effect]:
        """A message comes."""
        return self.take(MessageReceived(sender, message), after_s)


class Leader:
    """A leader at a, the chains it wants sought, and what it does."""

    def __init__(self, query: Query | None = None, first: int = 0, **options: Any) -> None:
        self.now = 100 * SECOND
        self.goals: list[tuple[Goal, str, str]] = []
        self.options = AntOptions(**options)
        self.machine = QueryLeader(
            query or simple(), "a", first, self.options, self._seek, self.now
        )

    def _seek(self, goal: Goal, source: str, target: str, now: int) -> list[Effect]:
        self.goals.append((goal, source, target))
        return []

    @property
    def version(self) -> int:
        """That of the placement sought last."""
        return self.goals[-1][0].version

    def later(self, seconds: float) -> int:
        """Time passes."""
        self.now += round(seconds * SECOND)
        return self.now


def sent(effects: list[Effect]) -> list[tuple[str, Any]]:
    """The messages among effects, with whom they are for."""
    return [(e.to, e.message) for e in effects if isinstance(e, Send)]


def only(effects: list[Effect]) -> tuple[str, Any]:
    """The one message among effects."""
    (found,) = sent(effects)
    return found


def queued(effects: list[Effect]) -> list[Any]:
    """The ants that wait in the server's queue."""
    return [e.ant for e in effects if isinstance(e, Queue)]


def told(effects: list[Effect], kind: type) -> list[Any]:
    """The effects of one kind."""
    return [e for e in effects if isinstance(e, kind)]
