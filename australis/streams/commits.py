"""The commit file of a log, and the mark that says how far it was acknowledged.

Each commit is written twice in one write, so that damage to one of both copies loses nothing. The
last commit is the one that a crash may tear, so what ends the file says by itself no more than
that. Therefore the number of each commit is also appended to the mark, a file of its own, once the
commit is synced; the mark is not synced, and so may lag behind, but it is never ahead. A commit
file that ends before its mark has lost what was acknowledged: damage, never a crash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from australis.kernel.errors import Damaged, Stopped
from australis.streams.disk import Disk
from australis.streams.entry_times import Runs
from australis.streams.frames import HEAD_SIZE, damaged, frame, whole_frames
from australis.streams.marks import Marks

COMMITS = "commits"
MARK = "acknowledged"
COMMIT_BYTES = 1 << 20
FORMAT = 2
_NUMBER = struct.Struct("<q")


class Commit(msgspec.Struct, frozen=True, array_like=True):
    """One record of the commit file."""

    format: int = FORMAT
    number: int = 0
    """How many commits the log has had; 0 before the first one."""
    boundary_us: int = 0
    segment: str = ""
    size: int = 0
    digest: int = 0
    """The rolling digest up to the end, which the heads of the segments must give again."""
    memo: bytes = b""
    rows: int = 0
    """The number of tuples that were ever appended."""
    dropped_to: int = -1
    dropped_rows: int = 0
    dropped_id: int = -1
    """The last tuple that truncation removed."""
    acknowledged: int = -1
    """The last bucket that no reader needs any more, though its segment may still exist."""
    digest_base: int | None = None
    """The bucket after which the rolling digest begins; None: after `dropped_to`."""
    dropped_digest: int = 0
    """The rolling digest up to `dropped_to`."""
    entered: Runs = (-1, [])
    """The entry times of buckets that are new in this record; one that begins a file has all."""


@dataclass(frozen=True)
class Found:
    """What a commit file holds."""

    commits: list[Commit]
    end: int
    """The byte behind the last commit; what follows is torn."""
    broken: list[int]
    """The bytes at which one copy of a commit is damaged or torn, while the other is whole."""


def read_commits(disk: Disk) -> Found:
    """The commits in order; raises `Damaged` unless a crash explains what is not there."""
    data = disk.read(COMMITS, 0, size) if (size := disk.size(COMMITS)) else b""
    frames = list(whole_frames(data))
    commits, broken, end = [], [], 0
    for offset, payload, twin in _pairs(frames):
        if offset > end:
            raise damaged(COMMITS, end)
        commits.append(_decode(payload, end))
        end += 2 * (HEAD_SIZE + len(payload))
        if twin is not None:
            broken.append(twin)
    if any(offset >= end for offset, _ in frames):
        raise damaged(COMMITS, end)
    _refuse_lost(disk, commits, min(end, size))
    return Found(commits, min(end, size), broken)


def _pairs(frames: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes, int | None]]:
    """The offset and payload of each commit, and where a copy of it is broken, if one is."""
    whole = dict(frames)
    at = 0
    for offset, payload in frames:
        if offset < at:
            continue  # the second copy of the commit before
        length = HEAD_SIZE + len(payload)
        if offset == at:
            twin = None if whole.get(at + length) == payload else at + length
        elif offset == at + length:
            twin = at
        else:
            yield offset, payload, None
            return
        yield at, payload, twin
        at += 2 * length


def _decode(payload: bytes, offset: int) -> Commit:
    try:
        commit = msgspec.msgpack.decode(payload, type=Commit)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise damaged(COMMITS, offset) from None
    if commit.format != FORMAT:
        raise Stopped(f"the log has format {commit.format}; this version reads {FORMAT}")
    return commit


def _refuse_lost(disk: Disk, commits: list[Commit], end: int) -> None:
    """Refuse a commit file that lacks what was acknowledged."""
    for before, after in pairwise(commits):
        if after.number != before.number + 1:
            raise damaged(COMMITS, end)
    last = commits[-1].number if commits else 0
    if (acknowledged := read_mark(disk)) > last:
        raise Damaged(
            f"the log file {COMMITS} ends with commit {last}, but {acknowledged} was acknowledged",
            file=COMMITS,
            byte=end,
        )
    if not commits and any(name.endswith(".seg") for name in disk.names()):
        raise Damaged(
            f"the log file {COMMITS} is missing or empty, but there are segments", file=COMMITS
        )


def read_mark(disk: Disk) -> int:
    """The number of the last commit that is known to have been acknowledged; 0 if none is."""
    mark = Marks(disk, MARK).last()
    return 0 if mark is None or len(mark) != _NUMBER.size else int(_NUMBER.unpack(mark)[0])


class CommitFile:
    """Writes the commits of a log."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._marks = Marks(disk, MARK)
        self._bytes = 0
        self._torn = False
        """Whether the file may hold something else than the commits that it should."""

    @property
    def is_long(self) -> bool:
        """Whether the next commit is to replace the file, so that it stays small."""
        return self._bytes > COMMIT_BYTES

    def recover(self) -> list[Commit]:
        """The commits that are there."""
        found = read_commits(self._disk)
        if found.commits:
            self._disk.sync(COMMITS)  # what is served must outlive a power cut, too
        self._bytes, self._torn = found.end, bool(found.broken)
        return found.commits

    def clear_away(self, commit: Commit) -> None:
        """Remove what a failed or torn write may have left behind this last commit."""
        if self._torn:
            self._replace(commit)
        elif self._disk.size(COMMITS) > self._bytes:
            self._disk.cut(COMMITS, self._bytes)

    def write(self, commit: Commit, *, anew: bool) -> None:
        """Make a commit durable, behind the others, or `anew` in place of all of them."""
        if anew:
            self._replace(commit)
        else:
            data = _twice(commit)
            self._disk.append(COMMITS, data)
            self._disk.sync(COMMITS)
            self._bytes += len(data)

    def _replace(self, commit: Commit) -> None:
        data = _twice(commit)
        self._torn = True
        self._disk.replace(COMMITS, data)
        self._bytes, self._torn = len(data), False

    def mark(self, number: int) -> None:
        """Note that a commit is durable; without that it is only less certain, so this may fail."""
        self._marks.add(_NUMBER.pack(number))


def _twice(commit: Commit) -> bytes:
    return 2 * frame(msgspec.msgpack.encode(commit))
