"""A query that does not go on is noticed, and one that takes its time is not."""

from __future__ import annotations

import pytest

from australis.runtime.node.stalls import LONG_BATCH_S, STALLED_AFTER_S, StallWatch


class Watched:
    """A watch whose clock is ours."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.watch = StallWatch(lambda: self.now)

    def after(self, seconds: float, progress: tuple[int, int] | None) -> tuple[bool, float | None]:
        """Whether something changed at a look after so long, and for how long it has stalled."""
        self.now += seconds
        return self.watch.look(progress), self.watch.stalled_s


def test_no_work_is_no_stall() -> None:
    one = Watched()
    assert one.after(0, None) == one.after(1000, None) == (False, None)


def test_work_that_is_not_begun_is_a_stall_until_it_is() -> None:
    one = Watched()
    assert one.after(0, (3, 3)) == (False, None)
    assert one.after(STALLED_AFTER_S - 1, (3, 3)) == (False, None)
    assert one.after(1, (3, 3)) == (True, STALLED_AFTER_S)
    assert one.after(5, (3, 3)) == (False, STALLED_AFTER_S + 5), "it is told once"
    assert one.after(1, (4, 3)) == (True, None)


@pytest.mark.parametrize("after", [None, (4, 4)])
def test_a_micro_batch_may_take_longer_but_not_for_ever(after: tuple[int, int] | None) -> None:
    one = Watched()
    one.after(0, (4, 3))
    assert one.after(LONG_BATCH_S - 1, (4, 3)) == (False, None)
    assert one.after(1, (4, 3)) == (True, LONG_BATCH_S)
    assert one.after(1, after) == (True, None)
