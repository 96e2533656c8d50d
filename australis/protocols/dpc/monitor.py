"""Monitoring the replicas of all upstream neighbours (figure 4-10)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from australis.kernel.machine import Effect
from australis.protocols.dpc.clocks import PeerClock
from australis.protocols.dpc.effects import AnnounceClock
from australis.protocols.dpc.messages import (
    Bucket,
    HeartbeatReply,
    StableData,
    StreamStatus,
    TentativeData,
)
from australis.protocols.dpc.states import State

MAX_ASKED = 256
"""The number of latest heartbeats whose round trip is measured."""

Data = TypeVar("Data", bound=StableData | TentativeData)


class Monitor:
    """What a node knows of one producer from its heartbeat replies."""

    clock_class = PeerClock

    def __init__(self, node: str, streams: Iterable[str], misses: int) -> None:
        self.node = node
        self.streams = tuple(streams)
        self._misses = misses
        self._sent = 0
        self.pending = 0
        self.heard = False
        """Whether it has answered since this node was started."""
        self._answered = 0
        self._incarnation = -1
        self.clock = self.clock_class()
        self._asked: dict[int, int] = {}
        """The times of the latest heartbeats, by number."""
        self._status: dict[str, StreamStatus] = {}
        self._seen: tuple[StreamStatus, ...] = ()

    def next_number(self, now: int, *, regular: bool = True) -> int:
        """The number of the heartbeat that is sent now; a regular one is pending until a reply
        comes.

        The heartbeats in between, which only change a subscription at once, prove nothing if they
        go unanswered: several may be in flight at the same time.
        """
        self._sent += 1
        self.pending += regular
        self._asked[self._sent] = now
        if len(self._asked) > MAX_ASKED:
            del self._asked[next(iter(self._asked))]
        return self._sent

    @property
    def failed(self) -> bool:
        """Whether too many heartbeats went unanswered."""
        return self.pending > self._misses

    def replied(self, reply: HeartbeatReply, now: int) -> bool:
        """Process a reply; returns whether a state has changed (the log's growth is no change)."""
        if (reply.incarnation, reply.number) <= (self._incarnation, self._answered):
            return False
        asked_us = self._asked.pop(reply.number, None)
        if asked_us is not None:
            self.clock.sampled(reply.incarnation, asked_us=asked_us, at_us=reply.at_us, now=now)
        was_failed, first = self.failed, not self.heard
        self._incarnation, self._answered = reply.incarnation, reply.number
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

    def clock_news(self, bound_us: int, now: int) -> list[Effect]:
        """The announcement that the producer's clock has passed a bound, if it has just done so."""
        if not self.clock.passed(bound_us, now):
            return []
        found = self.clock.estimate
        assert found is not None
        offset_us, error_us = found.offset_us, found.error_us(now)
        return [AnnounceClock(self.node, offset_us, error_us, self.clock.beyond)]

    def in_own_clock(self, data: Data, now: int) -> Data | None:
        """What the producer has sent, with entry times by this node's clock.

        None if its clock is not known yet, or no longer since it was restarted: then the data
        count as lost, and the next heartbeats ask for them.
        """
        if data.incarnation != self.clock.incarnation:
            return None
        status = self._status.get(data.stream)
        restored_upto = -1 if status is None else status.restored_upto

        def converted(bucket: Bucket) -> Bucket:
            restored = bucket.number <= restored_upto
            entered_us = self.clock.entered(bucket.entered_us, now=now, restored=restored)
            return replace(bucket, entered_us=entered_us)

        if isinstance(data, TentativeData):
            return replace(data, bucket=converted(data.bucket))
        return replace(data, buckets=tuple(map(converted, data.buckets)))


def _states(statuses: dict[str, StreamStatus]) -> list[tuple[State, bool]]:
    return [(s.state, s.overlay) for s in statuses.values()]
