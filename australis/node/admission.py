"""What a listener and a message queue let in: decisions about connections and messages, pure.

A connection goes through `Admissions`: it has a place until it is known whose it is, then one
among those of its identity. A message goes into a `MessageQueue`, where each sender has a
budget, the senders of a rank share another, and higher ranks are served first. What is over
a budget is dropped and counted; heartbeats ask again for whatever was lost.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar

T = TypeVar("T")

# --- connections --------------------------------------------------------------------------------

RESERVED_DESCRIPTORS = 256
"""The descriptors that no listener may use: for logs, journals and everything else of a node."""
MAX_CONNECTIONS = 1024
"""The largest number of connections of one listener."""
MIN_CONNECTIONS = 8
"""The number that a listener accepts in any case."""
MAX_UNKNOWN = 128
"""The largest number of connections of one listener that have not identified themselves."""
MAX_PER_IDENTITY = 96
"""The largest number of connections of one certificate: a guest needs two."""


def connection_limit(descriptors: int, listeners: int) -> int:
    """The largest number of connections of each listener of a process with these descriptors.

    >>> connection_limit(20_000, 3), connection_limit(1024, 3), connection_limit(256, 3)
    (1024, 170, 8)
    """
    spare = max(0, descriptors - max(RESERVED_DESCRIPTORS, descriptors // 2))
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, spare // max(1, listeners)))


@dataclass(frozen=True)
class Limits:
    """The limits of one listener."""

    connections: int = MAX_CONNECTIONS
    unknown: int = MAX_UNKNOWN
    per_identity: int = MAX_PER_IDENTITY


class Refusal(Exception):
    """A connection is not admitted; the text is one sentence."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason
        """The word by which such refusals are counted."""


class Admissions:
    """The connections of one listener, by number."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._silent: dict[int, str] = {}
        """The address of each connection from which nothing has come yet, oldest first."""
        self._speaking: dict[int, str] = {}
        """Of those that have begun to identify themselves."""
        self._known: dict[int, str | None] = {}
        """The identity of all others; None where identities have no certificates."""
        self._next = 0

    def __len__(self) -> int:
        return len(self._silent) + len(self._speaking) + len(self._known)

    def arrive(self, address: str) -> tuple[int, int | None]:
        """Take in a connection: its number, and that of one which has to make way for it.

        Those that say nothing make way first, then those that are still unknown; among them the oldest
        of the address that has most, so that a flood from one address does not keep out others.
        Raises a `Refusal` if there is no room.
        """
        gone, unknown = None, len(self._silent) + len(self._speaking)
        if unknown >= self.limits.unknown or len(self) >= self.limits.connections:
            those = self._silent or self._speaking
            if not those:
                raise Refusal("full", f"there are {len(self)} connections already")
            ((most, _),) = Counter(those.values()).most_common(1)
            gone = next(number for number, at in those.items() if at == most)
            del those[gone]
        self._next += 1
        self._silent[self._next] = address
        return self._next, gone

    def speak(self, number: int) -> None:
        """Something has come from a connection."""
        if number in self._silent:
            self._speaking[number] = self._silent.pop(number)

    def identify(self, number: int, identity: str | None) -> None:
        """It is known now whose connection this is; raises a `Refusal` if it has too many."""
        if identity is not None:
            count = sum(1 for one in self._known.values() if one == identity)
            if count >= self.limits.per_identity:
                raise Refusal("per_identity", f"'{identity}' has {count} connections already")
        self.speak(number)
        if self._speaking.pop(number, None) is None:
            raise Refusal("unidentified", "a connection has to make way for newer ones")
        self._known[number] = identity

    def leave(self, number: int) -> None:
        """A connection has ended."""
        self._silent.pop(number, None)
        self._speaking.pop(number, None)
        self._known.pop(number, None)


# --- messages -----------------------------------------------------------------------------------


class Rank(IntEnum):
    """Who is served first when there is more than can be done at once."""

    PEER = 0
    """Nodes of the cluster, and what a node has to do for itself."""
    CLIENT = 1
    """The clients of the cluster file."""
    GUEST = 2
    """Readers that no file names."""


@dataclass(frozen=True)
class Budget:
    """What may be queued at once of the messages of a sender, or of all senders of a rank."""

    messages: int
    bytes: int


RANK_BUDGETS: Mapping[Rank, Budget] = {
    Rank.PEER: Budget(4096, 256 << 20),
    Rank.CLIENT: Budget(1024, 16 << 20),
    Rank.GUEST: Budget(256, 4 << 20),
}
"""What may be queued of all senders of a rank together."""
SENDER_BUDGETS: Mapping[Rank, Budget] = {
    Rank.PEER: Budget(2048, 128 << 20),
    Rank.CLIENT: Budget(64, 1 << 20),
    Rank.GUEST: Budget(16, 256 << 10),
}
"""What may be queued of one sender, unless a single message has more bytes."""
HEARTBEATS_PER_PERIOD = 8
"""The rate of messages of a client or a guest, in heartbeats for each period of the cluster."""
BURST = 64
"""The number of messages that a client or a guest may send at once before its rate counts."""

FAIR_EVERY = 32
"""Of so many events one of the lowest rank that waits is taken first."""


@dataclass
class _Sender:
    """What is queued of one sender, and what its rate leaves it."""

    messages: int = 0
    bytes: int = 0
    tokens: float = BURST
    at_s: float = 0.0


@dataclass
class MessageQueue(Generic[T]):
    """Queued events, of a node's own and messages of others, the highest rank first."""

    per_s: float = float("inf")
    """The rate of messages that a client or a guest may send."""
    dropped: Counter[Rank] = field(default_factory=Counter)
    """The messages over a budget, by the rank of their senders."""

    def __post_init__(self) -> None:
        self._queues: dict[Rank, deque[tuple[T, str | None, int]]] = {r: deque() for r in Rank}
        self._totals = {rank: _Sender() for rank in Rank}
        self._senders: dict[tuple[Rank, str], _Sender] = {}
        self._taken = 0

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def put(self, what: T) -> None:
        """Queue an event of the node itself, which has no limit."""
        self._queues[Rank.PEER].append((what, None, 0))

    def has_room(self, rank: Rank, sender: str, size: int, now_s: float) -> bool:
        """Whether there is room for a message; one for which there is none is counted as dropped."""
        one, total = self._sender(rank, sender, now_s), self._totals[rank]
        if (
            self._has_rate(rank, one, now_s)
            and _fits(one, SENDER_BUDGETS[rank], size)
            and _fits(total, RANK_BUDGETS[rank], size)
        ):
            return True
        self.dropped[rank] += 1
        return False

    def put_message(self, what: T, rank: Rank, sender: str, size: int, now_s: float) -> bool:
        """Queue a message, unless its sender or its rank is over a budget."""
        if not self.has_room(rank, sender, size, now_s):
            return False
        one, total = self._sender(rank, sender, now_s), self._totals[rank]
        one.tokens -= 1
        for counted in (one, total):
            counted.messages += 1
            counted.bytes += size
        self._queues[rank].append((what, sender, size))
        return True

    def take(self) -> T | None:
        """The next event; None if there is none.

        Now and then one of a lower rank comes first, so that a flood of a higher one keeps out none.
        """
        self._taken += 1
        lowest_first = self._taken % FAIR_EVERY == 0
        for rank in sorted(Rank, reverse=lowest_first):
            if queue := self._queues[rank]:
                what, sender, size = queue.popleft()
                if sender is not None:
                    for counted in (self._senders[rank, sender], self._totals[rank]):
                        counted.messages -= 1
                        counted.bytes -= size
                return what
        return None

    def _sender(self, rank: Rank, sender: str, now_s: float) -> _Sender:
        one = self._senders.get((rank, sender))
        if one is None:
            if len(self._senders) >= MAX_CONNECTIONS:  # guests come and go in new names
                self._senders = {k: v for k, v in self._senders.items() if v.messages}
            one = self._senders[rank, sender] = _Sender(at_s=now_s)
        return one

    def _has_rate(self, rank: Rank, one: _Sender, now_s: float) -> bool:
        if rank is Rank.PEER or self.per_s == float("inf"):
            return True
        one.tokens = min(BURST, one.tokens + (now_s - one.at_s) * self.per_s)
        one.at_s = now_s
        return one.tokens >= 1


def _fits(queued: _Sender, budget: Budget, size: int) -> bool:
    small = queued.bytes == 0 or queued.bytes + size <= budget.bytes
    return small and queued.messages < budget.messages
