"""What tentative tuples said in a live run: a good record follows from its inputs, others do not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from australis.deployment.cluster import LogChoice
from australis.kernel.durations import SECOND
from australis.protocols.dpc.digests import Difference
from australis.protocols.dpc.effects import AnnounceDifference
from australis.runtime.client import ChangeKind
from australis.runtime.node.trace import FILE
from australis.runtime.testbed import Testbed, computed
from australis.scenarios import real
from australis.scenarios.replayed import judge
from australis.scenarios.scenario_file import load

pytestmark = pytest.mark.timeout(300)

SCENARIO = Path(__file__).parents[2] / "examples" / "scenarios" / "source_cut_long.yaml"
MOST = 400
"""The number of buckets that fill a log, more than there ever are."""
Line = dict[str, Any]


@dataclass
class Recorded:
    """A run that is over, in which a source was cut off for longer than the accepted delay."""

    testbed: Testbed

    def traces(self) -> list[Path]:
        state = self.testbed.base / self.testbed.cluster.state
        return [state / node / FILE for node in self.testbed.cluster.nodes]

    def found(self) -> list[str]:
        testbed = self.testbed
        upto = testbed.stable_upto
        return [*judge(testbed, computed(testbed.diagram, testbed.base, upto), upto, ()).broken]

    def change(self, change: Callable[[Line], bool]) -> None:
        """Doctor the first line of a trace that can be changed so."""
        for path in self.traces():
            lines = [json.loads(text) for text in path.read_text().splitlines()]
            if any(change(line) for line in lines):
                path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
                return
        raise AssertionError("no line to change")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    scenario = load(SCENARIO)
    bounded = replace(scenario.cluster, log=LogChoice(max_buckets=MOST))
    scenario = replace(scenario, cluster=bounded)
    (cut,) = scenario.faults
    with real.Stage(
        real.write(scenario, tmp_path_factory.mktemp("replayed"), "reference"), scenario.streams
    ) as testbed:
        testbed.wait_until_stable()
        testbed.wait(1)
        testbed.begin(cut)
        testbed.wait(cut.lasts_us / SECOND)
        testbed.end(cut)
        upto = testbed.closed()
        testbed.until(
            lambda: testbed.stable_upto >= upto and not testbed.uncorrected, "not healed", 120
        )
    return Recorded(testbed)


@pytest.fixture
def recorded(whole: Recorded) -> Iterator[Recorded]:
    """The same for tests that change the record."""
    kept = [(path, path.read_bytes()) for path in whole.traces()]
    heard = list(whole.testbed.heard)
    yield whole
    whole.testbed.heard[:] = heard
    for path, data in kept:
        path.write_bytes(data)


def test_a_good_run(recorded: Recorded) -> None:
    lines = [
        json.loads(text) for path in recorded.traces() for text in path.read_text().splitlines()
    ]
    for word in ("forked", "released", "computed", "arrived"):
        assert any(word in line for line in lines), word
    assert any(line["computed"]["said"] for line in lines if "computed" in line)
    assert any(
        h.change.kind is ChangeKind.TENTATIVE and h.change.rows for h in recorded.testbed.heard
    )
    assert recorded.found() == []


def says_nothing(line: Line) -> bool:
    if not line.get("computed", {}).get("said"):
        return False
    line["computed"]["said"] = ""
    return True


def says_something_else(line: Line) -> bool:
    if "computed" not in line:
        return False
    line["computed"]["said"] = "0" * 24
    return True


def gives_less(line: Line) -> bool:
    """The lane is not given what there was of an input."""
    given = [one for one in line.get("released", {}).get("inputs", ()) if one["given"]]
    for one in given:
        one["given"] = ""
    return bool(given)


def gives_more(line: Line) -> bool:
    """The lane is given of an input what never arrived."""
    for one in line.get("released", {}).get("inputs", ()):
        if one["have"] < line["released"]["bucket"] and one["said"] is None:
            one["said"] = one["given"] = "0" * 24
            return True
    return False


def says_that_nothing_is_missing(line: Line) -> bool:
    if not line.get("released", {}).get("missing"):
        return False
    line["released"]["missing"] = []
    return True


def says_that_it_differs(line: Line) -> bool:
    if "forked" not in line:
        return False
    found = AnnounceDifference("counts", "", (Difference("counts@b", 3, 4, 1, 2),), True)
    line["differs"] = to_builtins(found)
    return True


def begins_anew(line: Line) -> bool:
    if "forked" not in line:
        return False
    line["skipped"] = {"output": "counts", "after": 3, "right_from": 9}
    return True


def gives_up(line: Line) -> bool:
    if "forked" not in line:
        return False
    line["lost"] = {"output": "counts", "gone": [["s1", 7]], "waits_for": []}
    return True


def waits_for_a_peer(line: Line) -> bool:
    if "forked" not in line:
        return False
    line["lost"] = {"output": "counts", "gone": [["s1", 7]], "waits_for": ["counts@b"]}
    return True


def appends_to_a_full_log(line: Line) -> bool:
    if "appended" not in line:
        return False
    line["appended"]["trimmed_upto"] -= MOST
    return True


def runs_unasked(line: Line) -> bool:
    if "computed" not in line:
        return False
    line["computed"]["epoch"] += 1
    return True


@pytest.mark.parametrize(
    ("change", "objection"),
    [
        (says_nothing, "computed other tentative tuples in bucket"),
        (says_something_else, "computed other tentative tuples in bucket"),
        (gives_less, "nothing of what there was of"),
        (gives_more, "that nobody sent"),
        (runs_unasked, "unasked"),
        (says_that_nothing_is_missing, "says of its bucket"),
        (says_that_it_differs, "says that counts differs"),
        (appends_to_a_full_log, "buckets of 400"),
        (begins_anew, "begins counts anew though a replica had its state"),
        (gives_up, "gives up counts though a replica had its state"),
    ],
)
def test_a_record_of_something_else(
    recorded: Recorded, change: Callable[[Line], bool], objection: str
) -> None:
    recorded.change(change)
    assert any(objection in said for said in recorded.found())


def test_waiting_for_a_peer_is_not_giving_up(recorded: Recorded) -> None:
    before = recorded.found()
    recorded.change(waits_for_a_peer)
    assert recorded.found() == before


def test_lanes_that_were_forked_elsewhere(recorded: Recorded) -> None:
    """The state from which a lane must begin is that after the bucket that the record names."""
    whole = {path: path.read_text().splitlines() for path in recorded.traces()}

    def found(shift: int) -> list[str]:
        for path, texts in whole.items():
            lines = [json.loads(text) for text in texts]
            for line in lines:
                line.get("forked", {"upto": 0})["upto"] += shift
            path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return recorded.found()

    # Which windows were open, and so which shift matters, depends on when the cut began.
    said = next((said for shift in (8, 5, 11, 3, -3) if (said := found(shift))), [])
    assert any("computed other tentative tuples in bucket" in text for text in said)


def test_the_client_was_told_something_else(recorded: Recorded) -> None:
    heard = recorded.testbed.heard
    at = next(
        i for i, h in enumerate(heard) if h.change.kind is ChangeKind.TENTATIVE and h.change.rows
    )
    batch = heard[at].change.batch
    assert batch is not None
    heard[at] = replace(heard[at], change=replace(heard[at].change, batch=batch.slice(1)))
    (said,) = recorded.found()
    assert "client delivered tuples in bucket" in said
    assert said.endswith("that no lane said")


def test_the_client_was_told_that_something_else_is_missing(recorded: Recorded) -> None:
    heard = recorded.testbed.heard
    at = next(i for i, h in enumerate(heard) if h.change.missing)
    heard[at] = replace(heard[at], change=replace(heard[at].change, missing=("other",)))
    (said,) = recorded.found()
    assert "client was told that other is missing in bucket" in said
