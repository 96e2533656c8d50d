"""Monitoring the replicas of all upstream neighbours (figure 4-10)."""

from __future__ import annotations

from collections.abc import Iterable

from australis.protocols.dpc.messages import HeartbeatReply, StreamStatus
from australis.protocols.dpc.states import State


class Monitor:
    """What one node knows of another that it reads from."""

    def __init__(self, node: str, streams: Iterable[str], misses: int) -> None:
        self.node = node
        self.streams = tuple(streams)
        self._misses = misses
        self._sent = 0
        self.pending = 0
        self.heard = False
        """Whether it has answered since this node was started."""
        self._answered = 0
        self._life = -1
        self._status: dict[str, StreamStatus] = {}
        self._seen: tuple[StreamStatus, ...] = ()

    def next_number(self, *, regular: bool = True) -> int:
        """The number of the next heartbeat; a regular one is pending until a reply comes.

        Those in between, which only say at once what is wanted, prove nothing if they go
        unanswered: several may be under way in one instant.
        """
        self._sent += 1
        self.pending += regular
        return self._sent

    @property
    def failed(self) -> bool:
        """Whether too many heartbeats went unanswered."""
        return self.pending > self._misses

    def replied(self, reply: HeartbeatReply) -> bool:
        """Take in an answer; whether a state is news (that a log has grown is not)."""
        if (reply.life, reply.number) <= (self._life, self._answered):
            return False
        was_failed, first = self.failed, not self.heard
        self._life, self._answered = reply.life, reply.number
        self.pending = 0
        self.heard = True
        if reply.streams == self._seen and not was_failed and not first:
            return False
        self._seen = reply.streams
        before, self._status = self._status, {s.stream: s for s in reply.streams}
        return was_failed or first or _states(before) != _states(self._status)

    def state(self, stream: str) -> State:
        """The last known state of a stream there."""
        status = self._status.get(stream)
        return State.FAILURE if self.failed or status is None else status.state

    def status(self, stream: str) -> StreamStatus | None:
        """The last known status of a stream there."""
        return self._status.get(stream)


def _states(statuses: dict[str, StreamStatus]) -> list[tuple[State, bool]]:
    return [(s.state, s.overlay) for s in statuses.values()]
