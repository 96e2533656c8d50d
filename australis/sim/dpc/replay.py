"""What tentative lanes must say, replayed on forks of the fault-free states."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from australis.sim.dpc.oracle import UNKNOWN

REMEMBER = 2048
"""The number of tentative buckets of each lane kept for comparison."""


class Truth(Protocol):
    """The streams of a fault-free run, and the states behind them."""

    def content(self, stream: str, number: int) -> Any:
        """The content of a bucket; UNKNOWN if it is not known."""
        ...

    def state(self, stream: str, number: int, after: int = -1) -> Any:
        """The state after a bucket of a lane that has read what follows bucket `after`."""
        ...

    def step(self, stream: str, state: Any, inputs: tuple[Any, ...], number: int) -> Any:
        """The state after one more bucket, and the content of the stream's bucket."""
        ...


class Replay:
    """Every tentative lane of a run, computed anew from the state at which it was forked."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._lanes: dict[tuple[str, str], tuple[int, Any]] = {}
        """The epoch of the latest tentative lane of each replica's output, and its state."""
        self._made: dict[tuple[str, str], OrderedDict[tuple[int, int], Any]] = {}
        self._skips: dict[tuple[str, str], tuple[int, int]] = {}

    def skip(self, node: str, stream: str, after: int, right_from: int) -> None:
        """A stable lane begins with an empty state after a bucket; it has the right state again
        at `right_from`."""
        self._skips[node, stream] = after, right_from

    def install(self, node: str, stream: str) -> None:
        """A stable lane goes on from a right state."""
        self._skips.pop((node, stream), None)

    def fork(self, node: str, stream: str, epoch: int, upto: int) -> None:
        """A tentative lane is forked from a stable lane that has read up to a bucket."""
        after, right_from = self._skips.get((node, stream), (-1, -1))
        empty = after <= upto < right_from
        state = self._truth.state(stream, upto, after if empty else -1)
        self._lanes[node, stream] = epoch, state

    def release(
        self, node: str, stream: str, epoch: int, number: int, inputs: Sequence[Any]
    ) -> bool:
        """Let a lane read a bucket of its inputs; returns whether there is such a lane."""
        forked, state = self._lanes.get((node, stream), (-1, UNKNOWN))
        batch = UNKNOWN
        if state is not UNKNOWN and all(one is not UNKNOWN for one in inputs):
            state, batch = self._truth.step(stream, state, tuple(inputs), number)
        else:
            state = UNKNOWN
        self._lanes[node, stream] = forked, state
        made = self._made.setdefault((node, stream), OrderedDict())
        made[epoch, number] = batch
        if len(made) > REMEMBER:
            made.popitem(last=False)
        return forked == epoch

    def content(self, node: str, stream: str, epoch: int, number: int) -> Any:
        """What a lane must say in a bucket; UNKNOWN if that is not known, or it read none."""
        made = self._made.get((node, stream))
        return UNKNOWN if made is None else made.get((epoch, number), UNKNOWN)

    def knows(self, node: str, stream: str, epoch: int, number: int) -> bool:
        """Whether a lane has read a bucket, as far as that is remembered."""
        return (epoch, number) in self._made.get((node, stream), {})

    def versions(self, stream: str, number: int) -> Iterator[Any]:
        """What the lanes of all replicas must say in a bucket of a stream."""
        for (_, output), made in self._made.items():
            if output == stream:
                yield from (batch for (_, bucket), batch in made.items() if bucket == number)
