"""What a query may read: buckets in memory and in logs, in the order of the buckets."""

from __future__ import annotations

from typing import Any

import pytest

from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.spans import Span
from australis.runtime.node.held import HeldInputs

pytestmark = pytest.mark.unit


class Rows(str):
    """A batch that is nothing but its name."""

    num_rows = 2


class Log:
    """A log with a batch in every third bucket."""

    def rows_between(self, after: int, upto: int) -> int:
        return 2 * len(list(self.read(after, upto)))

    def read(self, after: int, upto: int) -> Any:
        return ((n, Rows(f"log {n}")) for n in range(after + 1, upto + 1) if n % 3 == 0)


LOG = Log()


def held() -> HeldInputs:
    return HeldInputs(["s"], lambda machine, stream: LOG)  # type: ignore[arg-type, return-value]


def memory(after: int, *numbers: int) -> Span:
    return Span(after, numbers[-1], tuple(Bucket(n, 0, Rows(f"memory {n}")) for n in numbers))


def test_memory_and_logs_are_read_in_the_order_of_the_buckets() -> None:
    one = held()
    one.add([(Span(0, 6, (), "here"), memory(6, 7, 8), Span(8, 12, (), "here"))])
    said = ["log 3", "log 6", "memory 7", "memory 8", "log 9", "log 12"]
    assert one.read(0, 12) == [said]
    assert one.rows_between(0, 12) == 12
    assert one.between(5, 9).read(0, 100) == [["log 6", "memory 7", "memory 8", "log 9"]]


def test_what_is_said_anew_replaces_and_nothing_is_read_twice() -> None:
    one = held()
    one.add([(memory(0, 1, 3),)])
    one.add([(Span(0, 3, (), "here"), memory(0, 1))])
    assert one.read(0, 3) == [["memory 1", "memory 3"]]


def test_what_overlaps_a_log_is_there_once() -> None:
    one = held()
    one.add([(Span(0, 6, (), "here"),)])
    one.add([(Span(3, 9, (), "here"),)])
    assert one.read(0, 9) == [["log 3", "log 6", "log 9"]]
    one.forget(6)
    assert one.read(6, 9) == [["log 9"]]
    assert (9 in one, 6 in one) == (True, False)
