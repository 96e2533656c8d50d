"""The thesis' nodes and sources where they differ from ours: stand-ins for experiments only.

Nothing outside `experiments` uses these classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from australis.kernel.machine import Effect, Event, Send
from australis.protocols.dpc.messages import Bucket, Heartbeat, HeartbeatReply
from australis.protocols.dpc.options import DpcOptions, Policy
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.proxies import SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.states import State
from australis.sim.dpc.hosts import SourceHost


class ThesisOutput(Output):
    """An SUnion with a delay D of its own (thesis 5.4).

    D counts from a bucket's arrival. A node that processes tuples as they arrive suspends
    them once, for D since boundaries stopped coming: all nodes downstream of a failure
    notice that at the same time, so their suspensions do not add up (5.4.2).
    """

    _noted = -1
    _boundary = -1
    _stopped_us = 0
    """When the boundary was due that has not arrived."""

    def release(self, now: int) -> list[Effect]:
        """Record what has arrived, then release what is due."""
        if self.target > self._boundary:
            self._boundary = self.target
            self._stopped_us = now + self.options.bucket_us
        known = max(i.tentative for i in self.inputs)
        for number in range(self._noted + 1, known + 1):
            self._arrived.setdefault(number, now)
        self._noted = max(self._noted, known)
        return super().release(now)

    def _deadline(self, number: int, known: list[Bucket], now: int) -> int:
        wait = self.options.max_delay_us
        if self.options.up_failure is Policy.PROCESS and not self.forked:
            return self._stopped_us + wait
        return self._arrived.setdefault(number, now) + wait


class ThesisReplica(ReplicaMachine):
    """A node whose SUnions count their delays as in the thesis."""

    output_class = ThesisOutput


class PatientOutput(Output):
    """An output that reconciles only once all its inputs have healed (thesis 5.3)."""

    def run_stable(self, now: int) -> list[Effect]:
        """Correct nothing while any input is failed."""
        if self.forked and any(i.failed for i in self.inputs):
            return []
        return super().run_stable(now)


class PatientReplica(ReplicaMachine):
    """A node that waits for all failures to heal."""

    output_class = PatientOutput


class MutedSource(SourceMachine):
    """A source that for a while sends its tuples without boundaries (thesis 5.4.2).

    Its tuples continue, but none of them can be stable: it sends each bucket tentatively and
    announces UP_FAILURE. Afterwards it sends the boundaries, and with them the log.
    """

    def __init__(
        self,
        stream: str,
        consumers: tuple[str, ...],
        options: DpcOptions,
        *,
        which: str,
        from_us: int,
        until_us: int,
    ) -> None:
        super().__init__(stream, consumers, options)
        self._silence = range(from_us, until_us) if stream == which else range(0)
        self._muted = False
        self._boundary = -1

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Handle events as usual, but withhold boundaries for a while."""
        self._muted = now in self._silence
        return super().handle(event, now)

    def _heartbeat(self, sender: str, heartbeat: Heartbeat, now: int) -> list[Effect]:
        reply, *rest = super()._heartbeat(sender, heartbeat, now)
        if not self._muted:
            return [reply, *rest]
        assert isinstance(reply, Send)
        assert isinstance(reply.message, HeartbeatReply)
        (status,) = reply.message.streams
        status = replace(status, state=State.UP_FAILURE, end=self._boundary)
        return [replace(reply, message=replace(reply.message, streams=(status,))), *rest]

    def _send(self, only: str | None = None) -> list[Effect]:
        if not self._muted:
            self._boundary = self.end
            return super()._send(only)
        them = self.subscribers
        for one in them.all.values():
            one.head = one.overlay
        return [
            *them.due(self.trimmed_upto, self._boundary, settled=False, only=only),
            *them.head_due(self.trimmed_upto, self.end, self.options.input_window, only),
        ]


class PhasedSource(SourceHost):
    """A source whose boundaries do not fall on the edges of buckets.

    Each bucket is announced at a fixed delay after its end: a source of the thesis sends boundaries
    at its own interval, independent of the SUnion's buckets.
    """

    def __init__(self, *args: Any, phase_us: int) -> None:
        super().__init__(*args)
        self.phase_us = phase_us
