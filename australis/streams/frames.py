"""Framed records in a file: a magic word, length, checksum, payload.

A record that was torn by a crash is recognised and ends the file. No record is empty, since a
magic word before zeros, which a crash may leave, would look like one.
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


def damaged(name: str, byte: int) -> Damaged:
    """The error for a log file that is damaged at this byte."""
    return Damaged(f"the log file {name} is damaged at byte {byte}", file=name, byte=byte)


def read_frame(disk: Disk, name: str, offset: int, length: int) -> memoryview:
    """The payload of the frame of this whole length at this offset."""
    data = memoryview(disk.read(name, offset, length))
    payload = data[HEAD_SIZE:]
    head = (_MAGIC, len(payload), zlib.crc32(payload))
    if len(data) != length or _HEAD.unpack(data[:HEAD_SIZE]) != head:
        raise damaged(name, offset)
    return payload


def scan_frames(disk: Disk, name: str) -> Iterator[tuple[int, bytes]]:
    """The offset and payload of every whole frame; a torn one at the end is skipped."""
    offset, size = 0, disk.size(name)
    while offset + HEAD_SIZE <= size:
        magic, length, checksum = _HEAD.unpack(disk.read(name, offset, HEAD_SIZE))
        payload = disk.read(name, offset + HEAD_SIZE, length) if magic == _MAGIC else b""
        if not payload or len(payload) != length or zlib.crc32(payload) != checksum:
            return
        yield offset, payload
        offset += HEAD_SIZE + length


def refuse_damage(disk: Disk, name: str, end: int) -> None:
    """Stop if whole frames follow what ends the file: only the last one can be torn."""
    tail = disk.read(name, end, disk.size(name) - end) if disk.size(name) > end else b""
    if next(whole_frames(tail, 1), None) is not None:
        raise damaged(name, end)


def whole_frames(data: bytes, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The offset and payload of every whole frame from an offset on, also behind damaged ones."""
    at = data.find(_MAGIC, start)
    while 0 <= at <= len(data) - HEAD_SIZE:
        _, length, checksum = _HEAD.unpack_from(data, at)
        payload = data[at + HEAD_SIZE : at + HEAD_SIZE + length]
        if payload and len(payload) == length and zlib.crc32(payload) == checksum:
            yield at, payload
            at = data.find(_MAGIC, at + HEAD_SIZE + length)
        else:
            at = data.find(_MAGIC, at + 1)
