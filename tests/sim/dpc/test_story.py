"""The story of a run of DPC, and how much memory a run needs."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from australis.kernel.durations import SECOND
from australis.kernel.trace import Trace
from australis.protocols.dpc import digests
from australis.sim.dpc import oracle
from australis.sim.dpc.broken import VARIANTS
from australis.sim.dpc.model import MODEL
from australis.sim.dpc.presets import draw
from australis.sim.dpc.run import Run, Scenario
from australis.sim.dpc.story import nodes_of, options_of
from australis.sim.faults import Fault, Kind
from australis.sim.harness.model import Setup
from australis.sim.harness.story import Story, Tone, explain
from australis.sim.harness.story import tell as told

LITE = Setup(MODEL, "lite")


def tell(scenario: Scenario) -> Story:
    return told(LITE, scenario)


# --- stories -------------------------------------------------------------------------


def cut_source(lasts_us: int) -> Scenario:
    """The small diagram, one source of which is cut off once."""
    return replace(draw("lite", 1), faults=(Fault(Kind.ISOLATE, 30_500_000, lasts_us, "s1"),))


@pytest.fixture(scope="module")
def long_failure() -> Story:
    return tell(cut_source(10 * SECOND))


def test_a_long_failure_is_told_from_fault_to_correction(long_failure: Story) -> None:
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
    assert not long_failure.violations
    measured = MODEL.measured(long_failure.simulation)
    assert 0 < measured["worst_delay_s"] <= measured["delay_bound_s"]


def test_a_short_failure_shows_nothing_tentative() -> None:
    tones = {line.tone for line in tell(cut_source(SECOND)).lines}
    assert Tone.FAULT in tones
    assert Tone.TENTATIVE not in tones


def test_watching_changes_nothing() -> None:
    watched = tell(draw("swarm", 3))
    plain = Run(draw("swarm", 3), Trace()).execute()
    assert plain.trace is not None
    assert watched.trace.digest == plain.trace.digest


def test_how_an_output_came_about(long_failure: Story) -> None:
    chain = explain(long_failure, "Tentatives(")
    assert "TimerFired" in chain[0]
    assert any("RunTentative" in line for line in chain)
    assert "client of step2" in chain[-1]
    assert explain(long_failure, "never said") == []
    assert explain(long_failure) == []


def test_how_a_violation_came_about() -> None:
    broken = tell(Setup(MODEL, "lite", "one boundary").scenario(1))
    assert broken.lines[-1].tone is Tone.BROKEN
    assert "logged other tuples" in broken.lines[-1].text
    assert any("RunStable" in line for line in explain(broken))
    assert broken.promises["logs"][0] == "BROKEN"


def test_what_was_drawn_is_told(long_failure: Story) -> None:
    scenario = long_failure.scenario
    assert nodes_of(scenario)["merge"] == "2 replicas, merged from s1, s2, s3"
    assert "heartbeat 250 ms" in options_of(scenario)["failures"]
    assert {kept for kept, _ in long_failure.promises.values()} == {"kept"}


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
    # What the oracle, the shared engines and the digests remember is full after 128 buckets.
    monkeypatch.setattr(oracle, "FORGET_AFTER", 64)
    monkeypatch.setattr(digests, "KEPT", 64)
    assert peak_kb(2400) < 1.3 * peak_kb(600)
