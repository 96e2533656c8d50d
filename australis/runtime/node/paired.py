"""A source with two proxies, on the node of one of them.

While its machine leads, a `SourceFeed` runs here as it would without a standby; while it follows,
copies of the other one's log and journal are stored in the same places, so that a feed can go on
from there. One thread starts and stops the feed and stores the copies, in the order of the effects.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from australis.diagram.model import Source
from australis.kernel.errors import Stopped
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import LimitSource, RestoredLog
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.source_pair import (
    AcknowledgeRows,
    CopyStored,
    FollowSource,
    LeadSource,
    SaveStanding,
    SendCopy,
    SourceCopy,
    SourceMember,
    Standing,
    StoreCopy,
)
from australis.runtime.files import FileDisk, make_directory, replace_file
from australis.runtime.journal import Journal
from australis.runtime.logs import SharedLog
from australis.runtime.node.events import Tell
from australis.runtime.node.feed import SourceFeed
from australis.runtime.node.wire_dpc import MAX_COPY_BUCKETS
from australis.runtime.proxy import JOURNALLED
from australis.runtime.source_log import CopyMemo, decode_memo
from australis.streams.buckets import END_OF_STREAM_US
from australis.streams.source import row_schema

COPY_BYTES = 16 << 20
"""The approximate largest size of a copy, of its log and of its journal each."""
AHEAD_BYTES = 16 << 20
"""The number of bytes of its log by which a source at full speed is ahead of its standby."""


class PairedSource:
    """The source as its `SourceMember` sees it (`node.ports.SourceMemberPort`)."""

    def __init__(
        self,
        name: str,
        source: Source,
        log: SharedLog,
        directory: Path,
        post: Callable[[str, Event], None],
        tell: Tell,
        on_error: Callable[[BaseException], None],
        max_bytes: int | None = None,
    ) -> None:
        """The proxy of a source whose log is full with more than `max_bytes`, if that is given."""
        self.name = name
        self.feed: SourceFeed | None = None
        """The source, while it runs here."""
        self._source = source
        self._log = log
        self._directory = directory
        self._post = post
        self._tell = tell
        self._on_error = on_error
        self._max_bytes = max_bytes
        self._limit: LimitSource | None = None
        """The latest limit, for a source that is started later."""
        self._open_feed: Callable[[], SourceFeed] | None = None
        self._leads = False
        self._told = 0
        """The last view that was recorded as an event."""
        self._disk: FileDisk | None = None
        self._journal: Journal | None = None
        """The journal while copies are stored in it; a source without one has none."""
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"pair {source.name}", daemon=True)
        self._open_journal()

    # --- what is on the disk ----------------------------------------------------------------

    @property
    def standing(self) -> Standing:
        """What the member was when its node stopped."""
        return read_standing(self._directory / "standing")

    @property
    def rows(self) -> int:
        """The number of rows that the journal or the log has."""
        next_row = None if self._journal is None else self._journal.next_row
        return decode_memo(self._log.memo).read if next_row is None else next_row

    @property
    def restored(self) -> RestoredLog:
        """The log as it was found; empty buckets after the end of a source are not in it."""
        log = self._log
        last = -1 if log.last_bucket is None else log.last_bucket
        end = max(last if self._ended else log.closed, log.trimmed_upto)
        return RestoredLog(self._source.name, end, log.trimmed_upto, end, digest=log.digest(end))

    @property
    def _ended(self) -> bool:
        return self._log.boundary_us >= END_OF_STREAM_US

    def _open_journal(self) -> None:
        if self._source.kind in JOURNALLED:
            self._disk = FileDisk(self._directory / "journal" / self._source.name)
            self._journal = Journal(self._disk, row_schema(self._source.schema))

    def _close_journal(self) -> None:
        if self._disk is not None:
            self._disk.close()
        self._disk = self._journal = None

    # --- lifecycle --------------------------------------------------------------------------

    def start(self, open_feed: Callable[[], SourceFeed]) -> None:
        """Begin to work, with a function that opens the source from what is on the disk."""
        self._open_feed = open_feed
        self._thread.start()

    def stop(self) -> None:
        """Stop the source, and store no more copies."""
        self._leads = False
        self._work.put(None)
        if self._thread.ident is not None:
            self._thread.join()
        if self.feed is not None:
            with suppress(RuntimeError):
                self.feed.stop()
        self._close_journal()

    def _run(self) -> None:
        try:
            while (work := self._work.get()) is not None:
                work()
        except BaseException as error:
            self._on_error(error)

    # --- the ports of a source that leads -----------------------------------------------------

    def log(self, stream: str) -> SharedLog:
        """The log of this proxy."""
        return self._log

    def limit(self, effect: LimitSource) -> None:
        """Hold back buckets beyond this one (back-pressure)."""
        self._limit = effect
        if self.feed is not None:
            self.feed.limit(effect)

    def save(self, effect: SaveStanding) -> None:
        """Make the standing durable."""
        write_standing(self._directory / "standing", effect.standing)
        view = effect.standing.view
        if view.epoch > self._told:
            self._told = view.epoch
            told = {"view": view.epoch, "leader": view.leader, "alone": view.alone}
            self._tell("source_view", kind=self._source.name, source=self._source.name, **told)

    def lead(self, effect: LeadSource) -> None:
        """Start the source, after all copies that are being stored."""
        self._leads = True
        self._work.put(self._begin)

    def _begin(self) -> None:
        if self._leads and self.feed is None:
            assert self._open_feed is not None
            self._close_journal()
            self.feed = feed = self._open_feed()
            if self._limit is not None:
                feed.limit(self._limit)
            feed.start()
            self._tell("source_leads", kind=self._source.name, source=self._source.name)

    def follow(self, effect: FollowSource) -> None:
        """Stop the source."""
        self._leads = False
        if self.feed is not None:
            self.feed.proxy.stop()
        self._work.put(self._end)

    def _end(self) -> None:
        feed = self.feed
        if feed is not None:
            feed.stop()
            self.feed = None
            self._log.entry_clock = None
            self._open_journal()
            self._tell("source_follows", kind=self._source.name, source=self._source.name)

    def acknowledge(self, effect: AcknowledgeRows) -> None:
        """Acknowledge rows to their producers."""
        if self.feed is not None:
            self.feed.proxy.acknowledge(effect.rows)

    def is_ahead(self, published: int) -> bool:
        """Whether the log is as far ahead of what is published as it may be."""
        log = self._log
        return not self._ended and log.reaching_back(log.closed, AHEAD_BYTES) > published

    # --- copies -------------------------------------------------------------------------------

    def copies(self, effect: SendCopy) -> Iterator[SourceCopy]:
        """The log and the journal as they are by now, or the first part of them."""
        copy, feed = effect.copy, self.feed
        if feed is None:
            return  # it starts; what is not sent is sent again
        whole: SourceCopy | None = None
        while whole is None:
            whole = self._copy(copy, feed)
        yield whole

    def _copy(self, copy: SourceCopy, feed: SourceFeed) -> SourceCopy | None:
        """A copy; None if rows that it needs have just gone from the journal to the log."""
        log = self._log
        boundary_us, memo = log.position
        ended = boundary_us >= END_OF_STREAM_US
        last = -1 if log.last_bucket is None else log.last_bucket
        upto = max(copy.upto, last, copy.after) if ended else log.buckets.closed_by(boundary_us)
        base, digest = log.digest_base, log.digest_at(copy.after)
        about = CopyMemo(base, digest, memo, ended)
        buckets, partial = _some(log.listed(copy.after, upto))
        rows: tuple[int, pa.RecordBatch] | None = None
        rows_upto = copy.rows_after
        if partial:
            upto = buckets[-1].number
        else:
            first = max(copy.rows_after, decode_memo(memo).resume)
            found = _rows(feed.proxy.journal, first, copy.rows_upto)
            if found is None:
                return None
            rows, rows_upto, partial = found
        return replace(
            copy,
            upto=upto,
            rows_upto=rows_upto,
            buckets=buckets,
            rows=rows,
            memo=replace(about, memo=b"", ended=False) if partial else about,
            partial=partial,
        )

    def store(self, effect: StoreCopy) -> None:
        """Make a copy durable."""
        self._work.put(lambda: self._store(effect.copy))

    def _store(self, copy: SourceCopy) -> None:
        log, about = self._log, copy.memo
        assert isinstance(about, CopyMemo)
        if self._journal is not None:
            _write_rows(self._journal, copy)
        runs = [(bucket.number, bucket.entered_us) for bucket in copy.buckets]
        new = [(b.number, b.batch) for b in copy.buckets if b.batch is not None]
        after, digest = copy.after, None
        if copy.whole:
            start = (about.digest_base, about.digest)
            log.replace(after, new, copy.upto, about.memo, start, (after, runs))
            digest = log.digest(after)
        elif not self._ended:
            after = log.closed
            log.note_entries(after, runs)
            new = [(number, batch) for number, batch in new if number > after]
            if copy.upto > after or (copy.upto == after and about.memo != log.memo):
                log.append(new, log.buckets.end(copy.upto), about.memo)
        if about.ended and not self._ended:
            log.append([], END_OF_STREAM_US, about.memo)
        if self._journal is not None and not copy.partial:
            self._journal.forget(decode_memo(about.memo).resume)
        stored = replace(copy, buckets=(), rows=None, memo=None)
        digests = log.recent_digests(after, copy.upto)
        fits_after = log.fits_after(self._max_bytes)
        self._post(self.name, CopyStored(self._source.name, stored, digest, digests, fits_after))

    # --- what people ask ------------------------------------------------------------------------

    def status(self, machine: SourceMember) -> dict[str, Any]:
        """What this proxy is, who leads, and its counts."""
        stats = None if self.feed is None else self.feed.proxy.stats
        return {
            "trimmed_upto": self._log.trimmed_upto,
            "end": machine.end,
            "rows": decode_memo(self._log.memo).rows if stats is None else stats.rows,
            "rejected": 0 if stats is None else stats.rejected,
            "late": decode_memo(self._log.memo).late if stats is None else stats.late,
            "idle": stats is not None and stats.idle,
            "due": None if self.feed is None else self.feed.due,
            "ahead_s": 0.0 if stats is None else round(stats.ahead_us / 1e6, 3),
            "full": machine.full,
            "role": machine.role,
            "leader": machine.view.leader.rpartition("@")[2] or None,
            "leads": machine.leads,
            "view": machine.view.epoch,
        }


def _some(listed: Iterator[Bucket]) -> tuple[tuple[Bucket, ...], bool]:
    """As many buckets as a copy holds, and whether there are more."""
    found: list[Bucket] = []
    size = 0
    for bucket in listed:
        if found and (size > COPY_BYTES or len(found) >= MAX_COPY_BUCKETS):
            return tuple(found), True
        found.append(bucket)
        size += getattr(bucket.batch, "nbytes", 0)
    return tuple(found), False


def _rows(
    journal: Journal | None, first: int, known: int
) -> tuple[tuple[int, pa.RecordBatch] | None, int, bool] | None:
    """The rows of the journal from the first on, the number after them, and whether more follow.

    None if some of them are not in the journal any more.
    """
    if journal is None or journal.next_row is None:
        return None, max(first, known), False
    parts, complete = journal.part(first, COPY_BYTES)
    if not parts:
        return None, first, False
    if parts[0][0] > first:
        return None
    rows = pa.concat_batches([batch for _, batch in parts])
    return (first, rows), first + rows.num_rows, not complete


def _write_rows(journal: Journal, copy: SourceCopy) -> None:
    """Append the rows of a copy that the journal lacks."""
    if copy.whole:
        journal.clear()
    if copy.rows is None:
        return
    first, rows = copy.rows
    known = journal.next_row
    if known is not None and known > first:
        rows, first = rows.slice(min(known - first, rows.num_rows)), known
    if rows.num_rows:
        journal.append(first, rows)


def read_standing(path: Path) -> Standing:
    """The standing in a file; that of a new member if there is none."""
    if not path.exists():
        return Standing()
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Standing)
    except msgspec.DecodeError:
        raise Stopped(f"{path} is damaged: remove the state of this node to copy it anew") from None


def write_standing(path: Path, standing: Standing) -> None:
    """Write a standing durably."""
    make_directory(path.parent)
    replace_file(path, msgspec.msgpack.encode(standing))
