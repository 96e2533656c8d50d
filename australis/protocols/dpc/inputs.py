"""One input of a node: what has arrived, and which replicas it is read from.

Stable buckets arrive in order and are kept until every output that reads them has
processed them. Beyond the last stable bucket lies the
overlay, which a stable bucket supersedes as soon as it arrives: whatever an
upstream replica said tentatively of a bucket no longer counts (UNDO and REC_DONE
only announce that).
"""

from __future__ import annotations

from collections.abc import Mapping

from australis.protocols.dpc.messages import (
    Bucket,
    StableData,
    StreamStatus,
    TentativeData,
    Want,
)
from australis.protocols.dpc.monitor import Monitor
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.states import State
from australis.protocols.dpc.switching import Choice, choose


class Input:
    """One stream that a node reads."""

    def __init__(
        self,
        stream: str,
        monitors: Mapping[str, Monitor],
        first: str,
        options: DpcOptions,
        reader: str = "",
    ) -> None:
        self.stream = stream
        self.reader = reader
        self.monitors = monitors
        self.options = options
        self.have = -1
        self.choice = Choice(first, None)
        self.rows_taken = [0] * 12
        """How often each row of table 4.3 was taken, for whoever counts."""
        self.healthy = False
        """Whether some replica is stable."""
        self.failed = True
        """Whether no replica is stable or about to be."""
        self.missing = True
        """Whether no replica can send even tentative tuples."""
        self.stable: dict[int, Bucket] = {}
        self.overlay: dict[int, Bucket] = {}
        self.said: dict[int, tuple[str, int]] = {}
        """Which replica said a bucket of the overlay, and in which of its overlays."""
        self.standby: str | None = None
        """A second replica to hear tentative tuples from, so that losing one costs no time."""
        self.hedged = False
        """Whether the log is read from that one as well: whichever comes first counts."""
        self.tentative = -1
        """The last bucket known at least tentatively."""
        self.released = -1
        """The last bucket that every stable lane has processed."""
        self._progress_us = 0
        self._last_sender = first
        self._confirmed = -1
        self._suspects: dict[str, int] = {}
        self._failed_since: int | None = None
        self._replaying: set[str] = set()
        self._order = {name: -i for i, name in enumerate(monitors)}

    # --- data ----------------------------------------------------------------------

    def take_stable(self, sender: str, data: StableData, now: int) -> bool:
        """Take a piece of the log; whether it brought anything new."""
        if data.after > self.have:
            return False  # a piece is missing; the next heartbeat asks for it
        if data.rec_done and data.upto >= self.have:
            self._replaying.discard(sender)
        if data.upto <= self.have or data.upto > self.room:
            return False  # nothing new, or more than was asked for
        for bucket in data.buckets:
            if bucket.number > self.have:
                self.stable[bucket.number] = bucket
        self.have = data.upto
        self._last_sender = sender
        self._progress_us = now
        for number in [n for n in self.overlay if n <= self.have]:
            del self.overlay[number]
            del self.said[number]
        self.tentative = max(self.tentative, self.have)
        return True

    def take_tentative(self, sender: str, data: TentativeData) -> bool:
        """Take a bucket of an overlay; whether it is of use.

        What one replica has said another one need not repeat; only the same replica may say
        it anew, after it has begun a new overlay behind a longer log.
        """
        number = data.bucket.number
        if number <= self.have or sender not in (self.choice.curr, self.standby):
            return False
        said_by, epoch = self.said.get(number, (sender, -1))
        if number in self.overlay and (said_by != sender or epoch == data.epoch):
            return False
        if len(self.overlay) > 2 * self.options.input_window:
            self._trim()
        self.overlay[number] = data.bucket
        self.said[number] = (sender, data.epoch)
        self.tentative = max(self.tentative, number)
        return True

    def _trim(self) -> None:
        """Tentative tuples are never needed twice: keep the most recent ones only."""
        keep = self.options.input_window
        for number in sorted(self.overlay)[:-keep]:
            del self.overlay[number]
            del self.said[number]

    def bucket(self, number: int) -> Bucket | None:
        """What is there of a bucket: stable, or else tentative, or else nothing."""
        return self.stable.get(number) or self.overlay.get(number)

    def known_from(self, number: int) -> list[int]:
        """The buckets from this one on of which there is something."""
        stable = [number] if self.have >= number else []
        return stable + [n for n in self.overlay if n >= number]

    def forget(self, upto: int) -> None:
        """No lane will ask for the buckets up to this one again."""
        for number in [n for n in self.stable if n <= upto]:
            del self.stable[number]
        self.released = max(self.released, upto)

    def restart_after(self, bucket: int) -> None:
        """Begin behind this bucket: what came before is in a checkpoint, or gone."""
        self.have = self.released = self.tentative = bucket
        self.stable.clear()
        self.overlay.clear()
        self.said.clear()

    def skip_to(self, bucket: int) -> None:
        """Go on behind this bucket; what is known beyond it stays."""
        if self.have < bucket:
            self.have = bucket
            self.tentative = max(self.tentative, bucket)
            for number in [n for n in self.overlay if n <= bucket]:
                del self.overlay[number]
                del self.said[number]
        self.forget(bucket)

    # --- which replica --------------------------------------------------------------

    def states(self) -> dict[str, State]:
        """The state of each replica as table 4.3 is to see it."""
        raw = {name: self._state(name) for name in self.monitors}
        best = max(
            (self.end(name) for name, state in raw.items() if state is State.STABLE), default=-1
        )
        for name, state in raw.items():
            # A stable replica that lags behind another one, that sends nothing though it has
            # more, or that would first have to replay a long failure (P3, 4.7.4) is as good
            # as one that stabilises.
            behind = best - self.end(name) > self.options.lag_buckets
            stalled = name in self._suspects
            if state is State.STABLE and (behind or stalled or name in self._replaying):
                raw[name] = State.STABILIZATION
        self._pass_over(raw)
        return self._with_new_tuples(raw) if self.options.staggered else raw

    def _pass_over(self, states: dict[str, State]) -> None:
        """Logs that are of no use while another one has more.

        One that ends before what is here already, and one of a replica with a failed input
        that is far behind another such replica: it has become slow.
        """
        stabilise = [n for n, state in states.items() if state is State.STABILIZATION]
        if any(self.end(n) > self.have for n in stabilise):
            for name in [n for n in stabilise if self.end(n) < self.have]:
                states[name] = State.FAILURE
        failed = [n for n, state in states.items() if state is State.UP_FAILURE]
        best = max((self.end(n) for n in failed if self._gives(n)), default=-1)
        if best > self.have:
            for name in [n for n in failed if best - self.end(n) > self.options.lag_buckets]:
                states[name] = State.FAILURE

    def _with_new_tuples(self, states: dict[str, State]) -> dict[str, State]:
        """Where replicas take turns: those that stabilise and process new tuples all the same.

        While another one, which does not, has the better log, they are there for the new
        tuples only, like a replica in UP_FAILURE.
        """
        stabilise = [n for n, state in states.items() if state is State.STABILIZATION]
        new = [n for n in stabilise if self._gives(n) and self._told(n) is State.STABILIZATION]
        if len(new) == len(stabilise):
            return states
        return states | dict.fromkeys(new, State.UP_FAILURE)

    def _told(self, name: str) -> State:
        return self.monitors[name].state(self.stream)

    def _state(self, name: str) -> State:
        status = self.monitors[name].status(self.stream)
        if status is None:
            return State.FAILURE
        if self.have < status.begins and self.options.keep_log is None:
            return State.FAILURE  # another replica has what this one lacks
        state = self.monitors[name].state(self.stream)
        return State.STABILIZATION if state is State.STABLE and self._behind(name) else state

    def _behind(self, name: str) -> bool:
        """Whether a replica's log ends well before what another one has sent.

        A node that was paused does not know it yet, and says that it is stable.
        """
        return self.have - self.end(name) > self.options.lag_buckets and name != self._last_sender

    def end(self, name: str) -> int:
        """How far a replica's log reaches, as far as is known."""
        status = self.monitors[name].status(self.stream)
        return -1 if status is None else status.end

    @property
    def gone_upto(self) -> int | None:
        """The bucket behind which to go on if no replica has the next one any more."""
        known = [
            status
            for m in self.monitors.values()
            if not m.failed and (status := m.status(self.stream)) is not None
        ]
        if not any(s.state is State.STABLE for s in known) or any(map(self._may_have, known)):
            return None
        return min((s.begins for s in known if s.begins > self.have), default=None)

    def _may_have(self, status: StreamStatus) -> bool:
        """Whether a replica has the next bucket in its log, or will have it.

        Logs that keep only so much are not for waiting: where one goes on far beyond, another
        one that is at a standstill before it counts as if it had nothing.
        """
        goes_on = status.end > self.have or status.state in (State.STABLE, State.STABILIZATION)
        return status.begins <= self.have and (goes_on or self.options.keep_log is None)

    @property
    def forgotten(self) -> bool:
        """Whether every replica answers, and none has the next bucket any more."""
        return self.gone_upto is not None and not any(m.failed for m in self.monitors.values())

    @property
    def head(self) -> int:
        """The furthest any reachable replica's log is known to reach."""
        return max((self.end(n) for n, m in self.monitors.items() if not m.failed), default=-1)

    def choose(self, now: int) -> bool:
        """Apply table 4.3 to what is known now; whether the choice has changed."""
        self._look()
        self._watch(now)
        if self._calm:
            self.rows_taken[1] += 1
            self.standby = self._second(self.choice)
            return False
        states = self.states()
        choice, rows = choose(self.choice, states, self._rank)
        for row in rows:
            self.rows_taken[row] += 1
        self.standby = self._second(choice)
        changed = (choice.curr, choice.bck) != (self.choice.curr, self.choice.bck)
        if changed:
            self._progress_us = now
        self.choice = choice
        return changed

    def _rank(self, name: str) -> tuple[int, ...]:
        """Of replicas in the same state rather one that processes new tuples, and the furthest."""
        return self._gives(name), self.end(name), self._order[name]

    def _watch(self, now: int) -> None:
        """Notice long failures, and replicas that say they have more but send nothing."""
        if self.healthy:
            self._failed_since = None
        elif self._failed_since is None:
            self._failed_since = now
        elif now - self._failed_since > self.options.long_failure_us:
            self._replaying.update(self.monitors)
        for name in list(self._replaying):
            state = self.monitors[name].state(self.stream)
            if state is State.STABLE and self.end(name) <= self.have + 1:
                self._replaying.discard(name)
        source = self.log_from
        if self.end(source) <= self.have or self.have >= self.room:
            self._progress_us = now
        elif now - self._progress_us > self.options.stall_us:
            self._suspects[source] = now + 4 * self.options.stall_us
            self._progress_us = now
        for name in [n for n, until in self._suspects.items() if until <= now]:
            del self._suspects[name]

    @property
    def _calm(self) -> bool:
        """Whether row 1 of table 4.3 applies without a closer look."""
        curr = self.choice.curr
        status = self.monitors[curr].status(self.stream)
        return (
            self.choice.row == 1
            and not self._replaying
            and not self._suspects
            and status is not None
            and self._state(curr) is State.STABLE
            and self.have >= status.begins
            and self.head - status.end <= self.options.lag_buckets
        )

    def _second(self, choice: Choice) -> str | None:
        """Another replica that is doing as `Curr` does, if there is one.

        Beside a stable replica only a stable one will do: what another says tentatively is
        not wanted while `Curr` can do better.
        """
        states = {name: m.state(self.stream) for name, m in self.monitors.items()}
        curr = states.pop(choice.curr)
        match curr:
            case State.STABLE | State.FAILURE:
                alike = {State.STABLE} & {curr}
            case State.UP_FAILURE if self.options.staggered:
                alike = {State.UP_FAILURE}  # leave those alone that stabilise
            case _:
                alike = {State.UP_FAILURE, State.STABILIZATION}
        found = [n for n, state in states.items() if state in alike and self._gives(n)]
        return min(found, key=lambda n: (states[n], -self._order[n]), default=None)

    def _look(self) -> None:
        """What the replicas say, taken together."""
        states = {name: self._state(name) for name in self.monitors}
        self.healthy = State.STABLE in states.values()
        self.failed = not self.healthy and State.STABILIZATION not in states.values()
        self.missing = all(state is State.FAILURE for state in states.values())

    def _gives(self, name: str) -> bool:
        status = self.monitors[name].status(self.stream)
        return status is not None and status.overlay

    @property
    def log_from(self) -> str:
        """The replica whose log is read: only one sends stable tuples (4.11.2)."""
        return self.choice.bck or self.choice.curr

    @property
    def room(self) -> int:
        """The last bucket there is room for."""
        return self.released + self.options.input_window

    @property
    def waits_for_more(self) -> bool:
        """Whether the sender of the log has more, but may only send it once it hears from here."""
        return self.have >= self._confirmed + self.options.send_window // 2 and self.have < min(
            self.end(self.log_from), self.room
        )

    def want(self, name: str, acknowledged: int, now: int) -> Want:
        """What to ask of a replica."""
        if name == self.log_from:
            self._confirmed = self.have
        # Tentative tuples are always welcome from `Curr`: a stable replica may have to release
        # a bucket early, and by the next heartbeat it would be late.
        curr = name == self.choice.curr
        overlay = curr or name == self.standby
        stuck = self.have >= self.room or self.gone_upto is not None
        head = curr and (name in self._replaying or stuck)
        return Want(
            self.stream,
            name == self.log_from or (self.hedged and name == self.standby),
            overlay,
            head,
            self.have,
            self.tentative,
            acknowledged,
            self.room,
            self.reader,
        )
