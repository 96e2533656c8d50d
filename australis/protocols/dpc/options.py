"""What can be set about DPC, and what must hold between the settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from australis.kernel.durations import MILLISECOND, SECOND, format_duration
from australis.kernel.errors import UserError


class Policy(Enum):
    """What to do with new tuples while an input is missing (thesis 4.2)."""

    SUSPEND = "suspend"
    DELAY = "delay"
    PROCESS = "process"


class Deadline(Enum):
    """From where the accepted delay counts."""

    END_TO_END = "end-to-end"
    """From the bucket's entry at the source: the bound holds at any depth."""
    PER_NODE = "per-node"
    """From the bucket's arrival at each SUnion, as in the thesis: k times D in a chain of k."""


@dataclass(frozen=True)
class DpcOptions:
    """The settings of one application, the same at all its nodes."""

    bucket_us: int = 500 * MILLISECOND
    max_delay_us: int = 3 * SECOND
    """X, or with `Deadline.PER_NODE` the D of each SUnion."""
    deadline: Deadline = Deadline.END_TO_END
    hop_us: int = 100 * MILLISECOND
    """An allowance for one hop: network, queueing and processing of a bucket."""
    up_failure: Policy = Policy.PROCESS
    stabilization: Policy = Policy.PROCESS
    staggered: bool = False
    """Replicas stabilise one after the other (4.7.3) instead of each in place."""
    heartbeat_us: int = 100 * MILLISECOND
    """P2 of figure 4-10."""
    misses: int = 3
    """P1 of figure 4-10: more unanswered heartbeats than this mean failure."""
    long_failure_us: int = 5 * SECOND
    """P3 of 4.7.4: after so long a failure a stable replica first has to replay; X at least."""
    batch_buckets: int = 16
    """A micro-batch of the stable lane takes at most so many buckets."""
    correction_us: int = 100 * MILLISECOND
    """So long at most, where it can be helped, a micro-batch takes beside a tentative lane."""
    correction_growth: int = 1
    """A micro-batch of corrections may take so many times as many buckets as the one before, if
    that took no longer: where most of its time does not depend on how much it takes in."""
    near_buckets: int = 2
    """So close behind its inputs the stable lane counts as caught up: what comes in during one of
    its micro-batches."""
    checkpoint_batches: int = 1
    """The stable lane is checkpointed after every so many micro-batches."""
    input_window: int = 64
    """So many buckets of an input are held before the stable lane has taken them."""
    send_window: int = 16
    """So many buckets may be under way to a consumer that has not confirmed them."""
    max_log: int | None = None
    """So many unacknowledged buckets fill a log; then its lane waits. None: no limit."""

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

    keep_log: int | None = None
    """Logs of convergent-capable fragments keep so many buckets, acknowledged or not (4.9.4).

    It must cover the windows of all operators downstream and the stretch of tentative tuples
    that is promised to be corrected. None: keep everything that is not acknowledged.
    """

    @property
    def lag_buckets(self) -> int:
        """A replica so far behind another one does not count as stable."""
        return max(1, self.max_delay_us // (2 * self.bucket_us) - 1)

    @property
    def stall_us(self) -> int:
        """A replica that has more but sends nothing for so long is left."""
        return self.heartbeat_us * (self.misses + 1)
