"""The simulated world's checkers over a live run: content with a good record, not with others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from australis.kernel.durations import SECOND
from australis.runtime.client import Change, ChangeKind
from australis.runtime.files import FileDisk
from australis.runtime.testbed import Heard, Testbed, computed
from australis.scenarios import real
from australis.scenarios.recorded import Schedule, judge
from australis.scenarios.scenario_file import load
from australis.sim import faults
from australis.streams.log import StableLog

pytestmark = pytest.mark.timeout(300)

SCENARIO = Path(__file__).parents[2] / "examples" / "scenarios" / "source_cut_short.yaml"
LASTS_S = 4


@dataclass
class Recorded:
    """A run without faults that is over."""

    testbed: Testbed
    began_s: float

    def found(self, *happened: faults.Fault, lasts_s: int = LASTS_S) -> list[str]:
        schedule = Schedule(happened, lasts_s * SECOND, recovery_us=0)
        return [*judge(self.testbed, self.testbed.computed(), self.began_s, schedule).broken]

    @property
    def middle(self) -> int:
        """Where in the record stable tuples came, well after the beginning."""
        heard = enumerate(self.testbed.heard)
        return next(i for i, h in heard if h.change.rows and h.at > self.began_s + 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    scenario = load(SCENARIO)
    directory = tmp_path_factory.mktemp("recorded")
    with real.Stage(real.write(scenario, directory, "reference"), scenario.streams) as testbed:
        testbed.wait_until_stable()
        began_s = time.monotonic()
        testbed.wait(LASTS_S)
    return Recorded(testbed, began_s)


@pytest.fixture
def recorded(whole: Recorded) -> Iterator[Recorded]:
    """The same for tests that change what was heard."""
    kept = list(whole.testbed.heard)
    yield whole
    whole.testbed.heard[:] = kept


def test_a_good_run(recorded: Recorded) -> None:
    assert recorded.found() == []


def lose_a_bucket(heard: list[Heard], at: int) -> None:
    del heard[at]


def tell_a_bucket_twice(heard: list[Heard], at: int) -> None:
    heard.insert(at, heard[at])


def tell_other_tuples(heard: list[Heard], at: int) -> None:
    change = heard[at].change
    assert change.batch is not None
    heard[at] = replace(heard[at], change=replace(change, batch=change.batch.slice(1)))


def tell_something_tentative(heard: list[Heard], at: int) -> None:
    last = heard[-1].change.bucket
    heard.append(Heard(heard[-1].at, Change(ChangeKind.TENTATIVE, last + 1)))


def be_late(heard: list[Heard], since_s: float) -> None:
    """What came in the last quarter came later; the rest shows what is usual on this machine."""
    since = next(i for i, h in enumerate(heard) if h.at >= since_s)
    at = since + 3 * (len(heard) - since) // 4
    heard[at:] = [replace(h, at=h.at + 20) for h in heard[at:]]


@pytest.mark.parametrize(
    ("change", "objections"),
    [
        (lose_a_bucket, ["stable: client got bucket"]),
        (tell_a_bucket_twice, ["stable: client got bucket"]),
        (tell_other_tuples, ["stable: client got other tuples in bucket"]),
        (tell_something_tentative, ["corrected: client still believes", "masked: client got"]),
    ],
)
def test_what_was_heard_is_wrong(
    recorded: Recorded, change: Callable[[list[Heard], int], None], objections: list[str]
) -> None:
    change(recorded.testbed.heard, recorded.middle)
    found = recorded.found()
    assert len(found) == len(objections)
    assert all(said.startswith(begin) for said, begin in zip(found, objections, strict=True)), found


def test_it_came_too_late(recorded: Recorded) -> None:
    be_late(recorded.testbed.heard, recorded.began_s)
    later = recorded.found(lasts_s=60)
    assert [said.split(":")[0] for said in later] == ["delay", "progress"]
    cut = [
        faults.Fault(faults.Kind.CUT, SECOND, 50 * SECOND, f"counts@{node}", "client")
        for node in ("a", "b")
    ]
    excused = recorded.found(*cut, lasts_s=60)
    assert excused == [], "the client was cut off meanwhile"


def test_a_replica_has_logged_something_else(recorded: Recorded) -> None:
    testbed = recorded.testbed
    schema = computed(testbed.diagram, testbed.base, testbed.stable_upto).schemas[testbed.stream]
    (path,) = (testbed.base / testbed.cluster.state / "b").glob(f"*/logs/{testbed.stream}")
    log = StableLog(FileDisk(path), schema, testbed.diagram.buckets)
    boundary = log.boundary_us
    buckets = list(log.read(testbed.base_bucket, testbed.stable_upto))
    number, batch = buckets[-1]
    log.restart_at(testbed.base_bucket)
    log.append([*buckets[:-1], (number, batch.slice(1))], boundary)
    (said,) = recorded.found()
    assert said.startswith("logs: b logged other tuples in bucket")
