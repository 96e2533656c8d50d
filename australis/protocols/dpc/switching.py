"""The choice of replicas to read an input from: table 4.3 of the thesis.

`Curr` sends the most recent data, `Bck` corrections in the background. Each row of
the table is a condition on the states of both and of the other replicas; rows are
applied until one says to remain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from australis.protocols.dpc.states import State

STABLE, UP_FAILURE, STABILIZATION, FAILURE = State

REMAIN = frozenset({1, 3, 4, 6, 11})
"""The rows of table 4.3 that end in "remain"."""


@dataclass(frozen=True)
class Choice:
    """The replicas `Curr` and `Bck`, and the row of table 4.3 that led to them."""

    curr: str
    bck: str | None
    row: int = 0


Better = Callable[[str], tuple[int, ...]]


def choose(
    now: Choice, states: Mapping[str, State], rank: Better
) -> tuple[Choice, tuple[int, ...]]:
    """The replicas to read from, given the state of each, and the rows that led there.

    `rank` orders replicas of the same state; the highest is taken.
    """
    rows: list[int] = []
    while not rows or rows[-1] not in REMAIN:
        now = _step(_in_order(now, states), states, rank)
        rows.append(now.row)
        assert len(rows) < 9, f"table 4.3 does not come to rest: {rows}"
    return now, tuple(rows)


def _in_order(now: Choice, states: Mapping[str, State]) -> Choice:
    """Order the pair so that `Curr` is in the better state, as the table assumes."""
    if now.bck is not None and states[now.bck] < states[now.curr]:
        return Choice(now.bck, now.curr, now.row)
    return now


def _step(now: Choice, states: Mapping[str, State], rank: Better) -> Choice:
    curr, bck = now.curr, now.bck
    state = states[curr]
    beside = states[bck] if bck is not None else None
    if state is STABLE:
        return Choice(curr, None, 1)

    def best(wanted: State) -> str | None:
        found = [r for r, s in states.items() if s is wanted and r not in (curr, bck)]
        return max(found, key=rank) if found else None

    stable = best(STABLE)
    if stable is not None:
        return Choice(stable, None, 2)
    if state is UP_FAILURE:
        if beside is STABILIZATION:
            return Choice(curr, bck, 3)
        correcting = best(STABILIZATION)
        return Choice(curr, None, 4) if correcting is None else Choice(curr, correcting, 5)
    if state is STABILIZATION:
        if beside is STABILIZATION:
            return Choice(max((curr, str(bck)), key=rank), None, 8)
        failing = best(UP_FAILURE)
        return Choice(curr, None, 6) if failing is None else Choice(failing, curr, 7)
    for wanted, row in ((UP_FAILURE, 9), (STABILIZATION, 10)):
        other = best(wanted)
        if other is not None:
            return Choice(other, None, row)
    return Choice(curr, None, 11)
