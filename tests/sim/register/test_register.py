"""Registers under faults: one history for each, and the checker that judges it."""

from __future__ import annotations

from australis.sim.harness.model import Setup, Tally
from australis.sim.harness.search import judge
from australis.sim.register.history import Operation, check
from australis.sim.register.model import MODEL

SEEDS = 150
"""`make sim` runs ten thousand."""


def test_every_seed_keeps_its_promises() -> None:
    tally = Tally(MODEL)
    for seed in range(SEEDS):
        result = judge(Setup(MODEL), seed)
        assert result.violations == (), seed
        tally.add(result)
    assert not tally.rare(3), "hardly tested"


def told(tag: str, begun: int, ended: int, *history: str, outcome: str = "decided") -> Operation:
    edits = tag.startswith("e")
    return Operation(tag, "r", edits, begun, ended, outcome, history, len(history))


def broken(*operations: Operation) -> set[str]:
    return {violation.checker for violation in check(list(operations))}


def test_a_history_that_is_right() -> None:
    assert not broken(
        told("e1", 0, 5, "e1"),
        told("e2", 1, 9, "e1", "e2"),
        told("r1", 3, 8),
        told("e3", 6, 7, "e1", outcome="refused"),
        told("r2", 10, 11, "e1", "e2"),
    )


def test_histories_that_are_wrong() -> None:
    first = told("e1", 0, 5, "e1")
    assert broken(first, told("e2", 1, 9, "e2")) == {"history"}
    assert broken(first, told("r1", 6, 9)) == {"order"}
    assert broken(first, told("e2", 6, 9, "e1", "e2", "e2")) == {"once"}
    assert broken(told("e1", 0, 5)) == {"told"}
    unreachable = told("e2", 1, 2, outcome="unreachable")
    assert broken(first, unreachable, told("r1", 6, 9, "e1", "e2")) == {"told"}
