"""Lanes on the reference engine: one that begins behind what is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from australis.diagram import diagram_file
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.errors import Damaged, OperatorFailed
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import (
    Checkpoint,
    Checkpointed,
    RestoredLog,
    RunStable,
    SkipAhead,
    SkippedAhead,
    StableDone,
)
from australis.protocols.dpc.messages import Bucket, LogDigest
from australis.protocols.dpc.spans import Span
from australis.runtime.node.lanes import LaneSettings
from australis.runtime.node.reference_lanes import ReferenceLanes
from australis.runtime.node.wire import WireError
from australis.runtime.sealed import read_sealed
from australis.runtime.testbed import Computed, computed

DIAGRAM = """
diagram: lanes
bucket: 500 ms
sources:
  s1: {generate: connections, rate: 60, duration: 60 s, seed: 7, start: "2026-01-02T00:00:00Z"}
operators:
  counts:
    aggregate: s1
    window: 1 s
    by: [protocol]
    compute: {n: count(*)}
"""
BASE = 2 * 1_767_312_000 - 1
"""The last bucket before its first tuple."""
AFTER, RIGHT = BASE + 31, BASE + 34


@pytest.fixture(scope="module")
def diagram() -> Diagram:
    return diagram_file.load(DIAGRAM, "lanes.yaml")


@pytest.fixture(scope="module")
def known(diagram: Diagram) -> Computed:
    return computed(diagram, Path(), BASE + 60)


class Lanes:
    """The lanes of one node; its output is fed and listened to by hand."""

    def __init__(self, diagram: Diagram, known: Computed, directory: Path) -> None:
        self._diagram, self._known, self._directory = diagram, known, directory

    def open(self, **settings: Any) -> RestoredLog:
        self.told: list[Event] = []
        self.errors: list[BaseException] = []
        ((plan,),) = (fragment.plans for fragment in cut(self._diagram))
        self.lanes = ReferenceLanes(
            {"counts": plan},
            self._known.schemas,
            self._diagram.buckets,
            self._directory,
            self.errors.append,
            no_log,
            LaneSettings(**settings),
        )
        restored = self.lanes.restore("counts", BASE)
        self.lanes.start(self.told.append)
        return restored

    def until(self, told: type[Event]) -> Event:
        deadline = time.monotonic() + 10
        while not (found := [e for e in self.told if isinstance(e, told)]):
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, self.told
            time.sleep(0.01)
        self.told.clear()
        return found[-1]

    def work(self, after: int, upto: int, keep_after: int) -> RunStable:
        log = self._known.logs["s1"]
        listed = tuple(Bucket(n, 0, log.get(n)) for n in range(after + 1, upto + 1))
        return RunStable("counts", after, upto, keep_after, ((Span(after, upto, listed),),))

    def run(self, after: int, upto: int, keep_after: int) -> Event:
        self.lanes.run_stable(self.work(after, upto, keep_after))
        return self.until(StableDone)

    def skip(self) -> None:
        self.lanes.skip(SkipAhead("counts", AFTER, RIGHT))
        self.until(SkippedAhead)


@pytest.fixture
def one(diagram: Diagram, known: Computed, tmp_path: Path) -> Iterator[Lanes]:
    lanes = Lanes(diagram, known, tmp_path)
    lanes.open()
    yield lanes
    lanes.lanes.close()


def no_log(machine: str, stream: str) -> Any:
    raise AssertionError(f"no log of {stream} at {machine}")


def restart(one: Lanes) -> RestoredLog:
    one.lanes.close()
    return one.open()


@pytest.mark.parametrize("crashes", [False, True])
def test_it_says_nothing_before_its_state_is_right(
    one: Lanes, known: Computed, crashes: bool
) -> None:
    one.run(BASE, BASE + 4, BASE)
    one.skip()
    begun = RestoredLog("counts", AFTER, RIGHT, RIGHT, digest=LogDigest(RIGHT, RIGHT, 0))
    if crashes:
        assert restart(one) == begun
    assert one.run(AFTER, AFTER + 2, RIGHT) == StableDone("counts", AFTER + 2, RIGHT)
    one.lanes.checkpoint(Checkpoint("counts"))
    one.until(Checkpointed)
    if crashes:
        restored = restart(one)
        assert (restored.upto, restored.end) == (AFTER + 2, RIGHT)
    one.run(AFTER + 2, AFTER + 12, RIGHT)
    wanted = [(n, b) for n, b in sorted(known.logs["counts"].items()) if RIGHT < n <= AFTER + 12]
    assert list(one.lanes.log("counts").read(RIGHT, AFTER + 12)) == wanted != []


def test_a_crash_between_log_and_state_leaves_the_old_state(
    one: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the old log the new state would publish results that are not right yet."""
    one.run(BASE, BASE + 4, BASE)
    one.lanes.checkpoint(Checkpoint("counts"))
    one.until(Checkpointed)

    def dies(lane: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(one.lanes, "_save", dies)
    one.lanes.skip(SkipAhead("counts", AFTER, RIGHT))
    deadline = time.monotonic() + 10
    while not one.errors and time.monotonic() < deadline:
        time.sleep(0.01)
    restored = restart(one)
    assert (restored.upto, restored.trimmed_upto, restored.end) == (BASE + 4, RIGHT, RIGHT)


def test_a_damaged_checkpoint_is_set_aside(one: Lanes, tmp_path: Path) -> None:
    one.run(BASE, BASE + 4, BASE)
    one.lanes.checkpoint(Checkpoint("counts"))
    one.until(Checkpointed)
    path = tmp_path / "checkpoints" / "counts" / "state"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(Damaged, match=f"{path} is damaged"):
            read_sealed(path, "checkpoint of counts", "")
    restored = restart(one)
    assert restored == RestoredLog("counts", BASE, BASE, BASE, digest=LogDigest(BASE, BASE, 0))
    assert (tmp_path / "damaged" / "counts" / "checkpoints" / "state").exists()


def test_a_damaged_checkpoint_is_given_to_no_other_replica(one: Lanes, tmp_path: Path) -> None:
    one.run(BASE, BASE + 4, BASE)
    one.lanes.checkpoint(Checkpoint("counts"))
    one.until(Checkpointed)
    copy = tmp_path / "copy"
    copy.mkdir()
    assert one.lanes.snapshot("counts", copy) == BASE + 4
    (copy / "state").write_bytes((copy / "state").read_bytes()[:-1] + b"\0")
    with pytest.raises(WireError, match="a snapshot of 'counts' that is none"):
        one.lanes.install("counts", BASE + 4, copy)
    path = tmp_path / "checkpoints" / "counts" / "state"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Damaged):
        one.lanes.snapshot("counts", copy)


def test_an_operator_that_fails_is_named_with_the_one_bucket(
    one: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place,) = one.lanes._lanes["counts"].engine._places
    bad_us = (BASE + 4) * 500_000

    def step(inputs: Any, state: Any, before: int, now: int) -> Any:
        if before < bad_us <= now:
            raise ValueError("odd tuple")
        return place.node.step(inputs, state, before, now)

    failing = replace(place, node=replace(place.node, step=step))
    monkeypatch.setattr(one.lanes._lanes["counts"].engine, "_places", [failing])
    one.lanes.run_stable(one.work(BASE, BASE + 8, BASE))
    deadline = time.monotonic() + 10
    while not one.errors:
        assert time.monotonic() < deadline, one.told
        time.sleep(0.01)
    bucket = BASE + 3
    assert isinstance(one.errors[0], OperatorFailed)
    assert str(one.errors[0]) == (
        f"the operator 'counts' fails on tuples in bucket {bucket} of 'counts':"
        " ValueError: odd tuple"
    )
