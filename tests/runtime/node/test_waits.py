"""Which waits of an output for an input are long, and which are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from australis.protocols.dpc.states import Phase
from australis.runtime.node.waits import TOLD_AFTER_LOOKS, Waits, of_wait
from australis.streams.buckets import Buckets

pytestmark = pytest.mark.unit

BUCKETS = Buckets(100_000)
NOW_US = 1_800_000_000_000_000
SECOND = 1_000_000


@dataclass
class Read:
    """An input as far as waits are concerned."""

    stream: str
    have: int
    head: int
    advanced_us: int = NOW_US
    room: int = 1_000


@dataclass
class Computed:
    """An output as far as waits are concerned."""

    inputs: tuple[Read, ...]
    upto: int = 100
    phase: Phase = Phase.STABLE

    @property
    def target(self) -> int:
        return min(one.have for one in self.inputs)

    @property
    def held_back_by(self) -> Read:
        return min(self.inputs, key=lambda one: one.have)


def wait(*inputs: Read, upto: int = 100) -> dict[str, Any]:
    output: Any = Computed(inputs, upto)
    return of_wait(output, BUCKETS, NOW_US)


def test_an_input_that_gives_nothing_is_waited_for() -> None:
    one = Read("s2", 100, 100, NOW_US - 5 * SECOND)
    found = wait(Read("s1", 104, 104), one)
    assert (found["stream"], found["waits_s"], found["stands"], found["long"]) == (
        *("s2", 5.0, True, True),
    )


def test_one_whose_node_is_gone_is_waited_for() -> None:
    assert wait(Read("s2", 100, -1, NOW_US - 5 * SECOND))["stands"]


def test_an_input_that_advances_behind_another_one_is_waited_for() -> None:
    found = wait(Read("s1", 150, 150), Read("s2", 100, 100))
    assert (found["behind_s"], found["stands"], found["long"]) == (5.0, False, True)


@pytest.mark.parametrize(
    "one",
    [
        Read("s2", 100, 140, NOW_US - 5 * SECOND),
        Read("s2", 100, 100, NOW_US - 5 * SECOND, room=100),
        Read("s2", 100, 100, NOW_US - SECOND),
        Read("s2", -1, -1, 0),
    ],
    ids=["more is there", "its own input is full", "not for long", "never heard"],
)
def test_other_waits_are_not_for_that_input(one: Read) -> None:
    found = wait(Read("s1", 108, 108), one)
    assert not found["stands"]
    assert not found["long"]


def test_what_is_not_processed_yet_is_no_wait_for_an_input() -> None:
    assert not wait(Read("s2", 100, 100, NOW_US - 5 * SECOND), upto=90)["long"]


def test_a_long_wait_is_told_once_and_so_is_its_end() -> None:
    told: list[dict[str, Any]] = []
    waits = Waits(
        lambda event, **about: told.append({"event": event} | about),
        lambda stream: "; the clock of e2 is off: synchronise it (NTP)",
    )
    behind: Any = Computed((Read("s1", 150, 150), Read("s2", 100, 100)))
    for _ in range(TOLD_AFTER_LOOKS + 5):
        waits.look({"counts": behind}, BUCKETS, NOW_US)
    (first,) = told
    assert first["event"] == "output_waits"
    assert first["why"] == (
        "counts waits for s2, which is 5.0 s behind its other inputs; the clock of e2 is off:"
        " synchronise it (NTP)"
    )
    level: Any = Computed((Read("s1", 150, 150), Read("s2", 150, 150)), upto=150)
    for _ in range(2):
        waits.look({"counts": level}, BUCKETS, NOW_US)
    assert [one["event"] for one in told] == ["output_waits", "output_goes_on"]


def test_an_output_that_recovers_waits_for_nobody_yet() -> None:
    told: list[str] = []
    waits = Waits(lambda event, **about: told.append(event), lambda stream: "")
    starting: Any = Computed((Read("s1", 150, 150), Read("s2", 1, 1)), phase=Phase.RECOVERING)
    for _ in range(TOLD_AFTER_LOOKS + 1):
        waits.look({"counts": starting}, BUCKETS, NOW_US)
    assert told == []
