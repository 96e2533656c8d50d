"""Reading and cloning a Structured Streaming checkpoint."""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from australis.kernel.errors import Damaged, Stopped


@dataclass(frozen=True)
class BatchOffsets:
    """The offsets of a micro-batch: buckets up to `upto`, and the watermark at its start."""

    upto: int
    watermark_us: int


def batch_offsets(checkpoint: Path, batch_id: int) -> BatchOffsets:
    """The offsets that Spark recorded before it began this micro-batch."""
    path = checkpoint / "offsets" / str(batch_id)
    try:
        _, metadata, *sources = path.read_text().splitlines()
        watermark_ms = msgspec.json.decode(metadata)["batchWatermarkMs"]
        ends = {msgspec.json.decode(source)["bucket"] for source in sources}
        (upto,) = ends
    except (OSError, ValueError, KeyError) as error:
        raise Damaged(f"the checkpoint file {path} cannot be read: {error}") from None
    return BatchOffsets(upto, watermark_ms * 1000)


def last_commit(checkpoint: Path) -> int | None:
    """The last micro-batch that is complete; None before the first."""
    return _last(checkpoint / "commits")


def last_offsets(checkpoint: Path) -> int | None:
    """The last micro-batch that was begun; None before the first."""
    return _last(checkpoint / "offsets")


def _last(directory: Path) -> int | None:
    try:
        return max((int(name) for name in os.listdir(directory) if name.isdigit()), default=None)
    except FileNotFoundError:
        return None


def clone(checkpoint: Path, to: Path, batch_id: int) -> None:
    """Clone a checkpoint after this micro-batch, for another query.

    The query it belongs to must be between two micro-batches. Files are never changed once
    they are written, so that links suffice. Meanwhile Spark may remove old ones, which only
    earlier micro-batches need.
    """
    shutil.rmtree(to, ignore_errors=True)
    for log in ("commits", "offsets"):
        (to / log).mkdir(parents=True)
        for name in os.listdir(checkpoint / log):
            if name.isdigit() and int(name) <= batch_id:
                _link(checkpoint / log / name, to / log / name)
    for directory, _, names in os.walk(checkpoint / "state"):
        target = to / Path(directory).relative_to(checkpoint)
        target.mkdir(parents=True, exist_ok=True)
        for name in names:
            if not name.startswith("."):
                _link(Path(directory) / name, target / name)
    if last_commit(to) != batch_id or not (to / "offsets" / str(batch_id)).exists():
        raise Stopped(f"the checkpoint {checkpoint} lacks micro-batch {batch_id}")
    described = msgspec.json.decode((checkpoint / "metadata").read_bytes())
    described["id"] = str(uuid.uuid4())  # Spark runs each id once
    (to / "metadata").write_bytes(msgspec.json.encode(described))


def _link(path: Path, to: Path) -> None:
    try:
        os.link(path, to)
    except FileNotFoundError:
        return  # Spark has removed it since it was listed
    except OSError:  # another file system, or one without links
        with suppress(FileNotFoundError):
            shutil.copyfile(path, to)
