"""One output of a node: its lanes, its phase, and the release of its buckets.

The stable lane processes buckets that are stable on every input; its log only ever
holds stable tuples. When a bucket must be released before it is stable, a tentative
lane is forked, and all of its output lies beyond the end of the log. When the log
has caught up, the fork is dropped. So there is nothing to roll back: the state from
before the failure is never changed (checkpoint/redo without checkpoints, thesis
4.7.1 and 5.5.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from australis.kernel.machine import Effect, SetTimer
from australis.protocols.dpc.blocking import Box, blocked
from australis.protocols.dpc.digests import Comparison, Digests
from australis.protocols.dpc.effects import (
    AnnounceDifference,
    AnnounceLoss,
    AnnouncePhase,
    Checkpoint,
    Checkpointed,
    DropLane,
    ForkLane,
    RememberSources,
    RestoredLog,
    Rewired,
    RunStable,
    RunTentative,
    SkipAhead,
    StableDone,
    TentativeDone,
)
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.loss import Loss
from australis.protocols.dpc.messages import (
    Bucket,
    LogDigest,
    NoSnapshot,
    PeerDigest,
    StreamStatus,
)
from australis.protocols.dpc.missing import Lacking, Missing, union
from australis.protocols.dpc.options import Deadline, DpcOptions, Policy
from australis.protocols.dpc.states import TRANSITIONS, Phase, State, Trigger
from australis.protocols.dpc.subscribers import Overlay, Subscribers


@dataclass(frozen=True)
class OutputConfig:
    """The configuration of an output: its inputs and its consumers."""

    stream: str
    inputs: tuple[str, ...]
    consumers: tuple[str, ...]
    """The nodes that read it, each with its reader where it has several (`reader_key`)."""
    boxes: tuple[Box, ...] = ()
    """The operators between its inputs and itself, in order, as far as blocking is concerned."""
    hops_ahead: int = 1
    """The number of hops from this node to the furthest client."""
    span: int | None = None
    """The number of buckets that its state reaches back; None if it is not convergent-capable
    (4.1.3)."""
    results: Mapping[str, int] = field(default_factory=dict)
    """The results that depend on it, and the hops to the clients of each; empty: itself only."""
    origins: tuple[tuple[str, ...], ...] = ()
    """The original sources of each input; without them each input counts as a source."""

    def patience_us(self, options: DpcOptions) -> int | None:
        """The time after its entry at which a bucket is released tentatively; None: never.

        Each result has its accepted delay, and the hops to its clients take a part of that: the
        most urgent one decides.
        """
        ahead = self.results or {self.stream: self.hops_ahead}
        delays = ((options.delay_of(result), hops) for result, hops in ahead.items())
        waits = (delay - hops * options.hop_us for delay, hops in delays if delay is not None)
        return min(waits, default=None)

    def blocked(self, missing: Iterable[str]) -> bool:
        """Whether it has no tuples while these inputs are missing (thesis, appendix A)."""
        gone = blocked(self.boxes, missing)
        return self.stream in gone or gone.issuperset(self.inputs)


@dataclass(frozen=True)
class ReplicaConfig:
    """The configuration of a node: its streams, its producers and its peers."""

    name: str
    producers: dict[str, tuple[str, ...]]
    """The replicas that produce each input, the preferred one first."""
    outputs: tuple[OutputConfig, ...]
    peers: tuple[str, ...] = ()
    """The other replicas of its fragments, which have a state that it may need."""
    joining: bool = False
    """Whether it begins without a state, which it takes once its inputs are kept for it."""


class Output:
    """One stream that a node produces."""

    subscribers_class = Subscribers

    def __init__(self, config: OutputConfig, inputs: Iterable[Input], options: DpcOptions) -> None:
        self.config = config
        self.stream = config.stream
        self.inputs = tuple(inputs)
        self.options = options
        self.patience_us = config.patience_us(options)
        self.phase = Phase.RECOVERING
        self.subscribers = self.subscribers_class.of(config.stream, config.consumers, options)
        self.upto = self.trimmed_upto = self.end = self.checkpointed = -1
        self.fits_after = -1
        """The bucket after which its log fits its bytes."""
        self.restored_upto = -1
        """The end of its log when this incarnation began."""
        self.converges_at = -1
        """The bucket by which its state is right again after a restart with an empty one."""
        self.busy = False
        self.state_lost = False
        self.loss = self._loss("", ())
        """What is known of its state while that is lost."""
        self.installing = False
        """Whether a replica's snapshot is being installed, during which others are ignored."""
        self.forked = False
        self.overlay = Overlay(0, {})
        self.tentative_upto = -1
        self.granted = False
        """Whether it is this node's turn to reconcile, where replicas take turns."""
        self.corrects_upto = -1
        """The last tentative bucket at the time its turn to reconcile began."""
        self.digests = Digests()
        self.comparison = Comparison((), self.digests, votes=True)
        """Whether the peers' logs are equal to its own."""
        self.said: Bucket | None = None
        """The last tentative bucket that its lane has put out."""
        self._lacking = Lacking(config.span)
        self._lacks: dict[int, Missing] = {}
        """What is missing in the tentative buckets that the lane has not put out yet."""
        self._arrived: dict[int, int] = {}
        self._batches = 0
        self._began_us = 0
        self._begun: int | None = None
        """The end of the first micro-batch of this incarnation, if it must be a given one."""
        self.pushed_back = False
        """Whether a full log has ever held its lane back (back-pressure)."""
        self._took_us = self._took = 0
        """The duration of the stable lane's last micro-batch, and its number of buckets."""

    # --- what happened ----------------------------------------------------------------

    def restored(self, lane: RestoredLog) -> None:
        """Continue from the log and checkpoint on disk."""
        self.upto = self.checkpointed = lane.upto
        self.trimmed_upto, self.end = lane.trimmed_upto, lane.end
        self.fits_after = lane.fits_after
        self._begun = lane.begun
        self._renumber(lane.digest)
        if self.config.span is not None:
            self.converges_at = lane.trimmed_upto if lane.digest is None else lane.digest.base

    def restart_inputs(self) -> None:
        """Read every input from where the checkpoint ends."""
        for one in self.inputs:
            one.restart_after(self.checkpointed)

    def begin_incarnation(self, incarnation: int) -> None:
        """Give the overlays of this incarnation epochs above those of every earlier one."""
        self.overlay = Overlay.before_any(incarnation)

    def stable_done(self, event: StableDone, now: int) -> None:
        """The log has grown; the overlay's version of these buckets no longer counts."""
        self.busy = False
        self._took_us = now - self._began_us
        self._took = max(1, event.upto - self.upto)
        self.upto, self.end, self.fits_after = event.upto, event.end, event.fits_after
        self.digests.extend(event.digests, event.end)
        for number in [n for n in self.overlay.buckets if n <= self.end]:
            del self.overlay.buckets[number]
        for number in [n for n in self._arrived if n <= self.upto]:
            del self._arrived[number]

    def checkpoint(self) -> list[Effect]:
        """Request a checkpoint every `checkpoint_batches` micro-batches or `batch_buckets` buckets.

        Buckets count because upstream logs that are full of unacknowledged buckets push back,
        and then no further micro-batch would come.
        """
        self._batches += 1
        far = self.upto - self.checkpointed >= self.options.batch_buckets
        if self._batches % self.options.checkpoint_batches and not far:
            return []
        return [Checkpoint(self.stream)]

    def checkpoint_done(self, event: Checkpointed) -> None:
        """The lane's state is durable up to a bucket."""
        self.checkpointed = max(self.checkpointed, event.upto)

    def tentative_done(self, event: TentativeDone) -> None:
        """Add a bucket of the tentative lane to the overlay, unless the log has overtaken it."""
        if self.forked and event.epoch == self.overlay.epoch and event.bucket > self.end:
            missing = self._lacks.pop(event.bucket, ())
            bucket = Bucket(event.bucket, event.entered_us, event.batch, missing=missing)
            self.overlay.buckets[event.bucket] = self.said = bucket
            while len(self.overlay.buckets) > self.options.input_window:
                del self.overlay.buckets[next(iter(self.overlay.buckets))]

    # --- the phase ------------------------------------------------------------------------

    @property
    def target(self) -> int:
        """The last bucket that is stable on every input."""
        return min(i.have for i in self.inputs)

    @property
    def held_back_by(self) -> Input:
        """The input whose boundary holds back this output."""
        return min(self.inputs, key=lambda one: one.have)

    @property
    def permitted(self) -> bool:
        """Whether tentative output may be corrected now."""
        return self.granted or not self.options.staggered

    @property
    def wants_to_reconcile(self) -> bool:
        """Whether stable inputs of the tentative output have arrived.

        Not all inputs need to be back: corrections can be made as far as they reach.
        """
        return self.forked and self.phase is Phase.UP_FAILURE and self.target > self.upto

    def advance_phase(self) -> list[Effect]:
        """Make the phase changes that are due now."""
        healthy = all(i.healthy for i in self.inputs)
        match self.phase:
            case Phase.RECOVERING:
                if not self.state_lost and not self.left_behind and self._caught_up():
                    return self._go(Trigger.CAUGHT_UP if healthy else Trigger.CAUGHT_UP_FAILING)
            case Phase.STABLE if not healthy:
                return self._go(Trigger.INPUT_FAILED)
            case Phase.UP_FAILURE:
                return self._turn_from_failure(healthy)
            case Phase.STABILIZATION:
                if any(i.failed for i in self.inputs) or self.left_behind:
                    return self._go(Trigger.FAILED_AGAIN) + self._drop()
                overtaken = self.forked and self.upto >= self.tentative_upto
                effects = self._drop() if overtaken else []
                if healthy and not self.forked and self._current:
                    effects += self._go(Trigger.CORRECTED)
                return effects
        return []

    def _turn_from_failure(self, healthy: bool) -> list[Effect]:
        if not self.forked:
            return self._go(Trigger.MASKED) if healthy and self._current else []
        if self.upto >= self.tentative_upto:
            return self._drop()
        back = not any(i.failed for i in self.inputs)
        if back and self.wants_to_reconcile and self.permitted:
            self.corrects_upto = self.tentative_upto
            return self._go(Trigger.RECONCILING)
        return []

    @property
    def reconciles(self) -> bool:
        """Whether tentative output from before its turn is still to be corrected."""
        return self.phase is Phase.STABILIZATION and self.upto < self.corrects_upto

    @property
    def _current(self) -> bool:
        """Whether corrections have caught up with normal execution (4.7.2)."""
        near = self.options.near_buckets
        return self.upto >= self.target - near and all(i.have >= i.head - near for i in self.inputs)

    def _caught_up(self) -> bool:
        """Whether a node that was down has processed everything that it can get."""
        known = all(m.heard or m.failed for i in self.inputs for m in i.monitors.values())
        near = self.options.near_buckets - 1
        return (
            known
            and self.upto >= self.target - near
            and all(
                i.missing or i.gone_upto is not None or i.have >= min(i.head - near, i.room)
                for i in self.inputs
            )
        )

    def _go(self, trigger: Trigger) -> list[Effect]:
        was, self.phase = self.phase, TRANSITIONS[self.phase, trigger]
        return [AnnouncePhase(self.stream, was, trigger, self.phase)]

    def _drop(self) -> list[Effect]:
        epoch = self.overlay.epoch
        self.forked = False
        self.said = None
        self.overlay = Overlay(epoch, {})
        self.subscribers.overlay_anew(self.end)
        return [DropLane(self.stream, epoch)]

    @property
    def idle(self) -> bool:
        """Whether the output needs no work until its next event."""
        return (
            self.phase is Phase.STABLE
            and self.upto >= self.target
            and all(i.healthy for i in self.inputs)
            and (self.keeps is None or all(i.gone_upto is None for i in self.inputs))
        )

    @property
    def left_behind(self) -> bool:
        """Whether upstream logs no longer hold the next bucket, though logs are not bounded.

        They truncate what every consumer has acknowledged; a node that lost its disk since then,
        or restored an older state, needs a newer one. So does one whose producers have all lost
        their state and begun anew.
        """
        return self.keeps is None and any(i.forgotten for i in self.inputs)

    def lose_state(self) -> list[Effect]:
        """Give up the state of this output and wait for a replica's snapshot."""
        effects = self._drop() if self.forked else []
        self.state_lost = True
        self.loss.restart()
        return effects + self._begin_anew()

    def _begin_anew(self) -> list[Effect]:
        effects = self._go(Trigger.INPUT_FAILED) if self.phase is Phase.STABLE else []
        return effects + self._go(Trigger.SKIPPED)

    # --- a state that no replica has (4.8, 5.8.5) -----------------------------------------------

    def _loss(self, name: str, peers: Iterable[str]) -> Loss:
        stall_us, lease = self.options.stall_us, self.options.leases.get(name)
        lease_us = None if lease is None else lease.silence_us
        return Loss(name, tuple(peers), stall_us, 4 * stall_us, lease_us)

    def share_with(self, name: str, peers: Iterable[str]) -> None:
        """Compute the same as these other replicas of the fragment, under this name."""
        self.comparison = Comparison(peers, self.digests, votes=True)
        self.loss = self._loss(name, peers)

    def rewire(self, config: OutputConfig, name: str, event: Rewired, now: int) -> None:
        """Serve the consumers of a new deployment, beside the peers of that."""
        assert isinstance(event.wiring, ReplicaConfig)
        peers, lease = event.wiring.peers, event.leases.get(name)
        self.config = config
        self.subscribers.rewire(config.consumers, event.joining, event.leases, now)
        self.comparison.among(peers)
        self.loss.among(peers, None if lease is None else lease.silence_us)

    @property
    def can_help(self) -> bool:
        """Whether its checkpoint is of use to a replica that lost its own."""
        return not self.state_lost and self.checkpointed >= max(0, self.converges_at)

    @property
    def no_snapshot(self) -> NoSnapshot:
        """The answer to a replica that it cannot help."""
        anew = not self.state_lost and self.checkpointed < self.converges_at
        return NoSnapshot(self.stream, self.state_lost, self.converges_at if anew else -1)

    def go_on_without(self, now: int) -> list[Effect]:
        """Go on without the state that is lost, where no replica can give it; or say that it cannot.

        Where logs still hold the next bucket of every input it goes on with the state it has.
        """
        if not self.state_lost or self.installing or self.busy:
            return []
        self.loss.noticed(now)
        gone = [(i.stream, upto) for i in self.inputs if (upto := i.gone_upto) is not None]
        known = all(i.forgotten or i.goes_on for i in self.inputs)
        silent = self.loss.silent(now)
        if not known or silent:
            self.loss.is_open()
            due = known and self.loss.waits_too_long(now)
            return [AnnounceLoss(self.stream, tuple(gone), tuple(silent))] if due else []
        if not gone:
            return self._resume()
        if self.config.span is None:
            due = self.loss.is_for_good(now)
            return [AnnounceLoss(self.stream, tuple(gone))] if due else []
        after = self._begins_after(self.config.span, max(upto for _, upto in gone), now)
        read_on = self.subscribers.read_on(self.end, now, self.options.stall_us)
        if after is None or read_on:
            return []
        self.state_lost = False
        return self._begin_after(after, self.config.span)

    def _resume(self) -> list[Effect]:
        self.state_lost = False
        if self.digests.base is None:  # there was no log at all
            self._renumber(LogDigest(self.end, self.end, 0))
        for one in self.inputs:
            one.restart_after(self.upto)
        return []

    def _begins_after(self, span: int, gone_upto: int, now: int) -> int | None:
        """The bucket after which to begin with an empty state; None if that is not known yet."""
        told = self.loss.right_from
        if told is None:
            return gone_upto if self.loss.decides(now) else None
        heads = min(one.head for one in self.inputs)
        return told - span if gone_upto <= told - span <= heads else None

    # --- bounded logs (4.9.4) -------------------------------------------------------------

    @property
    def keeps(self) -> int | None:
        """The number of buckets that its log keeps; None if it keeps all unacknowledged ones."""
        return None if self.config.span is None else self.options.keep_log

    def skip(self) -> list[Effect]:
        """Restart the stable lane where no replica has the next bucket of an input any more.

        A tentative lane continues meanwhile; without one, the output is RECOVERING.
        """
        gone = [upto for i in self.inputs if (upto := i.gone_upto) is not None]
        ready = all(i.healthy for i in self.inputs) and not self.busy and not self.state_lost
        if not gone or self.keeps is None or not ready:
            return []
        assert self.config.span is not None
        effects = [] if self.forked else self._begin_anew()
        return effects + self._begin_after(max(gone), self.config.span)

    def _begin_after(self, bucket: int, span: int) -> list[Effect]:
        """Restart the stable lane with an empty state, and the log where that is right again."""
        self.upto = self.checkpointed = bucket
        self.trimmed_upto = self.end = max(self.end, bucket + span)
        self.converges_at = self.trimmed_upto
        self._renumber(LogDigest(self.end, self.end, 0))
        for one in self.inputs:
            one.skip_to(self.upto)
        self.busy = True  # until the lane has restarted
        return [SkipAhead(self.stream, self.upto, self.trimmed_upto)]

    def skipped_ahead(self) -> None:
        """The stable lane has restarted and can work again."""
        self.busy = False

    # --- whether replicas' logs are equal -------------------------------------------------

    def _renumber(self, digest: LogDigest | None) -> None:
        """Its log is another one now, with this digest up to its end."""
        self.digests.restart(digest)
        self.comparison.forget()

    def digest_for(self, peer: str) -> PeerDigest | None:
        """What to tell a peer of the log's digest; None if it is not known."""
        end = self.comparison.ends.get(peer, self.end)
        digest = self.digests.point(min(end, self.end)) or self.digests.point(self.end)
        return None if digest is None else PeerDigest(self.stream, self.end, digest)

    def peer_told(self, peer: str, told: PeerDigest) -> list[Effect]:
        """Compare a peer's log with its own; a difference, or its end, is announced."""
        self.comparison.ends[peer] = told.end
        self.comparison.compare(peer, told.digest)
        news = self.comparison.news
        return [] if news is None else [AnnounceDifference(self.stream, "", *news)]

    # --- what others are told (appendix A) ----------------------------------------------

    @property
    def state(self) -> State:
        """The state to advertise (figure A-1)."""
        if self.phase is Phase.RECOVERING or self.comparison.stops:
            return State.FAILURE
        if self.phase is Phase.STABILIZATION:
            return State.STABILIZATION
        if self.config.blocked([i.stream for i in self.inputs if i.missing]):
            return State.FAILURE
        return State.STABLE if self.phase is Phase.STABLE else State.UP_FAILURE

    @property
    def available(self) -> bool:
        """Whether new tuples are processed.

        Where replicas take turns, a node that stabilises leaves new tuples to the other replicas
        while no consumer subscribes to its overlay.
        """
        suspends = self.options.staggered and not self.subscribers.want_overlay
        return self.phase is not Phase.STABILIZATION or not suspends

    def status(self, have: int | None = None, *, holds: bool = True) -> StreamStatus:
        """The status with which the heartbeat of a consumer is answered that has this bucket, and
        for which the log `holds` what it has not acknowledged."""
        runs = self.phase is not Phase.RECOVERING and not self.comparison.stops
        return StreamStatus(
            self.stream,
            self.state,
            self.trimmed_upto,
            self.end,
            overlay=runs and self.available,
            digest=self.digests.point(self.end if have is None else min(have, self.end)),
            restored_upto=self.restored_upto,
            holds=holds,
        )

    # --- the lanes --------------------------------------------------------------------------

    def run_stable(self, now: int) -> list[Effect]:
        """Let the stable lane process what is stable on all inputs."""
        waits = self._awaits_turn and not self._holds_up
        self.pushed_back |= self.full
        if self.busy or waits or self.full or self.state_lost or self.target <= self.upto:
            return []
        if self.comparison.stops:
            return []
        if self._begun is not None and self.target < self._begun:
            return []
        self.busy = True
        self._began_us = now
        upto = min(self.target, self.upto + self._batch_size)
        if self._begun is not None:
            upto, self._begun = self._begun, None
        inputs = tuple(i.stable.between(self.upto, upto) for i in self.inputs)
        run = RunStable(self.stream, self.upto, upto, self.end, inputs)
        return [*self._remember(upto), run]

    def _remember(self, upto: int) -> list[Effect]:
        """Keep what its log will rest on, before it does: a checkpoint may come much later."""
        known = ((i.stream, i.digests.point(upto)) for i in self.inputs if i.from_source)
        read = tuple((stream, digest) for stream, digest in known if digest is not None)
        return [RememberSources(self.stream, read)] if read else []

    @property
    def full(self) -> bool:
        """Whether its log has no room, so that its lane waits (back-pressure, 4.9.4)."""
        return self.trimmed_upto < self.full_upto

    @property
    def full_upto(self) -> int:
        """The bucket up to which its log must be trimmed to have room."""
        return self.subscribers.bounds.full_upto(self.end, self.fits_after)

    @property
    def _awaits_turn(self) -> bool:
        return self.forked and self.phase is Phase.UP_FAILURE and not self.permitted

    @property
    def _holds_up(self) -> bool:
        """Whether full upstream logs may be waiting for this node alone (back-pressure)."""
        return self.options.bounded and any(i.have >= i.room for i in self.inputs)

    @property
    def _batch_size(self) -> int:
        """The largest number of buckets for the next micro-batch.

        Beside a tentative lane new tuples must not wait for a long micro-batch of corrections;
        but a batch takes buckets at twice the rate of new ones, or the lane would never catch up.
        """
        options = self.options
        beside = self.forked or self.phase is Phase.STABILIZATION
        each = self._took_us // max(1, self._took)
        if not beside or not each:
            return options.batch_buckets
        fit = options.correction_us // each
        gain = 2 * self._took_us // options.bucket_us
        if self._took_us <= options.correction_us:
            fit = max(fit, options.correction_growth * self._took)
        return max(1, min(options.batch_buckets, max(fit, gain)))

    def release(self, now: int) -> list[Effect]:
        """Release buckets tentatively whose deadline comes before they are stable."""
        effects: list[Effect] = []
        if self.phase is Phase.RECOVERING or self._suspended or self.comparison.stops:
            return effects
        if self.options.deadline is Deadline.PER_NODE:
            self._note_arrivals(now)
        while True:
            number = max(self.tentative_upto, self.upto) + 1 if self.forked else self.upto + 1
            number = self._first_known(number)
            due = self._due(number, now)
            if due is None:
                return effects
            if due > now:
                effects.append(SetTimer(f"release {self.stream}", due))
                return effects
            effects += self._release(number)

    def _note_arrivals(self, now: int) -> None:
        """Record the arrival of every bucket, from which the thesis' delay counts."""
        for one in self.inputs:
            for number in (*one.stable, *one.overlay):
                if number > self.upto:
                    self._arrived.setdefault(number, now)

    def _first_known(self, number: int) -> int:
        """This bucket, or the next one that any input knows.

        A node that was down has missed tentative tuples for good; it continues with what
        is available (gaps among tentative tuples are legal, 4.11.2).
        """
        if number <= self.target or any(i.bucket(number) is not None for i in self.inputs):
            return number
        return min((n for i in self.inputs for n in i.known_from(number)), default=number)

    @property
    def _suspended(self) -> bool:
        if self.patience_us is None:
            return True
        if self.phase is Phase.STABILIZATION:
            return self.options.stabilization is Policy.SUSPEND or not self.available
        return False

    def _due(self, number: int, now: int) -> int | None:
        """The time to release a bucket tentatively; None if it is not to be released so."""
        there = [i.bucket(number) for i in self.inputs]
        known = [b for b in there if b is not None]
        if not known or self._stable_soon(number):
            return None
        deadline = self._deadline(number, known, now)
        if not self.forked:
            return deadline
        stabilising = self.phase is Phase.STABILIZATION
        policy = self.options.stabilization if stabilising else self.options.up_failure
        ready = all(b is not None or i.missing for b, i in zip(there, self.inputs, strict=True))
        if policy is Policy.PROCESS and ready:
            return now
        # If this node fails now, its consumers need time to detect that and to switch.
        per_node = self.options.deadline is Deadline.PER_NODE
        return deadline if per_node else deadline - self.options.stall_us

    def _stable_soon(self, number: int) -> bool:
        """Whether the stable lane will process a bucket soon."""
        if number > self.target:
            return False
        if self._awaits_turn:
            return False
        behind = self.forked or self.phase is Phase.STABILIZATION
        return not behind or number - self.upto <= self.options.near_buckets

    def _deadline(self, number: int, known: list[Bucket], now: int) -> int:
        options = self.options
        if options.deadline is Deadline.PER_NODE:
            return self._arrived.setdefault(number, now) + options.max_delay_us
        entered = min(b.entered_us for b in known)
        assert self.patience_us is not None
        deadline = entered + self.patience_us
        if not self.forked and all(i.healthy for i in self.inputs):
            # All inputs have a stable replica again: an overdue bucket waits briefly for the
            # replays of the other inputs, which are in flight.
            arrived = self._arrived.setdefault(number, now)
            return max(deadline, arrived + 2 * options.heartbeat_us)
        return deadline

    def _release(self, number: int) -> list[Effect]:
        effects: list[Effect] = []
        if self.phase is Phase.STABLE:
            effects += self._go(Trigger.RELEASED_EARLY)
        if not self.forked:
            self.forked = True
            self.overlay = Overlay(self.overlay.epoch + 1, {})
            effects.append(ForkLane(self.stream, self.overlay.epoch))
            self._lacking, self._lacks = Lacking(self.config.span), {}
            self.tentative_upto = self.upto
        missing = self._lacks[number] = self._missing_in(number)
        self.tentative_upto = number
        entered = min(b.entered_us for i in self.inputs if (b := i.bucket(number)) is not None)
        inputs = tuple(i.spans(number) for i in self.inputs)
        epoch = self.overlay.epoch
        effects.append(RunTentative(self.stream, epoch, number, entered, inputs, missing))
        return effects

    def _missing_in(self, number: int) -> Missing:
        """What is missing in a bucket that the tentative lane is given next.

        Buckets between the last one and this one were not known from any input.
        """
        inputs = self.inputs
        origins = self.config.origins or tuple((one.stream,) for one in inputs)
        if number - 1 > self.tentative_upto:
            everything = {s for those in origins for s in those}
            self._lacking.add(self.tentative_upto, number - 1, (), everything)
        there = [one.bucket(number) for one in inputs]
        inherited = union(b.missing for b in there if b is not None)
        gone = {s for b, those in zip(there, origins, strict=True) if b is None for s in those}
        return self._lacking.add(number - 1, number, inherited, gone)

    # --- what is sent ---------------------------------------------------------------------

    def send(self, only: str | None = None) -> list[Effect]:
        """Everything that is to be sent to all consumers, or to one of them, now."""
        if self.comparison.stops:
            return []
        them, trimmed_upto, end = self.subscribers, self.trimmed_upto, self.end
        effects = them.due(trimmed_upto, end, settled=not self.forked, only=only)
        if self.patience_us is None:
            return effects
        if self.forked:
            return effects + them.overlay_due(self.overlay, only)
        return effects + them.head_due(trimmed_upto, end, self.options.input_window, only)
