"""What a replica's host asks of an engine.

An engine owns the durable half of an output: its log and the checkpoint of the lane
that fills it. Work happens on its own threads; what is done is reported as the event
that the machine waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from australis.kernel.machine import Event
from australis.live.datapath import SharedLog
from australis.protocols.dpc.effects import LaneRestored, RunStable, RunTentative

Inputs = tuple[pa.RecordBatch | None, ...]
"""What each input has in one bucket."""
Work = Sequence[tuple[int, Inputs]]
"""Buckets with their inputs, in order."""
Report = Callable[[Event], None]


class Lanes(Protocol):
    """The lanes of one replica: for each output a stable one, and a tentative one at times."""

    def log(self, output: str) -> SharedLog:
        """The stable log of an output."""
        ...

    def restore(self, output: str, base: int) -> LaneRestored:
        """What the disk holds of an output; a new one begins behind the bucket `base`."""
        ...

    def start(self, report: Report) -> None:
        """Get ready to work, and report what is done from now on."""
        ...

    def run_stable(self, effect: RunStable, work: Work) -> None:
        """Process stable buckets, append to the log what lies after `keep_after`."""
        ...

    def checkpoint(self, output: str) -> None:
        """Make the state of the stable lane durable as it stands."""
        ...

    def fork(self, output: str, epoch: int) -> None:
        """Make a tentative lane from the stable one as it stands."""
        ...

    def run_tentative(self, effect: RunTentative, work: Work) -> None:
        """Process one bucket on the tentative lane."""
        ...

    def drop(self, output: str, epoch: int) -> None:
        """End the tentative lane."""
        ...

    def snapshot(self, output: str, to: Path) -> int:
        """Write the latest checkpoint into a directory; the bucket it covers.

        One of its files is the log up to there (see `excerpt`).
        """
        ...

    def install(self, output: str, upto: int, files: Path) -> int:
        """Go on from a replica's checkpoint and its log; behind which bucket that begins.

        What is in the directory is its own now.
        """
        ...

    def close(self) -> None:
        """Stop working; what was reported stays."""
        ...
