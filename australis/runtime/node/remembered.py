"""What a replica has read of its sources, in a file for each output.

It is how the replica notices, after a restart, that a source has gone back. The file is replaced
without a sync: an older one is as true, and without one the source's end alone tells.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from australis.protocols.dpc.effects import RememberSources
from australis.protocols.dpc.messages import LogDigest
from australis.runtime.files import TEMPORARY, make_directory, read_private, stopping, write_private
from australis.streams.frames import frame, whole_frames

DIRECTORY = "read"
Read = tuple[tuple[str, LogDigest], ...]


def write_read(root: Path, effect: RememberSources) -> None:
    """Keep what an output of the replica in this directory has read of sources."""
    path = root / DIRECTORY / effect.output
    temporary = path.with_name(path.name + TEMPORARY)
    with stopping("write", path):
        if not path.parent.exists():
            make_directory(path.parent)
        write_private(temporary, frame(msgspec.msgpack.encode(effect.read)))
        os.replace(temporary, path)


def load_read(root: Path, output: str) -> Read:
    """What `write_read` has kept; nothing if the file is missing or damaged."""
    path = root / DIRECTORY / output
    if not path.exists():
        return ()
    with stopping("read", path):
        data = read_private(path)
    payload = next((payload for _, payload in whole_frames(data)), None)
    return () if payload is None else msgspec.msgpack.decode(payload, type=Read)
