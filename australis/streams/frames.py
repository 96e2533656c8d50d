"""Framed records in a file: a magic word, length, checksum, payload.

A record that was torn by a crash is recognised and ends the file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from australis.kernel.errors import Damaged
from australis.streams.disk import Disk

_MAGIC = b"AuF1"
_HEAD = struct.Struct("<4sII")
HEAD_SIZE = _HEAD.size
LENGTH = slice(4, 8)
"""The position of the payload's length in a head."""
CHECK = slice(8, 12)
"""The position of the payload's checksum in a head."""


def frame(payload: bytes) -> bytes:
    """The payload with its head."""
    return _HEAD.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


def read_frame(disk: Disk, name: str, offset: int, length: int) -> memoryview:
    """The payload of the frame of this whole length at this offset."""
    data = memoryview(disk.read(name, offset, length))
    payload = data[HEAD_SIZE:]
    head = (_MAGIC, len(payload), zlib.crc32(payload))
    if len(data) != length or _HEAD.unpack(data[:HEAD_SIZE]) != head:
        raise Damaged(f"the log file {name} is damaged at byte {offset}")
    return payload


def scan_frames(disk: Disk, name: str) -> Iterator[tuple[int, bytes]]:
    """The offset and payload of every whole frame; a torn one at the end is skipped."""
    offset, size = 0, disk.size(name)
    while offset + HEAD_SIZE <= size:
        magic, length, checksum = _HEAD.unpack(disk.read(name, offset, HEAD_SIZE))
        payload = disk.read(name, offset + HEAD_SIZE, length) if magic == _MAGIC else b""
        if magic != _MAGIC or len(payload) != length or zlib.crc32(payload) != checksum:
            return
        yield offset, payload
        offset += HEAD_SIZE + length


def refuse_damage(disk: Disk, name: str, end: int) -> None:
    """Stop if whole frames follow what ends the file: only the last one can be torn."""
    tail = disk.read(name, end, disk.size(name) - end) if disk.size(name) > end else b""
    at = tail.find(_MAGIC, 1)
    while 0 < at <= len(tail) - HEAD_SIZE:
        _, length, checksum = _HEAD.unpack_from(tail, at)
        payload = tail[at + HEAD_SIZE : at + HEAD_SIZE + length]
        if len(payload) == length and zlib.crc32(payload) == checksum:
            raise Damaged(f"the log file {name} is damaged at byte {end}")
        at = tail.find(_MAGIC, at + 1)
