"""Checks every byte of a log that nobody has open, and lists what is damaged."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from australis.kernel.errors import Damaged, Stopped
from australis.streams.commits import COMMITS, MARK, Commit, read_commits, read_mark
from australis.streams.digest import hash_of, plus
from australis.streams.disk import Disk
from australis.streams.frames import CHECK, HEAD_SIZE, LENGTH, whole_frames
from australis.streams.log import HEAD, unpack_head


@dataclass(frozen=True)
class Damage:
    """A damaged place in a log."""

    file: str
    byte: int
    concerns: str
    """What it concerns, in a few words."""
    harmless: bool = False
    """Whether the log has the same elsewhere and repairs itself when it is opened."""


def verify(disk: Disk) -> list[Damage]:
    """All damage of a log; it writes nothing, and leaves the remains of a crash alone."""
    found: list[Damage] = []
    commit = _verify_commits(disk, found)
    if disk.size(MARK) and not read_mark(disk):
        found.append(Damage(MARK, 0, "how far the log was acknowledged", harmless=True))
    return found if commit is None else found + _verify_segments(disk, commit)


def _verify_commits(disk: Disk, found: list[Damage]) -> Commit | None:
    """The last commit; None if there is none."""
    try:
        there = read_commits(disk)
    except Damaged as error:
        found.append(Damage(error.file, error.byte, str(error)))
        return None
    except Stopped as error:
        found.append(Damage(COMMITS, 0, str(error)))
        return None
    for byte in there.broken:
        found.append(Damage(COMMITS, byte, "one of two copies of a commit", harmless=True))
    return there.commits[-1] if there.commits else None


def _verify_segments(disk: Disk, commit: Commit) -> list[Damage]:
    found: list[Damage] = []
    rows, digest = commit.dropped_rows, commit.dropped_digest
    last = commit.dropped_to
    for name in sorted(n for n in disk.names() if n.endswith(".seg")):
        if not commit.dropped_to < int(name.removesuffix(".seg")) or name > commit.segment:
            continue  # dropped, or not committed
        size = commit.size if name == commit.segment else disk.size(name)
        data = disk.read(name, 0, size)
        offset = 0
        while offset < size:
            record = _whole_record(data, offset)
            if record is None:
                after = next((o for o, _ in whole_frames(data, offset + 1)), size)
                found.append(Damage(name, offset, f"tuples after bucket {last}"))
                offset = after
                continue
            last, count, length = record
            rows += count
            digest = plus(
                digest,
                hash_of(last, int.from_bytes(data[offset : offset + HEAD_SIZE][CHECK], "little")),
            )
            offset += length
        if len(data) < size:
            found.append(Damage(name, len(data), f"the tuples after bucket {last} are missing"))
    if not found and rows != commit.rows:
        found.append(Damage(COMMITS, 0, f"the segments hold {rows} tuples of {commit.rows}"))
    elif not found and digest != commit.digest:
        found.append(Damage(COMMITS, 0, "the segments hold other tuples than the last commit says"))
    return found


def bucket_checks(disk: Disk) -> dict[int, int]:
    """The checksum of each bucket that is whole in the segments: equal logs have equal ones."""
    found: dict[int, int] = {}
    for name in (name for name in disk.names() if name.endswith(".seg")):
        for _, payload in whole_frames(disk.read(name, 0, disk.size(name))):
            bucket, rows = unpack_head(payload[: HEAD.size], len(payload))
            if rows >= 0:
                found[bucket] = zlib.crc32(payload)
    return found


def _whole_record(data: bytes, offset: int) -> tuple[int, int, int] | None:
    """The bucket, rows and whole length of the record at an offset; None if it is damaged."""
    head = data[offset : offset + HEAD_SIZE + HEAD.size]
    length = int.from_bytes(head[LENGTH], "little")
    bucket, rows = unpack_head(head[HEAD_SIZE:], length)
    part = data[offset : offset + HEAD_SIZE + length]
    if rows < 0 or next(whole_frames(part), (1, b""))[0] != 0:
        return None
    return bucket, rows, HEAD_SIZE + length
