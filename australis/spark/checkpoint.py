"""Reading a Structured Streaming checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from australis.kernel.errors import Stopped


@dataclass(frozen=True)
class BatchOffsets:
    """What a micro-batch works on: buckets up to `upto`, with this watermark at its start."""

    upto: int
    watermark_us: int


def batch_offsets(checkpoint: Path, batch_id: int) -> BatchOffsets:
    """The offsets Spark wrote down before it began this micro-batch."""
    path = checkpoint / "offsets" / str(batch_id)
    try:
        _, metadata, *sources = path.read_text().splitlines()
        watermark_ms = msgspec.json.decode(metadata)["batchWatermarkMs"]
        ends = {msgspec.json.decode(source)["bucket"] for source in sources}
        (upto,) = ends
    except (OSError, ValueError, KeyError) as error:
        raise Stopped(f"the checkpoint file {path} cannot be read: {error}") from None
    return BatchOffsets(upto, watermark_ms * 1000)
