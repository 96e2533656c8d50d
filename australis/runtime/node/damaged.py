"""The stored state of an output or a source that is damaged: set aside, recorded and told.

What is set aside is kept for people to look at, one copy for each stream. The replica goes on like
one that has lost its disk: another replica, or the logs that it reads, give it back.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from australis.kernel.errors import Damaged
from australis.runtime.files import FileDisk, make_directory, stopping, sync_directory
from australis.runtime.logs import SharedLog
from australis.runtime.node.events import ERROR, Tell
from australis.streams.buckets import Buckets
from australis.streams.schema import Schema

DIRECTORY = "damaged"
EARLIER = ".earlier"
"""The suffix of what was set aside the time before."""
OnDamaged = Callable[[str, Damaged, Path, Path | None], None]
"""Told a stream, what is damaged, the directory of its log, and where that was set aside."""


def set_aside(root: Path, stream: str, *paths: Path) -> Path:
    """Move the files of a stream into a directory of their own; an earlier copy is kept, too."""
    to = root / DIRECTORY / stream
    earlier = to.with_name(f"{stream}{EARLIER}")
    with stopping("set aside", to):
        if to.exists():
            shutil.rmtree(earlier, ignore_errors=True)
            to.rename(earlier)
        make_directory(to)
        for path in paths:
            if path.exists():
                path.rename(to / path.parent.name)
                sync_directory(path.parent)
        sync_directory(to)
    return to


def damaged_source(stream: str, error: Damaged, directory: Path) -> Damaged:
    """The error for the log of a source, which nothing can compute again, with what to do."""
    return Damaged(
        f"the log of source '{stream}' in {directory} is damaged ({error}): see what `australis fsck`"
        " can repair, put it back as it was, or remove the state of every node to begin anew",
        file=error.file,
        byte=error.byte,
    )


class OutputFiles:
    """The files of one output of a replica: its log, and the checkpoint of its lane."""

    def __init__(
        self,
        root: Path,
        output: str,
        schema: Schema,
        buckets: Buckets,
        segment_bytes: int,
        on_damaged: OnDamaged,
    ) -> None:
        self.log_directory = root / "logs" / output
        self.checkpoint = root / "checkpoints" / output
        self._root = root
        self._output = output
        self._schema = schema
        self._buckets = buckets
        self._segment_bytes = segment_bytes
        self._on_damaged = on_damaged

    def open_log(self) -> tuple[FileDisk, SharedLog]:
        """The log; if it is damaged it is set aside with its checkpoint, and a new one begins."""
        try:
            return self._open_log()
        except Damaged as error:
            self.set_aside(error)
            return self._open_log()

    def _open_log(self) -> tuple[FileDisk, SharedLog]:
        disk, size = FileDisk(self.log_directory), self._segment_bytes
        try:
            return disk, SharedLog(disk, self._schema, self._buckets, segment_bytes=size)
        except BaseException:
            disk.close()
            raise

    def set_aside(self, error: Damaged) -> None:
        """Set everything aside, since a part of it is not what was written."""
        # The log first: a crash in between leaves a checkpoint without its log, which is damage too.
        to = set_aside(self._root, self._output, self.log_directory, self.checkpoint)
        self._on_damaged(self._output, error, self.log_directory, to)


class Damages:
    """What was found damaged on this node, by stream, in this incarnation."""

    def __init__(self, tell: Tell, about: Callable[[], Mapping[str, str]]) -> None:
        self._tell = tell
        self._about = about
        self._found: dict[str, dict[str, Any]] = {}

    def found(self, stream: str, error: Damaged, directory: Path, to: Path | None = None) -> None:
        """Record that a part of a stream's state is damaged, and where it was set aside."""
        what = {
            "file": str(directory / error.file),
            "byte": error.byte,
            "why": str(error),
            "set_aside": None if to is None else str(to),
        }
        self._found[stream] = what
        self._tell(
            "state_damaged", level=ERROR, kind=stream, **self._about(), stream=stream, **what
        )

    def status(self, stream: str) -> dict[str, Any] | None:
        """What was last found damaged of a stream; None if nothing was."""
        return self._found.get(stream)
