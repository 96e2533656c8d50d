"""The splitting of bytes into blocks of whole lines, for files and sockets alike.

A block keeps the number of its first line, so that a bad row can be named. A
bad line is blanked rather than removed: the parsers skip empty lines, and the
lines after it keep their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from australis.kernel.errors import Stopped
from australis.runtime.sources.base import Rejected, shown

BLOCK_BYTES = 4 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
CODECS = {".gz": "gzip", ".bz2": "bz2", ".lz4": "lz4", ".zst": "zstd"}
"""The compression of a file, by the suffix of its name."""


@dataclass(frozen=True)
class Block:
    """Whole lines, and the lines that were rejected."""

    first_line: int
    data: bytes
    rejected: tuple[Rejected, ...] = ()

    @cached_property
    def lines(self) -> list[bytes]:
        """The lines, without their ends."""
        return [line.removesuffix(b"\r") for line in self.data.split(b"\n")]

    @cached_property
    def rows(self) -> list[int]:
        """The indices of the lines that are not empty: what a CSV parser calls rows."""
        return [index for index, line in enumerate(self.lines) if line]

    def reject(self, index: int, reason: str) -> Rejected:
        """The rejection of the line with this index."""
        return Rejected(self.first_line + index, reason, shown(self.lines[index]))

    def blank(self, reasons: dict[int, str]) -> Block:
        """The same block without these lines, each rejected for its reason."""
        new = tuple(self.reject(index, reason) for index, reason in reasons.items())
        kept = [b"" if i in reasons else raw for i, raw in enumerate(self.data.split(b"\n"))]
        return Block(self.first_line, b"\n".join(kept), (*self.rejected, *new))

    def valid_utf8(self) -> Block:
        """The block without the lines that are not UTF-8."""
        if _is_utf8(self.data):
            return self
        wrong = [i for i, line in enumerate(self.lines) if not _is_utf8(line)]
        return self.blank(dict.fromkeys(wrong, "is not UTF-8"))


class LineSplitter:
    """Cuts a sequence of bytes at line ends; lines beyond the limit are rejected."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._line = 1
        self._skipping = False

    def feed(self, data: bytes) -> Block:
        """The whole lines that these bytes complete."""
        if self._skipping:
            _, end, data = data.partition(b"\n")
            if not end:
                return Block(self._line, b"")
            self._skipping = False
            self._line += 1
        whole, end, rest = (self._rest + data).rpartition(b"\n")
        block = Block(self._line, whole + end)
        self._line += block.data.count(b"\n")
        self._rest = rest
        if len(rest) > self._limit:
            reason = f"the line is longer than {self._limit} bytes"
            block = replace(block, rejected=(Rejected(self._line, reason, shown(rest[:4096])),))
            self._rest, self._skipping = b"", True
        return block

    def finish(self) -> Block:
        """The last line, if its end is missing."""
        block = Block(self._line, self._rest)
        self._rest = b""
        return block


def file_blocks(
    path: Path,
    block_bytes: int = BLOCK_BYTES,
    *,
    on_read: Callable[[int], None] = lambda position: None,
) -> Iterator[Block]:
    """A text file in blocks of whole lines; a compressed one is unpacked on the way.

    `on_read` gets the position in the file once the rows before it have been used.
    """
    splitter = LineSplitter(2 * block_bytes)
    start = True
    try:
        with pa.OSFile(str(path)) as file, _unpacked(file, path) as stream:
            while data := stream.read(block_bytes):
                if start:
                    data, start = data.removeprefix(BYTE_ORDER_MARK), False
                block = splitter.feed(data)
                if block.data or block.rejected:
                    yield block.valid_utf8()
                on_read(file.tell())
    except OSError as error:
        raise Stopped(f"cannot read {path}: {error.strerror or error}") from error
    last = splitter.finish()
    if last.data:
        yield last.valid_utf8()


def _unpacked(file: pa.NativeFile, path: Path) -> pa.NativeFile:
    codec = CODECS.get(path.suffix)
    return file if codec is None else pa.CompressedInputStream(file, codec)


def by_line(rejected: Collection[Rejected]) -> tuple[Rejected, ...]:
    """Rejected rows in the order of their lines."""
    return tuple(sorted(rejected, key=lambda one: one.line))


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
