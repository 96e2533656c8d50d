"""The progress of the streams of a run: what each has, and what is still unread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from australis.runtime.json_values import iso_time
from australis.runtime.logs import SharedLog
from australis.runtime.proxy import SourceProxy
from australis.streams.buckets import END_OF_STREAM_US

if TYPE_CHECKING:
    from australis.runtime.run import Running


@dataclass(frozen=True)
class StreamProgress:
    """The progress of one stream."""

    tuples: int
    """The number of its tuples."""
    upto_us: int
    """The boundary of the stream; 0 before the first one."""
    complete: bool
    share: float | None = None
    """The approximate share of a source's rows that has been read, if that is known."""
    unread_tuples: int = 0
    """The number of input tuples that a lane has not processed."""
    behind_us: int = 0
    """The time span of a lane's unprocessed tuples, by their own times."""
    waits_for: str | None = None
    """The input that has given nothing for long, though all of it has been processed."""
    since: str | None = None
    """The time since which it has given nothing."""

    def as_json(self) -> dict[str, Any]:
        """The progress as JSON, for `streams`."""
        upto = None if self.complete or not self.upto_us else iso_time(self.upto_us)
        return {
            "tuples": self.tuples,
            "complete": self.complete,
            "upto": upto,
            "read": None if self.share is None else round(self.share, 4),
            "unread_tuples": self.unread_tuples,
            "behind_s": round(self.behind_us / 1e6, 3),
            "waits_for": self.waits_for,
            "since": self.since,
        }


def progress_of(running: Running) -> dict[str, StreamProgress]:
    """The progress of every logged stream: sources first, then computed streams."""
    sources, logs = running.sources, running.logs
    plans = {plan.output: plan for fragment in running.fragments for plan in fragment.plans}
    return {
        name: _of_source(log, sources[name])
        if name in sources
        else _of_lane(running, log, [logs[stream] for stream in plans[name].inputs], name)
        for name, log in logs.items()
    }


def _of_source(log: SharedLog, proxy: SourceProxy) -> StreamProgress:
    complete = log.boundary_us >= END_OF_STREAM_US
    return StreamProgress(proxy.stats.rows, log.boundary_us, complete, share=proxy.share)


def _of_lane(
    running: Running, log: SharedLog, inputs: list[SharedLog], name: str
) -> StreamProgress:
    complete = log.boundary_us >= END_OF_STREAM_US
    query = running.queries.get(name)
    if complete or query is None:
        return StreamProgress(log.appended_rows, log.boundary_us, complete)
    done = query.at
    unread = sum(one.rows_between(done, log.buckets.last) for one in inputs)
    behind_us = max((_span_us(one, done) for one in inputs), default=0)
    wait = running.wait_of(name)
    stands = wait["stands"] and not unread
    return StreamProgress(
        log.appended_rows,
        log.boundary_us,
        complete,
        unread_tuples=unread,
        behind_us=behind_us,
        waits_for=wait["stream"] if stands else None,
        since=wait["since"] if stands else None,
    )


def _span_us(log: SharedLog, done: int) -> int:
    """The time between what has been processed of a log, or its beginning, and its newest tuple."""
    first, last = log.first_bucket, log.last_bucket
    if first is None or last is None:
        return 0
    return max(0, last - max(done, first - 1)) * log.buckets.size_us
