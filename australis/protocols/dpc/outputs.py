"""One output of a node: its lanes, its phase, and when a bucket is released.

The stable lane processes buckets that are stable on every input; its log only ever
holds stable tuples. When a bucket must be released before it is stable, a tentative
lane forks off, and everything it says lies beyond the end of the log. When the log
has caught up, the fork is dropped. So there is nothing to roll back: the state from
before the failure was never touched (checkpoint/redo without checkpoints, thesis
4.7.1 and 5.5.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from australis.kernel.machine import Effect, SetTimer
from australis.protocols.dpc.effects import (
    Checkpoint,
    Checkpointed,
    DropLane,
    ForkLane,
    LaneRestored,
    RunStable,
    RunTentative,
    SkipAhead,
    StableDone,
    TentativeDone,
)
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import Bucket, StreamStatus
from australis.protocols.dpc.options import Deadline, DpcOptions, Policy
from australis.protocols.dpc.states import TRANSITIONS, Phase, State, Turn
from australis.protocols.dpc.subscribers import Overlay, Subscribers


@dataclass(frozen=True)
class OutputConfig:
    """What is fixed about an output: who computes it from what, and who reads it."""

    stream: str
    inputs: tuple[str, ...]
    consumers: tuple[str, ...]
    """The nodes that read it, each with its reader where it has several (`reader_key`)."""
    blocking: frozenset[str] = frozenset()
    """Inputs that lead through a blocking operator, such as a join (thesis 4.1.3)."""
    hops_ahead: int = 1
    """How many hops a tuple still has to go from here to the client."""
    span: int | None = None
    """So many buckets back its state reaches; None if it is not convergent-capable (4.1.3)."""


class Output:
    """One stream that a node produces."""

    subscribers_class = Subscribers

    def __init__(self, config: OutputConfig, inputs: Iterable[Input], options: DpcOptions) -> None:
        self.config = config
        self.stream = config.stream
        self.inputs = tuple(inputs)
        self.options = options
        self.phase = Phase.RECOVERING
        self.turns: list[tuple[Phase, Turn]] = []
        """The turns of this life, for whoever counts them."""
        self.subscribers = self.subscribers_class(
            config.stream, config.consumers, options.send_window
        )
        self.upto = self.begins = self.end = self.checkpointed = -1
        self.converges_at = -1
        """Where its state is right again after it began anew with an empty one (4.9.4)."""
        self.busy = False
        self.state_lost = False
        self.installing = False
        """Whether a replica's state is being made its own; another one must not come between."""
        self.forked = False
        self.overlay = Overlay(0, {})
        self.tentative_upto = -1
        self.granted = False
        """Whether it is this node's turn to reconcile, where replicas take turns."""
        self.corrects_upto = -1
        """What it had said tentatively when its turn to reconcile came."""
        self._arrived: dict[int, int] = {}
        self._batches = 0
        self._began_us = 0
        self._begun: int | None = None
        """How far the first micro-batch of this life must reach."""
        self.pushed_back = False
        """Whether its full log ever held its lane up."""
        self._took_us = self._took = 0
        """How long the stable lane took for its last micro-batch, and how many buckets it had."""

    # --- what happened ----------------------------------------------------------------

    def restored(self, lane: LaneRestored) -> None:
        """Go on from what was on disk."""
        self.upto = self.checkpointed = lane.upto
        self.begins, self.end = lane.begins, lane.end
        self._begun = lane.begun
        if self.keeps is not None:
            self.converges_at = lane.begins

    def restart_inputs(self) -> None:
        """Read every input from where the checkpoint ends."""
        for one in self.inputs:
            one.restart_after(self.checkpointed)

    def begin_life(self, life: int) -> None:
        """Number the overlays of this life so that none is taken for an earlier one."""
        self.overlay = Overlay(life << 20, {})

    def stable_done(self, event: StableDone, now: int) -> None:
        """The log has grown; what the overlay said of these buckets no longer counts."""
        self.busy = False
        self._took_us = now - self._began_us
        self._took = max(1, event.upto - self.upto)
        self.upto, self.end = event.upto, event.end
        for number in [n for n in self.overlay.buckets if n <= self.end]:
            del self.overlay.buckets[number]
        for number in [n for n in self._arrived if n <= self.upto]:
            del self._arrived[number]

    def checkpoint(self) -> list[Effect]:
        """Make the lane's state durable now and then.

        By buckets too: upstream logs that are full of what is not acknowledged push back, and
        then no further batch would come.
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
        """The tentative lane has something to say, unless it was overtaken."""
        if self.forked and event.epoch == self.overlay.epoch and event.bucket > self.end:
            bucket = Bucket(event.bucket, event.entered_us, event.batch)
            self.overlay.buckets[event.bucket] = bucket
            while len(self.overlay.buckets) > self.options.input_window:
                del self.overlay.buckets[next(iter(self.overlay.buckets))]

    # --- the phase ------------------------------------------------------------------------

    @property
    def target(self) -> int:
        """The last bucket that is stable on every input."""
        return min(i.have for i in self.inputs)

    @property
    def permitted(self) -> bool:
        """Whether what was said tentatively may be corrected now."""
        return self.granted or not self.options.staggered

    @property
    def wants_to_reconcile(self) -> bool:
        """Whether stable inputs are here for what was said tentatively.

        Not all inputs need to be back: as far as they reach, corrections can be made.
        """
        return self.forked and self.phase is Phase.UP_FAILURE and self.target > self.upto

    def turn(self) -> list[Effect]:
        """Change the phase where it is time to."""
        healthy = all(i.healthy for i in self.inputs)
        match self.phase:
            case Phase.RECOVERING:
                if not self.state_lost and not self.left_behind and self._caught_up():
                    self._go(Turn.CAUGHT_UP if healthy else Turn.CAUGHT_UP_FAILING)
            case Phase.STABLE if not healthy:
                self._go(Turn.INPUT_FAILED)
            case Phase.UP_FAILURE:
                return self._turn_from_failure(healthy)
            case Phase.STABILIZATION:
                if any(i.failed for i in self.inputs) or self.left_behind:
                    self._go(Turn.FAILED_AGAIN)
                    return self._drop()
                overtaken = self.forked and self.upto >= self.tentative_upto
                effects = self._drop() if overtaken else []
                if healthy and not self.forked and self._current:
                    self._go(Turn.CORRECTED)
                return effects
        return []

    def _turn_from_failure(self, healthy: bool) -> list[Effect]:
        if not self.forked:
            if healthy and self._current:
                self._go(Turn.MASKED)
            return []
        if self.upto >= self.tentative_upto:
            return self._drop()
        back = not any(i.failed for i in self.inputs)
        if back and self.wants_to_reconcile and self.permitted:
            self._go(Turn.RECONCILING)
            self.corrects_upto = self.tentative_upto
        return []

    @property
    def reconciles(self) -> bool:
        """Whether it has yet to correct what it had said when its turn came."""
        return self.phase is Phase.STABILIZATION and self.upto < self.corrects_upto

    @property
    def _current(self) -> bool:
        """Whether corrections have caught up with normal execution (4.7.2)."""
        near = self.options.near_buckets
        return self.upto >= self.target - near and all(i.have >= i.head - near for i in self.inputs)

    def _caught_up(self) -> bool:
        """Whether a node that was down has processed all it can get."""
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

    def _go(self, turn: Turn) -> None:
        self.turns.append((self.phase, turn))
        self.phase = TRANSITIONS[self.phase, turn]

    def _drop(self) -> list[Effect]:
        epoch = self.overlay.epoch
        self.forked = False
        self.overlay = Overlay(epoch, {})
        self.subscribers.overlay_anew(self.end)
        return [DropLane(self.stream, epoch)]

    @property
    def idle(self) -> bool:
        """Whether nothing can have changed without an event of its own."""
        return (
            self.phase is Phase.STABLE
            and self.upto >= self.target
            and all(i.healthy for i in self.inputs)
            and (self.keeps is None or all(i.gone_upto is None for i in self.inputs))
        )

    @property
    def left_behind(self) -> bool:
        """Whether upstream logs no longer hold what comes next, though they should.

        They forget what every consumer has acknowledged; a node that lost its disk since then
        and got an older state back needs a newer one.
        """
        return self.keeps is None and any(i.forgotten for i in self.inputs)

    def lose_state(self) -> list[Effect]:
        """What this node knows is of no more use; it waits for a replica's snapshot."""
        effects = self._drop() if self.forked else []
        self._begin_anew()
        self.state_lost = True
        return effects

    def _begin_anew(self) -> None:
        if self.phase is Phase.STABLE:
            self._go(Turn.INPUT_FAILED)
        self._go(Turn.SKIPPED)

    # --- bounded logs (4.9.4) -------------------------------------------------------------

    @property
    def keeps(self) -> int | None:
        """How many buckets its log keeps at most; None if all that is not acknowledged."""
        return None if self.config.span is None else self.options.keep_log

    def skip(self) -> list[Effect]:
        """Begin anew where no replica has the next bucket of an input any more.

        A tentative lane goes on meanwhile; without one, the node recovers.
        """
        gone = [upto for i in self.inputs if (upto := i.gone_upto) is not None]
        ready = all(i.healthy for i in self.inputs) and not self.busy and not self.state_lost
        if not gone or self.keeps is None or not ready:
            return []
        assert self.config.span is not None
        if not self.forked:
            self._begin_anew()
        self.upto = self.checkpointed = max(gone)
        self.begins = self.end = max(self.end, self.upto + self.config.span)
        self.converges_at = self.begins
        for one in self.inputs:
            one.skip_to(self.upto)
        return [SkipAhead(self.stream, self.upto, self.begins)]

    # --- what others are told (appendix A) ----------------------------------------------

    @property
    def state(self) -> State:
        """The state to advertise (figure A-1)."""
        if self.phase is Phase.RECOVERING:
            return State.FAILURE
        if self.phase is Phase.STABILIZATION:
            return State.STABILIZATION
        missing = [i for i in self.inputs if i.missing]
        blocked = any(i.stream in self.config.blocking for i in missing)
        if blocked or len(missing) == len(self.inputs):
            return State.FAILURE
        return State.STABLE if self.phase is Phase.STABLE else State.UP_FAILURE

    @property
    def available(self) -> bool:
        """Whether new tuples are processed.

        Where replicas take turns, a node that stabilises leaves them to the others: once each
        consumer has found one, and for as long as none comes back.
        """
        suspends = self.options.staggered and not self.subscribers.want_overlay
        return self.phase is not Phase.STABILIZATION or not suspends

    def status(self) -> StreamStatus:
        """What a heartbeat is answered with."""
        overlay = self.phase is not Phase.RECOVERING and self.available
        return StreamStatus(self.stream, self.state, self.begins, self.end, overlay)

    # --- the lanes --------------------------------------------------------------------------

    def run_stable(self, now: int) -> list[Effect]:
        """Let the stable lane go on as far as its inputs are stable."""
        waits = self._awaits_turn and not self._holds_up
        full = self.options.max_log is not None and self.end - self.begins >= self.options.max_log
        self.pushed_back |= full
        if self.busy or waits or full or self.state_lost or self.target <= self.upto:
            return []
        if self._begun is not None and self.target < self._begun:
            return []
        self.busy = True
        self._began_us = now
        upto = min(self.target, self.upto + self._batch_size)
        if self._begun is not None:
            upto, self._begun = self._begun, None
        return [RunStable(self.stream, self.upto, upto, self.end)]

    @property
    def _awaits_turn(self) -> bool:
        return self.forked and self.phase is Phase.UP_FAILURE and not self.permitted

    @property
    def _holds_up(self) -> bool:
        """Whether upstream logs, which push back, may be waiting for this node alone."""
        return self.options.max_log is not None and any(i.have >= i.room for i in self.inputs)

    @property
    def _batch_size(self) -> int:
        """How many buckets to take at once.

        Beside a tentative lane new tuples must not wait for a long micro-batch of corrections;
        but it takes buckets in twice as fast as new ones come, or it would never catch up.
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
        """Release buckets before they are stable, once they can wait no longer."""
        effects: list[Effect] = []
        if self.phase is Phase.RECOVERING or self._suspended:
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
        """The thesis' delay counts from a bucket's arrival, whether or not it is next."""
        for one in self.inputs:
            for number in (*one.stable, *one.overlay):
                if number > self.upto:
                    self._arrived.setdefault(number, now)

    def _first_known(self, number: int) -> int:
        """This bucket, or the next one of which any input has something.

        A node that was down has missed tentative tuples for good; it goes on with what
        there is (gaps among tentative tuples are legal, 4.11.2).
        """
        if number <= self.target or any(i.bucket(number) is not None for i in self.inputs):
            return number
        return min((n for i in self.inputs for n in i.known_from(number)), default=number)

    @property
    def _suspended(self) -> bool:
        if self.phase is Phase.STABILIZATION:
            return self.options.stabilization is Policy.SUSPEND or not self.available
        return self.options.up_failure is Policy.SUSPEND

    def _due(self, number: int, now: int) -> int | None:
        """When to release a bucket tentatively; None if it is not to be."""
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
        # Should this node fail now, its consumers need time to notice it and to switch.
        per_node = self.options.deadline is Deadline.PER_NODE
        return deadline if per_node else deadline - self.options.stall_us

    def _stable_soon(self, number: int) -> bool:
        """Whether the stable lane will process a bucket by itself before long."""
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
        deadline = entered + options.max_delay_us - self.config.hops_ahead * options.hop_us
        if not self.forked and all(i.healthy for i in self.inputs):
            # All replicas are back: a bucket that is overdue waits for the other inputs'
            # replays, which are on their way.
            arrived = self._arrived.setdefault(number, now)
            return max(deadline, arrived + 2 * options.heartbeat_us)
        return deadline

    def _release(self, number: int) -> list[Effect]:
        effects: list[Effect] = []
        if self.phase is Phase.STABLE:
            self._go(Turn.RELEASED_EARLY)
        if not self.forked:
            self.forked = True
            self.overlay = Overlay(self.overlay.epoch + 1, {})
            effects.append(ForkLane(self.stream, self.overlay.epoch))
        self.tentative_upto = number
        entered = min(b.entered_us for i in self.inputs if (b := i.bucket(number)) is not None)
        effects.append(RunTentative(self.stream, self.overlay.epoch, number, entered))
        return effects

    # --- what is sent ---------------------------------------------------------------------

    def send(self, only: str | None = None) -> list[Effect]:
        """Everything that consumers, or one of them, are to get now."""
        them, begins, end = self.subscribers, self.begins, self.end
        effects = them.due(begins, end, settled=not self.forked, only=only)
        if self.forked:
            return effects + them.overlay_due(self.overlay, only)
        return effects + them.head_due(begins, end, self.options.input_window, only)
