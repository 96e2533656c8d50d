"""Queries whose sources are started: one at a time, however many lanes there are."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from australis.spark.lane import STARTING, Lane

pytestmark = pytest.mark.unit


class Query:
    """A query whose source takes a moment to start."""

    isActive = True  # noqa: N815

    def __init__(self, ends_at: float) -> None:
        self._ends_at = ends_at

    @property
    def starts(self) -> bool:
        return time.monotonic() < self._ends_at

    @property
    def status(self) -> dict[str, Any]:
        return {"message": STARTING if self.starts else "Waiting for data to arrive"}


class Writer:
    """Starts such queries, and remembers how many were starting at once."""

    def __init__(self) -> None:
        self.made: list[Query] = []
        self.most = 0

    def start(self) -> Query:
        self.made.append(Query(time.monotonic() + 0.1))
        self.most = max(self.most, sum(query.starts for query in self.made))
        return self.made[-1]


def test_sources_are_started_one_after_the_other() -> None:
    writer, lanes = Writer(), [Lane.__new__(Lane) for _ in range(4)]
    for lane in lanes:
        lane._writer = writer  # type: ignore[assignment]
    threads = [threading.Thread(target=lane.start) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(writer.made), writer.most) == (4, 1)
    assert not any(query.starts for query in writer.made)
