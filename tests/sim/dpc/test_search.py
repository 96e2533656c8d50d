"""Searching over seeds, shrinking what fails, and telling the story of a run."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace

import pytest

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.kernel.trace import Trace
from australis.protocols.dpc.states import TRANSITIONS
from australis.sim.dpc import oracle
from australis.sim.dpc.broken import VARIANTS
from australis.sim.dpc.faults import Fault, Kind
from australis.sim.dpc.presets import draw
from australis.sim.dpc.probes import Violation
from australis.sim.dpc.run import Outcome, Run, Scenario
from australis.sim.dpc.search import Setup, Tally, judge, search, shrink
from australis.sim.dpc.story import Telling, Tone, explain, nodes_of, options_of, promises_of, tell

LITE = Setup("lite")


def first_violation(setup: Setup, checker: str, seeds: range) -> Outcome:
    """The first seed of a few that breaks this promise."""
    for seed in seeds:
        outcome = Run(setup.scenario(seed)).execute()
        if outcome.violation is not None and outcome.violation.checker == checker:
            return outcome
    raise AssertionError(f"{setup} never fails")


# --- many seeds ----------------------------------------------------------------------


def test_verdicts_come_in_order_and_are_those_of_single_runs() -> None:
    verdicts = list(search(LITE, range(3, 8), workers=2))
    assert [v.seed for v in verdicts] == [3, 4, 5, 6, 7]
    assert verdicts[2] == judge(LITE, 5)


def test_whoever_stops_listening_stops_the_work() -> None:
    verdicts = search(LITE, range(1_000_000), workers=1)
    assert next(verdicts).seed == 0
    verdicts.close()  # type: ignore[attr-defined]


def test_a_verdict_crosses_processes() -> None:
    verdict = judge(Setup("lite", "one boundary"), 1)
    assert verdict.checker == "logs"
    assert pickle.loads(pickle.dumps(verdict)) == verdict


def test_the_tally_knows_every_row_and_turn() -> None:
    tally = Tally()
    assert set(tally.rows) == set(range(1, 12))
    assert set(tally.turns) == {f"{phase.name} {turn.name}" for phase, turn in TRANSITIONS}
    verdict = judge(LITE, 1)
    for _ in range(2):
        tally.add(verdict)
    assert (tally.seeds, tally.delivered) == (2, 2 * verdict.delivered)
    assert tally.rows[1] == 2 * verdict.rows[1]
    assert "row 1" not in tally.rare(100)
    assert "row 10" in tally.rare(100)


@pytest.mark.parametrize(("preset", "variant"), [("none", None), ("lite", "none")])
def test_what_is_not_known_is_refused(preset: str, variant: str | None) -> None:
    with pytest.raises(UserError, match="'none' is not a"):
        Setup(preset, variant)


# --- shrinking -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "checker"), [("gaps", "logs"), ("k times D", "delay"), ("duplicates", "logs")]
)
def test_shrinking_finds_a_shorter_schedule_that_still_fails(variant: str, checker: str) -> None:
    found = first_violation(Setup("swarm", variant), checker, range(1, 30))
    assert found.violation is not None
    shrunk = shrink(found.scenario, found.violation, most_tries=60)
    before, after = found.scenario.faults, shrunk.scenario.faults
    assert len(after) < len(before)
    assert sum(f.lasts_us for f in after) < sum(f.lasts_us for f in before)
    again = Run(shrunk.scenario).execute().violation
    assert again is not None
    assert (again.checker, again.said) == (checker, shrunk.violation.said)
    assert shrunk.tries <= 60


def test_shrinking_finds_that_no_fault_is_needed() -> None:
    found = first_violation(Setup("swarm", "one boundary"), "logs", range(1, 5))
    assert found.violation is not None
    shrunk = shrink(found.scenario, found.violation)
    assert (shrunk.scenario.faults, shrunk.tries) == ((), 1)


def test_shrinking_gives_up_in_time() -> None:
    scenario = Setup("swarm").scenario(1)
    shrunk = shrink(scenario, Violation("stable", "never happens here"), most_tries=3)
    assert (shrunk.scenario.faults, shrunk.tries) == (scenario.faults, 3)


# --- stories -------------------------------------------------------------------------


def cut_source(lasts_us: int) -> Scenario:
    """The small diagram, one source of which is cut off once."""
    return replace(draw("lite", 1), faults=(Fault(Kind.ISOLATE, 30_500_000, lasts_us, "s1"),))


@pytest.fixture(scope="module")
def long_failure() -> Telling:
    return tell(cut_source(10 * SECOND))


def test_a_long_failure_is_told_from_fault_to_correction(long_failure: Telling) -> None:
    texts = [line.text for line in long_failure.lines]
    expected = [
        "FAULT isolate for 10.00 s",
        "merged: STABLE -> UP_FAILURE (input failed)",
        "tentative ",
        "MENDED isolate",
        "merged: UP_FAILURE -> STABILIZATION (reconciling)",
        "UNDO: everything after bucket 29 is taken back",
        "corrected 30..",
        "REC_DONE: the corrections are complete",
        "stable up to bucket 118",
    ]
    places = [next(i for i, text in enumerate(texts) if text.startswith(e)) for e in expected]
    assert places == sorted(places)
    assert texts[0] == "STABLE"
    assert long_failure.outcome.violation is None
    assert 0 < long_failure.worst_delay_us <= long_failure.delay_bound_us


def test_a_short_failure_shows_nothing_tentative() -> None:
    tones = {line.tone for line in tell(cut_source(SECOND)).lines}
    assert Tone.FAULT in tones
    assert Tone.TENTATIVE not in tones


def test_watching_changes_nothing() -> None:
    watched = tell(draw("swarm", 3))
    plain = Run(draw("swarm", 3), Trace()).execute()
    assert plain.trace is not None
    assert watched.trace.digest == plain.trace.digest


def test_how_an_output_came_about(long_failure: Telling) -> None:
    chain = explain(long_failure, "Tentatives(")
    assert "TimerFired" in chain[0]
    assert any("RunTentative" in line for line in chain)
    assert "client of step2" in chain[-1]
    assert explain(long_failure, "never said") == []
    assert explain(long_failure) == []


def test_how_a_violation_came_about() -> None:
    broken = tell(Setup("lite", "one boundary").scenario(1))
    assert broken.lines[-1].tone is Tone.BROKEN
    assert "logged other tuples" in broken.lines[-1].text
    assert any("RunStable" in line for line in explain(broken))
    assert promises_of(broken)["logs"][0] == "BROKEN"


def test_what_was_drawn_is_told(long_failure: Telling) -> None:
    scenario = long_failure.outcome.scenario
    assert nodes_of(scenario)["merge"] == "2 replicas, merged from s1, s2, s3"
    assert "heartbeat 250 ms" in options_of(scenario)["failures"]
    assert {kept for kept, _ in promises_of(long_failure).values()} == {"kept"}


def test_every_variant_says_what_it_does() -> None:
    assert all(v.says.endswith(".") and "\n" not in v.says for v in VARIANTS.values())


# --- memory --------------------------------------------------------------------------


def peak_kb(seconds: int) -> float:
    """The most memory a run of `performance` needs at any moment."""
    drawn = draw("performance", 1)
    options = replace(
        drawn.options, heartbeat_us=SECOND, max_delay_us=12 * SECOND, long_failure_us=12 * SECOND
    )
    scenario = replace(drawn, safety_us=seconds * SECOND, options=options)
    tracemalloc.start()
    try:
        assert Run(scenario).execute().violation is None
        return tracemalloc.get_traced_memory()[1] / 1e3
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_length_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the oracle and the shared engines remember is full after 512 buckets.
    monkeypatch.setattr(oracle, "FORGET_AFTER", 256)
    assert peak_kb(2400) < 1.3 * peak_kb(600)
