"""The end of a log on its way to a replica that lost its own.

Consumers that are away may still need it, and perhaps no other replica has it any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from australis.live.datapath import SharedLog
from australis.live.node.wire import WireError

LOG = "log"
"""The file of a snapshot that holds it."""
MOST_BYTES = 256 << 20
"""Of a longer log only the newest buckets are sent."""
_BEGINS, _BUCKET = b"begins", b"bucket"


def pack(log: SharedLog, upto: int, to: Path, most_bytes: int = MOST_BYTES) -> None:
    """Write the buckets of a log up to one into a file, as an Arrow stream."""
    after = log.reaching_back(upto, most_bytes)
    schema = log.schema.arrow.with_metadata({_BEGINS: str(after)})
    with pa.OSFile(str(to), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for number, batch in log.read(after, upto):
            writer.write_batch(batch, custom_metadata={_BUCKET: str(number)})


class Excerpt:
    """What `pack` has packed, looked at closely; a `WireError` if it is something else."""

    def __init__(self, path: Path, log: SharedLog, upto: int) -> None:
        self.upto = upto
        try:
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
                if not reader.schema.equals(log.schema.arrow):
                    raise WireError("a log of another stream")
                self.begins = int((reader.schema.metadata or {})[_BEGINS])
                self._buckets = list(_read(reader))
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            raise WireError(f"a log that is none: {error!r}") from None
        numbers = [self.begins, *(number for number, _ in self._buckets), upto + 1]
        if sorted(set(numbers)) != numbers:
            raise WireError("a log whose buckets are not in order")

    def replace(self, log: SharedLog, memo: bytes = b"") -> None:
        """Put it where the old log was."""
        log.restart_at(self.begins)
        log.append(self._buckets, log.buckets.end(self.upto), memo)


def _read(reader: pa.RecordBatchStreamReader) -> Iterator[tuple[int, pa.RecordBatch]]:
    while True:
        try:
            batch, told = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return
        batch.validate(full=True)
        yield int(told[_BUCKET]), batch
