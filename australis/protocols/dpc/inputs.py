"""One input of a node: what has arrived, and which replicas it is read from.

Stable buckets arrive in order and are kept until every output that reads them has
processed them. Beyond the last stable bucket lies the overlay, which a stable bucket
supersedes as soon as it arrives: the tentative tuples of that bucket no longer count
(UNDO and REC_DONE only announce that).
"""

from __future__ import annotations

from collections.abc import Mapping

from australis.protocols.dpc.digests import Comparison, Digests, listed_digests
from australis.protocols.dpc.messages import (
    Bucket,
    LogDigest,
    StableData,
    StreamStatus,
    SubscriptionState,
    TentativeData,
    WentBack,
)
from australis.protocols.dpc.monitor import Monitor
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.spans import Span, Spans, StableBuckets
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
        """The number of times each row of table 4.3 was taken, for statistics."""
        self.healthy = False
        """Whether some replica is stable."""
        self.failed = True
        """Whether no replica is stable or stabilising."""
        self.missing = True
        """Whether no replica can send even tentative tuples."""
        self.stable = StableBuckets()
        self.overlay: dict[int, Bucket] = {}
        self.said: dict[int, tuple[str, int]] = {}
        """The replica that sent each bucket of the overlay, and the epoch of its overlay."""
        self.standby: str | None = None
        """A second replica that sends tentative tuples, so that losing one costs no time."""
        self.hedged = False
        """Whether the log is read from the standby as well: the first copy counts."""
        self.tentative = -1
        """The last bucket known at least tentatively."""
        self.released = -1
        """The last bucket that every stable lane has processed."""
        self.advanced_us = 0
        """The time at which its boundary last advanced; 0 if it has not yet."""
        self._progress_us = 0
        self._last_sender = first
        self._confirmed = -1
        self._suspects: dict[str, int] = {}
        self._failed_since: int | None = None
        self._replaying: set[str] = set()
        self._order = {name: -i for i, name in enumerate(monitors)}
        self._leaving: frozenset[str] = frozenset()
        """The replicas that are read only while no other one is stable."""
        self.digests = Digests()
        self.from_source = tuple(monitors) == (stream,)
        """Whether a source without a standby has the stream, and nobody else."""
        self.remembered: LogDigest | None = None
        """The digest of the source's log up to a bucket that an earlier incarnation has read."""
        self.went_back: WentBack | None = None
        """What the source says of its log if that has gone back."""
        self._waits_for_stable = not options.bounded
        self._waits_for_all = not options.lets_replicas_go
        self.comparison = Comparison(monitors, self.digests, votes=False)
        """Whether the replicas' logs are equal to what has arrived."""

    def rewire(self, monitors: Mapping[str, Monitor], leaving: frozenset[str], now: int) -> bool:
        """Read from these replicas from now on; a choice that names another one is repaired.

        Returns whether it was.
        """
        self.monitors = monitors
        self._leaving = leaving & monitors.keys()
        self._order = {name: -i for i, name in enumerate(monitors)}
        self._replaying &= monitors.keys()
        self._suspects = {n: until for n, until in self._suspects.items() if n in monitors}
        self.comparison.among(monitors)
        if self.standby not in monitors:
            self.standby = None
        bck = self.choice.bck if self.choice.bck in monitors else None
        if self.choice.curr in monitors and bck == self.choice.bck:
            return False
        self._progress_us = now
        if self.choice.curr in monitors:
            self.choice = Choice(self.choice.curr, None)
        else:
            self.choice = Choice(bck or self._best(), None)
        return True

    def _best(self) -> str:
        """The replica to begin with, before table 4.3 is applied."""
        return min(self.monitors, key=lambda name: (self._state(name), -self._order[name]))

    @property
    def is_held(self) -> bool:
        """Whether some replica that answers keeps its log for this reader."""
        known = (m.status(self.stream) for m in self.monitors.values() if not m.failed)
        return any(status is not None and status.holds for status in known)

    # --- data ----------------------------------------------------------------------

    def take_stable(self, sender: str, data: StableData, now: int) -> bool:
        """Take a piece of the log; returns whether it brought anything new."""
        if data.after > self.have:
            return False  # a piece is missing; the next heartbeat asks for it
        if data.rec_done and data.upto >= self.have:
            self._replaying.discard(sender)
        if data.upto <= self.have or data.upto > self.room:
            return False  # nothing new, or more than was asked for
        if not self._continues(sender, data):
            return False
        self.stable.add(data.buckets, data.upto, sender if data.in_log else "")
        self.have = data.upto
        self._last_sender = sender
        self._progress_us = self.advanced_us = now
        for number in [n for n in self.overlay if n <= self.have]:
            del self.overlay[number]
            del self.said[number]
        self.tentative = max(self.tentative, self.have)
        return True

    def _continues(self, sender: str, data: StableData) -> bool:
        """Whether a piece continues the log that has arrived; if so its digests are taken too."""
        if data.digest is None:
            self.digests.restart(None)
            return True
        if self.digests.at(data.after) is None:
            self.digests.restart(data.digest)
        self.comparison.compare(sender, data.digest)
        if not self._trusts(sender):
            return False
        shift = self.comparison.shift(sender, data.digest)
        self.digests.extend(listed_digests(data), data.upto, shift)
        return True

    def _trusts(self, replica: str) -> bool:
        """Whether a replica may be read: its log is not known to differ, or not to be the right
        one."""
        differing = self.comparison.differing
        return not differing or (replica not in differing and not self.comparison.stops)

    def take_tentative(self, sender: str, data: TentativeData) -> bool:
        """Take a bucket of an overlay; returns whether it is used.

        The first replica to send a bucket counts; only that replica may replace it, with a later
        overlay that follows a longer log.
        """
        number = data.bucket.number
        if number <= self.have or sender not in (self.choice.curr, self.standby):
            return False
        if not self._trusts(sender):
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
        """A bucket as it is known: stable, or else tentative, or else None."""
        return self.stable.get(number) or self.overlay.get(number)

    def spans(self, number: int) -> Spans:
        """The same bucket as `bucket`, as spans for a tentative lane."""
        if number <= self.have:
            return self.stable.between(number - 1, number)
        bucket = self.overlay.get(number)
        return () if bucket is None else (Span(number - 1, number, (bucket,)),)

    def known_from(self, number: int) -> list[int]:
        """The known buckets from this one on; of the stable ones at most the first."""
        stable = [number] if self.have >= number else []
        return stable + [n for n in self.overlay if n >= number]

    def forget(self, upto: int) -> None:
        """Drop the buckets up to this one, which no lane will ask for again."""
        self.stable.forget(upto)
        self.released = max(self.released, upto)

    def restart_after(self, bucket: int) -> None:
        """Restart after this bucket: earlier ones are in a checkpoint, or truncated."""
        self.have = self.released = self.tentative = bucket
        self._compare_anew()
        self.stable.clear(bucket)
        self.overlay.clear()
        self.said.clear()

    def skip_to(self, bucket: int) -> None:
        """Continue after this bucket and keep what is known beyond it."""
        if self.have < bucket:
            self.have = bucket
            self._compare_anew()
            self.tentative = max(self.tentative, bucket)
            for number in [n for n in self.overlay if n <= bucket]:
                del self.overlay[number]
                del self.said[number]
        self.forget(bucket)

    @property
    def read_digest(self) -> LogDigest | None:
        """What to tell a source of its log as far as it was read; None if nothing is known."""
        if not self.from_source:
            return None
        before = self.remembered
        if before is not None and before.bucket > self.have:
            return before  # its log rests on more than its checkpoint, where it goes on
        return self.digests.point(self.have) or before

    def _compare_anew(self) -> None:
        self.digests.restart(None)
        self.comparison.forget()

    # --- which replica --------------------------------------------------------------

    def states(self) -> dict[str, State]:
        """The state of each replica as the input of table 4.3."""
        raw = {name: self._state(name) for name in self.monitors}
        best = max(
            (self.end(name) for name, state in raw.items() if state is State.STABLE), default=-1
        )
        for name, state in raw.items():
            # A stable replica that lags behind another one, that sends nothing though it has
            # more, or that would first have to replay a long failure (P3, 4.7.4) counts as
            # stabilising.
            behind = best - self.end(name) > self.options.lag_buckets
            stalled = name in self._suspects
            if state is State.STABLE and (behind or stalled or name in self._replaying):
                raw[name] = State.STABILIZATION
        self._leave(raw)
        self._without_corrections(raw)
        self._pass_over(raw)
        self._fall_back(raw)
        return self._with_new_tuples(raw) if self.options.staggered else raw

    def _leave(self, states: dict[str, State]) -> None:
        """Count stable replicas that leave as stabilising if another one is stable."""
        stable = {name for name, state in states.items() if state is State.STABLE}
        if stable - self._leaving:
            states.update(dict.fromkeys(stable & self._leaving, State.STABILIZATION))

    def _without_corrections(self, states: dict[str, State]) -> None:
        """Count replicas that forgot the next bucket as failing while another still has it.

        They have new tuples, but no corrections.
        """
        if self.options.keep_log is None:
            return  # such a replica counts as failed

        corrects = {State.STABLE, State.STABILIZATION}
        able = [name for name, state in states.items() if state in corrects]
        forgot = {name for name in able if self._forgot(name)}
        if any(self.end(name) > self.have for name in able if name not in forgot):
            states.update(dict.fromkeys(forgot, State.UP_FAILURE))

    def _forgot(self, name: str) -> bool:
        """Whether a replica's log no longer has the next bucket."""
        status = self.monitors[name].status(self.stream)
        return status is not None and status.trimmed_upto > self.have

    def _pass_over(self, states: dict[str, State]) -> None:
        """Count replicas as failed whose logs are of no use while another replica has more.

        These are a stabilising replica whose log ends before what this input has, and a replica
        in UP_FAILURE that lags far behind another one in UP_FAILURE because it is slow.
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

    def _fall_back(self, states: dict[str, State]) -> None:
        """Count a recovering replica as stabilising if it alone still has the next bucket.

        It may not get further before that is read: a full log waits for its consumers.
        """
        if any(state is not State.FAILURE for state in states.values()):
            return
        known = {
            n: s for n, m in self.monitors.items() if not m.failed and (s := m.status(self.stream))
        }
        let_go = any(s.state is not State.FAILURE for s in known.values())
        for name, status in known.items():
            if let_go and status.trimmed_upto <= self.have < status.end and self._trusts(name):
                states[name] = State.STABILIZATION

    def _with_new_tuples(self, states: dict[str, State]) -> dict[str, State]:
        """The states where replicas take turns and some process new tuples while they stabilise.

        While another replica stabilises without processing new tuples, and so corrects faster,
        those are read for new tuples only, like a replica in UP_FAILURE.
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
        if status is None or not self._trusts(name):
            return State.FAILURE
        if self.have < status.trimmed_upto and self.options.keep_log is None:
            return State.FAILURE  # another replica has what this one lacks
        state = self.monitors[name].state(self.stream)
        return State.STABILIZATION if state is State.STABLE and self._behind(name) else state

    def _behind(self, name: str) -> bool:
        """Whether a replica's log ends well before what another one has sent.

        A node that was paused does not know this yet and reports STABLE.
        """
        return self.have - self.end(name) > self.options.lag_buckets and name != self._last_sender

    def end(self, name: str) -> int:
        """The last bucket that a replica's log is known to hold."""
        status = self.monitors[name].status(self.stream)
        return -1 if status is None else status.end

    @property
    def gone_upto(self) -> int | None:
        """The bucket after which to continue if no replica has the next one any more, else None.

        It is asked of stable replicas, unless a full log may keep all of them from being stable.
        """
        asked, gone = not self._waits_for_stable, None
        for monitor in self.monitors.values():
            status = None if monitor.failed else monitor.status(self.stream)
            if status is None:
                continue
            if self._may_have(status):
                return None
            asked = asked or status.state is State.STABLE
            if status.trimmed_upto > self.have and (gone is None or status.trimmed_upto < gone):
                gone = status.trimmed_upto
        return gone if asked else None

    def _may_have(self, status: StreamStatus) -> bool:
        """Whether a replica has the next bucket in its log, or will have it.

        With `keep_log` a consumer must not wait while logs are truncated: a replica whose log
        makes no progress and ends at or before `have` counts as if it had nothing.
        """
        goes_on = status.end > self.have or status.state in (State.STABLE, State.STABILIZATION)
        return status.trimmed_upto <= self.have and (goes_on or self.options.keep_log is None)

    @property
    def forgotten(self) -> bool:
        """Whether every replica answers, and none has the next bucket any more.

        Where logs let go of replicas that are silent, those count that answer: nothing that has
        been forgotten comes back with the others.
        """
        if self._waits_for_all and any(m.failed for m in self.monitors.values()):
            return False
        return self.gone_upto is not None

    @property
    def goes_on(self) -> bool:
        """Whether a stable replica has the next bucket, or will have it."""
        status = [m.status(self.stream) for m in self.monitors.values() if not m.failed]
        return any(
            s is not None and s.state is State.STABLE and s.trimmed_upto <= self.have
            for s in status
        )

    @property
    def head(self) -> int:
        """The last bucket that the log of any reachable replica is known to hold."""
        return max((self.end(n) for n, m in self.monitors.items() if not m.failed), default=-1)

    def choose(self, now: int) -> bool:
        """Apply table 4.3 to what is known now; returns whether the choice has changed."""
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
        """The rank among replicas in one state: first by new tuples, then by the log's end."""
        return name not in self._leaving, self._gives(name), self.end(name), self._order[name]

    def _watch(self, now: int) -> None:
        """Detect long failures, and replicas that report more data but send nothing."""
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
            and curr not in self._leaving
            and not self._replaying
            and not self._suspects
            and status is not None
            and self._state(curr) is State.STABLE
            and self.have >= status.trimmed_upto
            and self.head - status.end <= self.options.lag_buckets
        )

    def _second(self, choice: Choice) -> str | None:
        """A standby: another replica in a state like that of `Curr`, if there is one.

        The standby of a stable replica is stable too: tentative tuples of another one are not
        wanted while `Curr` has better ones.
        """
        states = {name: m.state(self.stream) for name, m in self.monitors.items()}
        curr = states.pop(choice.curr)
        match curr:
            case State.STABLE | State.FAILURE:
                alike = {State.STABLE} & {curr}
            case State.UP_FAILURE if self.options.staggered:
                alike = {State.UP_FAILURE}  # put no load on replicas that stabilise
            case _:
                alike = {State.UP_FAILURE, State.STABILIZATION}
        found = [
            n
            for n, state in states.items()
            if state in alike and self._gives(n) and n not in self._leaving
        ]
        return min(found, key=lambda n: (states[n], -self._order[n]), default=None)

    def _look(self) -> None:
        """Update `healthy`, `failed` and `missing` from the states of all replicas."""
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
        """The last bucket for which the input buffer has room."""
        return self.released + self.options.input_window

    @property
    def waits_for_more(self) -> bool:
        """Whether the sender of the log has more but may be waiting for a confirmation."""
        return self.have >= self._confirmed + self.options.send_window // 2 and self.have < min(
            self.end(self.log_from), self.room
        )

    def want(self, name: str, acknowledged: int, now: int) -> SubscriptionState:
        """The subscription to ask of a replica."""
        if name == self.log_from:
            self._confirmed = self.have
        # Tentative tuples are always requested from `Curr`: a stable replica may have to release
        # a bucket early, and the next heartbeat would ask for it too late.
        curr = name == self.choice.curr
        overlay = curr or name == self.standby
        stuck = self.have >= self.room or self.gone_upto is not None
        forgot = name != self.log_from and self._forgot(name)
        head = curr and (name in self._replaying or stuck or forgot)
        return SubscriptionState(
            self.stream,
            name == self.log_from or (self.hedged and name == self.standby),
            overlay,
            head,
            self.have,
            self.tentative,
            acknowledged,
            self.room,
            self.reader,
            self.read_digest,
        )
