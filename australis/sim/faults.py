"""The schedule of a run: faults of nodes and links, and how they are inflicted.

Faults may overlap: a node is up again, and a link whole again, when the last fault that holds
it is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Protocol

from australis.kernel.durations import MILLISECOND
from australis.sim.network import Link
from australis.sim.world import World

LOSS, DUPLICATES, EXTRA_US = 0.3, 0.1, 20_000


class Kind(Enum):
    """A kind of fault."""

    CUT = "cut"
    """No message passes between two nodes."""
    CUT_ONE_WAY = "cut one way"
    """No message passes from the first node to the second."""
    ISOLATE = "isolate"
    """No message passes between the node and any other node."""
    CRASH = "crash"
    """The node dies with its memory, and starts again from its disk."""
    WIPE = "wipe"
    """The node dies with its disk."""
    PAUSE = "pause"
    """The node is paused."""
    SLOW = "slow"
    """Its CPU is many times slower."""
    LOSSY = "lossy"
    """The links between two nodes lose, repeat and delay messages."""
    SLOW_LINK = "slow link"
    """Every message from the first node to the second takes longer."""


class Lie(Enum):
    """A kind of fault of a disk, which gives back something else than what was written."""

    ROT = "rot"
    """Bits of a bucket of a log flip."""
    LOST_WRITE = "lost write"
    """The node dies, and the latest writes of a log are gone though they were synced."""
    MISDIRECTED = "misdirected write"
    """The node dies, and a part of a log has been written over."""
    OLD_COPY = "old copy"
    """The node dies, and an old copy of its disk is put back, `extra_us` old."""


class Planned(Protocol):
    """One entry of a run's schedule; it has a duration if it has a field `lasts_us`."""

    @property
    def at_us(self) -> int:
        """When it begins."""
        ...

    @property
    def until_us(self) -> int:
        """When it is over."""
        ...


class Moment:
    """An entry that happens at once: the base class of a model's own kinds of entries."""

    at_us: int

    @property
    def until_us(self) -> int:
        """When it is over."""
        return self.at_us


@dataclass(frozen=True)
class Fault:
    """A fault that is mended after a while."""

    kind: Kind | Lie
    at_us: int
    lasts_us: int
    node: str
    other: str = ""
    extra_us: int = 0
    """For a slow link, how much longer each message takes; for an old copy, how old it is."""

    @property
    def until_us(self) -> int:
        """When it is mended."""
        return self.at_us + self.lasts_us

    @property
    def what(self) -> str:
        """The node and the kind of its fault."""
        return f"{self.kind.value} {self.other}".rstrip()

    def __str__(self) -> str:
        where = f"{self.node} and {self.other}" if self.other else self.node
        return (
            f"{self.at_us / 1e6:8.2f} s: {self.kind.value} {where} for {self.lasts_us / 1e6:.2f} s"
        )


class Inflictor:
    """Begins and ends the faults of a run."""

    def __init__(self, world: World, link: Link, boot: Callable[[str], None]) -> None:
        self._world = world
        self._link = link
        self._boot = boot
        """Starts a node again after a crash."""
        self._held: Counter[tuple[str, ...]] = Counter()
        """The number of faults that hold a node down, paused or slow, or a link lossy."""
        self._links: dict[Fault, list[list[tuple[str, str]]]] = {}
        """The links that each fault has cut, since nodes may join meanwhile."""

    def plan(self, faults: Iterable[Fault]) -> None:
        """Plan these entries for their times."""
        for fault in faults:
            self._world.at(fault.at_us, self.begin, fault)
            self._world.at(fault.until_us, self.end, fault)

    def begin(self, fault: Fault) -> None:
        """Begin a fault."""
        self._world.note("fault", f"{fault} begins")
        match fault.kind:
            case Kind.CUT | Kind.CUT_ONE_WAY | Kind.ISOLATE:
                pairs = self._pairs(fault)
                self._links.setdefault(fault, []).append(pairs)
                for pair in pairs:
                    self.cut(*pair)
            case Kind.LOSSY:
                for pair in self._pairs(fault):
                    link = self._world.network.link(*pair)
                    if self._hold("lossy", *pair):
                        link.loss, link.duplicate = LOSS, DUPLICATES
                        link.extra_us += EXTRA_US
            case Kind.SLOW_LINK:
                self._world.network.link(fault.node, fault.other).extra_us += fault.extra_us
            case Kind.CRASH | Kind.WIPE:
                if self._hold("down", fault.node):
                    self.crash(fault.node)
                if fault.kind is Kind.WIPE:
                    self.wipe(fault.node)
            case Kind.PAUSE if self._hold("paused", fault.node):
                self._world.hosts[fault.node].pause()
            case Kind.SLOW if self._hold("slow", fault.node):
                self.slow(fault.node, begins=True)

    def end(self, fault: Fault) -> None:
        """Mend a fault."""
        self._world.note("fault", f"{fault} ends")
        match fault.kind:
            case Kind.CUT | Kind.CUT_ONE_WAY | Kind.ISOLATE:
                for pair in self._links[fault].pop():
                    self.mend(*pair)
            case Kind.LOSSY:
                for pair in self._pairs(fault):
                    if self._release("lossy", *pair):
                        link = self._world.network.link(*pair)
                        link.loss, link.duplicate = self._link.loss, self._link.duplicate
                        link.extra_us -= EXTRA_US
            case Kind.SLOW_LINK:
                self._world.network.link(fault.node, fault.other).extra_us -= fault.extra_us
            case Kind.CRASH | Kind.WIPE if self._release("down", fault.node):
                self._boot(fault.node)
                if self._held["paused", fault.node]:
                    self._world.hosts[fault.node].pause()
            case Kind.PAUSE if self._release("paused", fault.node):
                self._world.hosts[fault.node].resume()
            case Kind.SLOW if self._release("slow", fault.node):
                self.slow(fault.node, begins=False)

    # --- overridden by models ---------------------------------------------------------------

    def crash(self, node: str) -> None:
        """Crash a node."""
        self._world.hosts[node].crash()

    def wipe(self, node: str) -> None:
        """Lose a node's disk."""
        raise NotImplementedError

    def slow(self, node: str, *, begins: bool) -> None:
        """Make a node slow, or end its slowness."""
        raise NotImplementedError

    def cut(self, sender: str, to: str) -> None:
        """Block all messages in one direction."""
        self._world.network.cut(sender, to)

    def mend(self, sender: str, to: str) -> None:
        """Undo one cut."""
        self._world.network.mend(sender, to)

    # --- counting ---------------------------------------------------------------------------

    def _hold(self, *what: str) -> bool:
        """Count a fault; return whether it is the first of its kind there."""
        self._held[what] += 1
        return self._held[what] == 1

    def _release(self, *what: str) -> bool:
        """Count a fault as over; return whether it was the last of its kind there."""
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


def draw_faults(
    rng: Random,
    nodes: Sequence[str],
    most: dict[Kind, int],
    before_us: int,
    longest_us: int,
    shortest_us: int = 100 * MILLISECOND,
) -> tuple[Fault, ...]:
    """Draw at most this number of faults of each kind, all over before the given moment."""
    found = []
    for kind, number in most.items():
        for _ in range(rng.randint(0, number)):
            node, other = rng.choice(nodes), ""
            if kind in (Kind.CUT, Kind.CUT_ONE_WAY, Kind.LOSSY):
                node, other = rng.sample(nodes, 2)
            lasts_us = rng.randrange(shortest_us, longest_us)
            at_us = rng.randrange(1, before_us - lasts_us)
            found.append(Fault(kind, at_us, lasts_us, node, other))
    return tuple(sorted(found, key=lambda fault: (fault.at_us, fault.node, fault.other)))
