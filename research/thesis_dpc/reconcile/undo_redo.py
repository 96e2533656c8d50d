"""Two ways to reconcile state: checkpoint/redo and undo/redo (thesis 4.7.1, appendix B).

Undo/redo exists only here, to be measured against checkpoint/redo: Australis itself
reconciles by a stable lane beside a fork, which is checkpoint/redo without the
checkpoints. Everything is plain Python on plain rows `[id, key, value]`, so that real CPU
time can be measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from operator import itemgetter

Row = list[int]
Out = list[Row] | None
"""Where results go; None to drop them."""
ID, KEY, VALUE = range(3)
_ID_OF = itemgetter(ID)


class Box(ABC):
    """An operator whose state is its last `size` inputs, and values derived from them.

    It outputs one tuple per input tuple, so that boxes can be chained. It converges: its state
    depends on the last `size` inputs only.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.window: deque[Row] = deque()

    @abstractmethod
    def process(self, row: Row) -> Row:
        """Process a tuple and return the output."""

    @abstractmethod
    def clear(self) -> None:
        """Clear the state."""

    @abstractmethod
    def copy(self) -> Box:
        """A copy with tuples of its own."""

    def oldest(self) -> int:
        """The id of the oldest tuple in the state, found by looking at all of them (B.1)."""
        return min(map(_ID_OF, self.window), default=-1)


class AggregateBox(Box):
    """The number and the sum of the tuples of each key, as two flat tables."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.counts: dict[int, int] = {}
        self.sums: dict[int, int] = {}

    def process(self, row: Row) -> Row:
        counts, sums = self.counts, self.sums
        number, key, value = row
        self.window.append(row)
        count = counts[key] = counts.get(key, 0) + 1
        total = sums[key] = sums.get(key, 0) + value
        if len(self.window) > self.size:
            self._evict()
        return [number, key, (total + count) & 0xFFFF]

    def _evict(self) -> None:
        _, key, value = self.window.popleft()
        left = self.counts[key] = self.counts[key] - 1
        self.sums[key] -= value
        if not left:
            del self.counts[key], self.sums[key]

    def clear(self) -> None:
        self.window.clear()
        self.counts.clear()
        self.sums.clear()

    def copy(self) -> Box:
        twin = AggregateBox(self.size)
        twin.window = deque(map(list.copy, self.window))
        twin.counts, twin.sums = self.counts.copy(), self.sums.copy()
        return twin


class JoinBox(Box):
    """A join of each tuple with those of its key: an index of many small queues.

    Its copy must make every queue of the index anew, with the copied tuples.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.by_key: dict[int, deque[Row]] = {}

    def process(self, row: Row) -> Row:
        number, key, total = row
        same = self.by_key.get(key)
        if same is None:
            same = self.by_key[key] = deque()
        for other in same:
            total += other[VALUE]
        same.append(row)
        self.window.append(row)
        if len(self.window) > self.size:
            self.by_key[self.window.popleft()[KEY]].popleft()
        return [number, key, total & 0xFFFF]

    def clear(self) -> None:
        self.window.clear()
        self.by_key.clear()

    def copy(self) -> Box:
        twin = JoinBox(self.size)
        twin.window = deque(map(list.copy, self.window))
        by_key = twin.by_key
        for row in twin.window:
            same = by_key.get(row[KEY])
            if same is None:
                same = by_key[row[KEY]] = deque()
            same.append(row)
        return twin


class CheckpointRedo:
    """A chain of boxes that goes back to a copy of its state."""

    def __init__(self, boxes: Iterable[Box]) -> None:
        self.boxes = list(boxes)
        self.saved: list[Box] = []
        self.arrived: list[Row] = []
        """The stable tuples that have arrived since the checkpoint (the buffers of SUnions)."""

    def receive(self, rows: Iterable[Row]) -> None:
        """Buffer stable tuples until the next checkpoint covers them."""
        self.arrived.extend(rows)

    def process(self, rows: Iterable[Row], out: Out = None) -> None:
        """Process tuples with the whole chain."""
        boxes = self.boxes
        for row in rows:
            for box in boxes:
                row = box.process(row)
            if out is not None:
                out.append(row)

    def checkpoint(self) -> None:
        """Copy the state of every box, which covers all that has arrived."""
        self.saved = [box.copy() for box in self.boxes]
        self.arrived.clear()

    def reconcile(self, out: Out = None) -> None:
        """Go back to the checkpoint and process the stable tuples since then."""
        self.boxes = [box.copy() for box in self.saved]
        self.process(self.arrived, out)

    @property
    def held(self) -> int:
        """The tuples of the checkpointed state and of the input buffers."""
        return sum(len(box.window) for box in self.saved) + len(self.arrived)


class UndoRedo:
    """A chain of boxes that rebuild their states from the tuples they processed.

    Every box buffers its input. A stream marker names the tuples that make up its state at some
    moment: the id of the oldest one, and the id of the next tuple.
    """

    def __init__(self, boxes: Iterable[Box], *, limited: bool = False) -> None:
        self.boxes = list(boxes)
        self.buffers: list[list[Row]] = [[] for _ in self.boxes]
        self.markers: list[tuple[int, int]] = []
        self.limited = limited
        """Whether tentative tuples are left out of the buffers ("limited history")."""

    def copy(self) -> UndoRedo:
        """A copy of the chain, to be reconciled once more."""
        twin = UndoRedo((), limited=self.limited)
        twin.boxes = [box.copy() for box in self.boxes]
        twin.buffers = [list(buffer) for buffer in self.buffers]
        twin.markers = list(self.markers)
        return twin

    def process(self, rows: Iterable[Row], out: Out = None, *, tentative: bool = False) -> None:
        """Process tuples with the whole chain; each box buffers its input."""
        line = list(zip(self.boxes, self.buffers, strict=True))
        remember = not (tentative and self.limited)
        for row in rows:
            for box, buffer in line:
                if remember:
                    buffer.append(row)
                row = box.process(row)
            if out is not None:
                out.append(row)

    def mark(self, following: int) -> None:
        """Compute the stream markers; the next tuple has this id. Older tuples may go."""
        self.markers = [(box.oldest(), following) for box in self.boxes]

    def truncate(self) -> None:
        """Truncate the buffers to the tuples that make up the marked states."""
        for buffer, (oldest, _) in zip(self.buffers, self.markers, strict=True):
            del buffer[: _from(buffer, oldest)]

    def reconcile(self, since: Sequence[Row], out: Out = None) -> None:
        """Undo back to the markers, box by box, then process the stable tuples since then."""
        marked = zip(self.boxes, self.buffers, self.markers, strict=True)
        for box, buffer, (oldest, following) in marked:
            box.clear()
            rebuilt = []
            for row in buffer[_from(buffer, oldest) :]:
                if row[ID] >= following:
                    break
                box.process(row)
                rebuilt.append(row)
            buffer[:] = rebuilt
        self.process(since, out)

    @property
    def held(self) -> int:
        """Tuples in all undo buffers."""
        return sum(map(len, self.buffers))


def _from(buffer: Sequence[Row], oldest: int) -> int:
    """The position of the tuple of this id, found by reading backward and comparing each one."""
    at = len(buffer)
    for row in reversed(buffer):
        if row[ID] < oldest:
            break
        at -= 1
    return at
