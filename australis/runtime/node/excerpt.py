"""The end of a log, packed for a replica that lost its own.

Consumers that are away may still need it, and no other replica may have it any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import pyarrow as pa

from australis.kernel.ids import MAX_BUCKET
from australis.runtime.files import write_private
from australis.runtime.logs import SharedLog
from australis.runtime.node.wire import WireError
from australis.streams.buckets import END_OF_STREAM_US
from australis.streams.digest import MAX_DIGEST

LOG = "log"
"""The file of a snapshot that holds the end of the log."""
MAX_BYTES = 256 << 20
"""The largest size of an excerpt; of a longer log only the newest buckets are sent."""
_TRIMMED_UPTO, _BUCKET, _DIGEST, _ENTERED = b"trimmed_upto", b"bucket", b"digest", b"entered"

_Number = Annotated[int, msgspec.Meta(ge=-1, le=MAX_BUCKET)]
_Time = Annotated[int, msgspec.Meta(ge=-END_OF_STREAM_US, le=END_OF_STREAM_US)]
_Entered = tuple[_Number, list[tuple[_Number, _Time]]]
"""Entry times as runs (`streams.entry_times`)."""


def pack(log: SharedLog, upto: int, to: Path, most_bytes: int = MAX_BYTES) -> None:
    """Write the buckets of a log up to one into a file, as an Arrow stream."""
    after = max(log.reaching_back(upto, most_bytes), min(log.trimmed_upto, upto))
    digest = log.digest(after)
    entered = msgspec.json.encode(log.entries_between(after, upto))
    told = {_TRIMMED_UPTO: str(after), _DIGEST: f"{digest.base} {digest.value}", _ENTERED: entered}
    schema = log.schema.arrow.with_metadata(told)
    write_private(to, b"")
    with pa.OSFile(str(to), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for number, batch in log.read(after, upto):
            writer.write_batch(batch, custom_metadata={_BUCKET: str(number)})


class Excerpt:
    """The output of `pack`, validated; raises a `WireError` if it is something else."""

    def __init__(self, path: Path, log: SharedLog, upto: int) -> None:
        self.upto = upto
        try:
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
                if not reader.schema.equals(log.schema.arrow):
                    raise WireError("a log of another stream")
                told = reader.schema.metadata or {}
                self.trimmed_upto = int(told[_TRIMMED_UPTO])
                self._digest = _digest(told[_DIGEST], self.trimmed_upto)
                self._entered = msgspec.json.decode(told[_ENTERED], type=_Entered)
                self._buckets = list(_read(reader))
        except (pa.ArrowException, KeyError, ValueError, OSError, msgspec.MsgspecError) as error:
            raise WireError(f"a log that is none: {error!r}") from None
        numbers = [self.trimmed_upto, *(number for number, _ in self._buckets), upto + 1]
        if sorted(set(numbers)) != numbers:
            raise WireError("a log whose buckets are not in order")

    def replace(self, log: SharedLog, memo: bytes = b"", ahead_us: int = 0) -> None:
        """Put it where the old log was, with entry times by a clock that is ahead of the packer's."""
        after, runs = self._entered
        entered = (after, [(upto, at + ahead_us) for upto, at in runs])
        log.replace(self.trimmed_upto, self._buckets, self.upto, memo, self._digest, entered)


def _digest(told: bytes, trimmed_upto: int) -> tuple[int, int]:
    base, value = map(int, told.split())
    if not -1 <= base <= trimmed_upto or not 0 <= value <= MAX_DIGEST:
        raise WireError("a log with a digest that is none")
    return base, value


def _read(reader: pa.RecordBatchStreamReader) -> Iterator[tuple[int, pa.RecordBatch]]:
    while True:
        try:
            batch, told = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return
        batch.validate(full=True)
        yield int(told[_BUCKET]), batch
