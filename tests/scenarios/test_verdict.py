"""A verdict says what happened in the words of the file, and what of it was not expected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from australis.kernel.durations import SECOND
from australis.runtime.client import Change, ChangeKind
from australis.runtime.testbed import Heard, computed, stable_upto
from australis.scenarios import simulated
from australis.scenarios.model import CLIENT, Expected, Scenario, beginning
from australis.scenarios.scenario_file import read
from australis.scenarios.verdict import Course, Verdict, differences, settled_at, verdict_on

QUIET = """\
scenario: quiet
says: Nothing fails.
diagram:
  diagram: d
  bucket: 500 ms
  sources: {s: {generate: connections, rate: 20}}
  operators: {large: {filter: s, where: bytes > 100}}
replicas: {large: [a, b]}
sources: {s: e}
lasts: 3 s
expect: {stable: equal, tentative: none, corrected: all, within: 1 s}
"""


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return read(QUIET, "quiet.yaml")


@pytest.fixture(scope="module")
def heard(scenario: Scenario) -> list[Heard]:
    """What the client hears when nothing fails."""
    listener = simulated.Listener({CLIENT: "large"})
    simulated.Run(simulated.setup_of(scenario), extra=lambda _: [listener]).execute()
    return listener.told["large"]


def judged(scenario: Scenario, heard: list[Heard], *broken: str) -> Verdict:
    course = Course({"large": heard}, 5.0, 5.0, 9, 8.0, broken)
    upto = max((h.change.bucket for h in heard if h.change.kind is ChangeKind.INSERTION), default=0)
    known = computed(beginning(scenario.diagram, simulated.START), Path(), upto)
    return verdict_on(scenario, "sim", known, course)


def with_rows(heard: list[Heard]) -> int:
    """Where a bucket with tuples stands, in the middle."""
    return next(i for i, h in enumerate(heard) if i > 5 and h.change.rows)


def test_all_is_well(scenario: Scenario, heard: list[Heard]) -> None:
    found = judged(scenario, heard)
    assert found.ok, found
    assert found.words == {
        "stable": "equal", "tentative": "none", "corrected": "all", "within": "kept"
    }  # fmt: skip
    assert found.facts.got == found.facts.expected > 20
    assert found.as_json()["ok"] is True


def test_a_lost_bucket(scenario: Scenario, heard: list[Heard]) -> None:
    at = with_rows(heard)
    found = judged(scenario, heard[:at] + heard[at + 1 :])
    assert found.words["stable"] == "lost"
    assert found.facts.lost == heard[at].change.rows
    assert found.misses == ("stable is 'lost', expected was 'equal'",)


def test_a_bucket_that_came_twice(scenario: Scenario, heard: list[Heard]) -> None:
    at = with_rows(heard)
    found = judged(scenario, [*heard[: at + 1], *heard[at:]])
    assert (found.words["stable"], found.ok) == ("twice", False)


def test_other_tuples(scenario: Scenario, heard: list[Heard]) -> None:
    at = with_rows(heard)
    batch = heard[at].change.batch
    changed = batch.set_column(
        batch.schema.get_field_index("bytes"), "bytes", pa.array([1] * batch.num_rows)
    )
    other = Heard(heard[at].at, Change(ChangeKind.INSERTION, heard[at].change.bucket, changed))
    found = judged(scenario, [*heard[:at], other, *heard[at + 1 :]])
    assert (found.words["stable"], found.ok) == ("different", False)


def test_what_is_no_longer_kept_is_told(scenario: Scenario, heard: list[Heard]) -> None:
    at = with_rows(heard)
    skip = Heard(heard[at].at, Change(ChangeKind.SKIPPED, heard[at].change.bucket))
    told = [*heard[:at], skip, *heard[at + 1 :]]
    found = judged(scenario, told)
    assert found.misses == ("stable is 'told', expected was 'equal'",)
    assert (found.facts.lost, found.facts.gone) == (0, heard[at].change.rows)
    expects = replace(scenario, expected=Expected({"stable": "told"}))
    assert judged(expects, told).ok
    assert judged(expects, heard).words["stable"] == "told", "nothing was gone"
    untold = [*told[: at + 3], *told[at + 4 :]]
    assert judged(expects, untold).words["stable"] == "lost"


def test_nothing_is_not_equal(scenario: Scenario) -> None:
    found = judged(scenario, [])
    assert (found.words["stable"], found.words["within"]) == ("empty", "missed")
    assert "the client had everything never, expected was within 1 s" in found.misses


def test_tentative_and_not_corrected(scenario: Scenario, heard: list[Heard]) -> None:
    last = heard[-1]
    batch = heard[with_rows(heard)].change.batch
    tentative = Heard(last.at, Change(ChangeKind.TENTATIVE, last.change.bucket + 1, batch))
    found = judged(scenario, [*heard, tentative])
    assert (found.words["tentative"], found.words["corrected"]) == ("some", "open")
    assert found.facts.tentative == batch.num_rows
    undone = [*heard, tentative, Heard(last.at, Change(ChangeKind.UNDO, last.change.bucket))]
    assert judged(scenario, undone).words["corrected"] == "open"
    done = [*undone, Heard(last.at, Change(ChangeKind.REC_DONE, -1))]
    assert judged(scenario, done).words["corrected"] == "all"


def test_what_else_is_broken_is_a_miss(scenario: Scenario, heard: list[Heard]) -> None:
    assert judged(scenario, heard, "it fell over").misses == ("it fell over",)


def test_silence(scenario: Scenario, heard: list[Heard]) -> None:
    strict = replace(scenario, expected=Expected({}, silence_us=SECOND))
    assert judged(strict, heard).words["silence"] == "kept"
    gap = [h for h in heard if not 5.5 < h.at < 7.5]
    assert judged(strict, gap).misses == (
        "the client heard of nothing new for 2.5 s, 1 s are allowed",
    )


def test_what_nobody_expects_is_no_miss(scenario: Scenario) -> None:
    indifferent = replace(scenario, expected=Expected({}))
    found = judged(indifferent, [])
    assert (found.ok, "within" in found.words) == (True, False)


def test_every_stream_counts(scenario: Scenario, heard: list[Heard]) -> None:
    """The source stands for a second stream; one that is empty is none that differs."""
    known = computed(beginning(scenario.diagram, simulated.START), Path(), stable_upto(heard))
    logged = known.logs["s"].items()
    other = [Heard(7.9, Change(ChangeKind.INSERTION, n, batch)) for n, batch in logged]

    def both(second: list[Heard]) -> Verdict:
        course = Course({"large": heard, "s": second}, 5.0, 5.0, 9, 8.0)
        return verdict_on(scenario, "sim", known, course)

    whole = both(other)
    assert whole.words["stable"] == "equal"
    rows = sum(one.change.rows for one in other)
    assert whole.facts.got == judged(scenario, heard).facts.got + rows
    assert whole.facts.settled_s == 2.9
    assert both(other[1:]).words["stable"] == "lost"
    assert both([]).facts.settled_s is None
    assert both([]).words["stable"] == "equal"


def test_settled_is_for_good() -> None:
    def told(*changes: tuple[ChangeKind, int]) -> list[Heard]:
        return [Heard(float(i), Change(kind, bucket)) for i, (kind, bucket) in enumerate(changes)]

    stable, tentative, undo, done = (
        ChangeKind.INSERTION,
        ChangeKind.TENTATIVE,
        ChangeKind.UNDO,
        ChangeKind.REC_DONE,
    )
    assert settled_at(told((stable, 1), (stable, 2), (stable, 3)), 2) == 1.0
    assert settled_at(told((stable, 1)), 2) is None
    again = told((stable, 2), (tentative, 3), (undo, 2), (stable, 3), (done, -1), (stable, 4))
    assert settled_at(again, 2) == 4.0


def test_worlds_that_differ(scenario: Scenario, heard: list[Heard]) -> None:
    one, other = judged(scenario, heard), replace(judged(scenario, []), world="live")
    assert differences(scenario, [one, one]) == []
    assert differences(scenario, [one, other]) == [
        "stable is 'equal' in sim, 'empty' in live",
        "within is 'kept' in sim, 'missed' in live",
    ]
    only_within = replace(scenario, expected=Expected({}, within_us=SECOND))
    assert len(differences(only_within, [one, other])) == 1
