"""The options of DPC, and the relations that must hold between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from australis.kernel.durations import MILLISECOND, SECOND, format_duration
from australis.kernel.errors import UserError


class Policy(Enum):
    """The policy for new tuples while an input is missing (thesis 4.2)."""

    SUSPEND = "suspend"
    DELAY = "delay"
    PROCESS = "process"


class Deadline(Enum):
    """The point from which the accepted delay counts."""

    END_TO_END = "end-to-end"
    """The delay counts from the bucket's entry at the source, so the bound holds at any depth."""
    PER_NODE = "per-node"
    """The delay counts from the bucket's arrival at each SUnion, as in the thesis: a chain of k
    nodes adds up to k times D."""


class WhenFull(Enum):
    """What happens when a log is full."""

    WAIT = "wait"
    """Its lane or its source waits until consumers have acknowledged more."""
    SKIP = "skip"
    """It forgets what only absent consumers need, and waits for those that are there."""


@dataclass(frozen=True)
class LogBounds:
    """How long a log is kept, and how much of it."""

    keep_us: int = 0
    """The end of the stream that is kept although all consumers have acknowledged it."""
    max_buckets: int | None = None
    """The number of buckets that fill the log; None: no limit."""
    max_bytes: int | None = None
    """The number of bytes that fit the log: with more of them it is full; None: no limit."""
    full: WhenFull = WhenFull.WAIT

    @property
    def bounded(self) -> bool:
        """Whether the log can be full."""
        return self.max_buckets is not None or self.max_bytes is not None

    def full_upto(self, end: int, fits_after: int) -> int:
        """The bucket up to which a log that ends here must be trimmed to have room again.

        The buckets after `fits_after` fit its bytes.
        """
        return (
            fits_after if self.max_buckets is None else max(fits_after, end - self.max_buckets + 1)
        )


@dataclass(frozen=True)
class Lease:
    """How long logs wait for a consumer that is silent."""

    silence_us: int | None = None
    """The silence after which logs no longer wait; None: only a full log may stop waiting."""
    peers: tuple[str, ...] | None = None
    """The replicas from which it can get what it has missed: while all of them are silent too, logs
    wait. None: the consumer is told what is gone."""


@dataclass(frozen=True)
class DpcOptions:
    """The options of one application, the same at all its nodes."""

    bucket_us: int = 500 * MILLISECOND
    max_delay_us: int = 3 * SECOND
    """The accepted delay X, or with `Deadline.PER_NODE` the D of each SUnion."""
    delays: Mapping[str, int | None] = field(default_factory=dict)
    """The accepted delays of results with one of their own; None: they are never tentative."""
    deadline: Deadline = Deadline.END_TO_END
    hop_us: int = 100 * MILLISECOND
    """The time allowed for one hop: network, queueing and processing of a bucket."""
    up_failure: Policy = Policy.PROCESS
    stabilization: Policy = Policy.PROCESS
    staggered: bool = False
    """Whether replicas stabilise one after the other (4.7.3) instead of each in place."""
    hedged: bool = False
    """Whether replicas read the logs of two replicas of each input, and use the first copy."""
    heartbeat_us: int = 100 * MILLISECOND
    """The heartbeat interval, P2 of figure 4-10."""
    misses: int = 3
    """The largest number of unanswered heartbeats that does not mean failure, P1 of figure 4-10."""
    long_failure_us: int = 5 * SECOND
    """P3 of 4.7.4: after a failure longer than this (X at least) a stable replica first has to
    replay."""
    batch_buckets: int = 16
    """The largest number of buckets in a micro-batch of the stable lane."""
    correction_us: int = 100 * MILLISECOND
    """The target duration of a micro-batch of the stable lane beside a tentative lane; one that
    has to keep up with its inputs may exceed it."""
    correction_growth: int = 1
    """The factor by which a micro-batch of corrections may hold more buckets than the one before,
    if that one took at most `correction_us`: more than 1 where most of a batch's time is fixed."""
    near_buckets: int = 2
    """The lag behind its inputs, in buckets, at which the stable lane still counts as caught up:
    what arrives during one of its micro-batches."""
    checkpoint_batches: int = 1
    """The number of micro-batches of the stable lane from one checkpoint to the next."""
    input_window: int = 64
    """The largest number of buckets of an input that are buffered for the stable lane."""
    send_window: int = 16
    """The largest number of buckets in flight to a consumer that has not confirmed them."""
    log: LogBounds = LogBounds()
    """The bounds of every log that has none of its own."""
    logs: Mapping[str, LogBounds] = field(default_factory=dict)
    """The bounds of the logs of single streams."""
    leases: Mapping[str, Lease] = field(default_factory=dict)
    """The leases of consumers; logs wait for ever for those that have none."""

    def __post_init__(self) -> None:
        detection = self.heartbeat_us * (self.misses + 1)
        if detection * 2 > self.max_delay_us:
            raise UserError(
                f"is too short for the heartbeats: a failure is noticed after"
                f" {format_duration(detection)}, and half of the delay must be left then",
                name=f"a delay of {format_duration(self.max_delay_us)}",
            )
        if self.long_failure_us < self.max_delay_us:
            raise UserError(
                "must not be shorter than the accepted delay: until then nothing is tentative",
                name="long_failure_us",
            )
        if self.input_window < self.batch_buckets:
            raise UserError("must hold a micro-batch at least", name="input_window")

    clock_bound_us: int = SECOND
    """The offset of a producer's clock that is announced."""
    keep_log: int | None = None
    """The number of buckets, acknowledged or not, that logs of convergent-capable fragments keep
    (4.9.4).

    It must cover the windows of all operators downstream and the longest stretch of tentative
    tuples that is to be corrected. None: keep everything that is not acknowledged.
    """

    def delay_of(self, result: str) -> int | None:
        """The accepted delay of a result; None if it is never tentative."""
        return None if self.never else self.delays.get(result, self.max_delay_us)

    def bounds_of(self, stream: str) -> LogBounds:
        """The bounds of a stream's log."""
        return self.logs.get(stream, self.log)

    @cached_property
    def bounded(self) -> bool:
        """Whether any log can be full."""
        return self.log.bounded or any(one.bounded for one in self.logs.values())

    @cached_property
    def lets_replicas_go(self) -> bool:
        """Whether a log may stop waiting for a replica that is silent."""
        skips = any(
            one.bounded and one.full is WhenFull.SKIP for one in (self.log, *self.logs.values())
        )
        return any(one.peers and (skips or one.silence_us) for one in self.leases.values())

    @cached_property
    def never(self) -> bool:
        """Whether nothing is ever tentative."""
        return self.up_failure is Policy.SUSPEND

    @cached_property
    def shortest_us(self) -> int:
        """The shortest accepted delay of any result."""
        given = (delay for delay in self.delays.values() if delay is not None)
        return min([self.max_delay_us, *given])

    @cached_property
    def lag_buckets(self) -> int:
        """The lag behind another replica, in buckets, beyond which one does not count as stable."""
        return max(1, self.shortest_us // (2 * self.bucket_us) - 1)

    @cached_property
    def stall_us(self) -> int:
        """The time after which a replica that has more but sends nothing is abandoned."""
        return self.heartbeat_us * (self.misses + 1)
