"""Rounds that run at once, each in a process of its own, with something short in their place."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from australis.kernel.errors import Stopped
from australis.scenarios.rounds import Round, Rounds, Settings
from australis.scenarios.side_by_side import Say, side_by_side
from australis.scenarios.verdict import Facts, Judged

FACTS = Facts(10, 10, 0, 0, 3, 0.5, 0.25, Judged(40, 12, 2.5, 7, 3, ()), 1.5)
LONG_S = 60.0


def quiet(number: int, said: str) -> None:
    """No progress is of interest."""


def until(path: Path) -> None:
    deadline = time.monotonic() + LONG_S
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def finished(number: int) -> Round:
    return Round(
        round=number,
        seed=number,
        scenario="s",
        faults=(),
        misses=(),
        facts=FACTS,
        took_s=0.1,
        file="",
    )


def speaks(number: int, say: Say) -> Round:
    say(number, f"in {os.getpid()}")
    return finished(number)


def dies(number: int, say: Say) -> Round:
    os._exit(7)


@dataclass(frozen=True)
class Waits:
    """A round that begins and never ends, and says when it has cleaned up."""

    directory: Path

    def __call__(self, number: int, say: Say) -> Round:
        if number == 0:
            until(self.directory / "began 1")
            return finished(number)
        try:
            (self.directory / f"began {number}").touch()
            time.sleep(LONG_S)
        finally:
            time.sleep(0.1)
            (self.directory / f"cleaned {number}").touch()
        return finished(number)


@dataclass(frozen=True)
class Backwards(Rounds):
    """The first round ends when the fourth has begun, which takes the place of the third."""

    def _run(self, jobs: int, number: int, say: Say) -> Round:
        if number == 0:
            until(self.directory / "fourth")
        elif number == 3:
            (self.directory / "fourth").touch()
        if number in (1, 3):
            time.sleep(LONG_S)
        return finished(number)


def test_each_round_has_a_process_of_its_own() -> None:
    heard: list[tuple[int, str]] = []
    results = side_by_side(speaks, range(3), 2, lambda number, said: heard.append((number, said)))
    assert sorted(number for number, _ in results) == [0, 1, 2]
    assert sorted(number for number, _ in heard) == [0, 1, 2]
    assert len({said for _, said in heard} | {f"in {os.getpid()}"}) == 4


def test_a_process_that_ends_by_itself_ends_all() -> None:
    with pytest.raises(Stopped, match="the process of round 0 has ended with exit code 7"):
        list(side_by_side(dies, range(1), 2, quiet))


def test_rounds_that_still_run_are_interrupted_and_clean_up(tmp_path: Path) -> None:
    with closing(side_by_side(Waits(tmp_path), range(3), 2, quiet)) as results:
        assert next(results)[0] == 0
    assert (tmp_path / "cleaned 1").exists()
    assert not (tmp_path / "began 2").exists()


def test_results_are_recorded_in_order(tmp_path: Path) -> None:
    rounds = Backwards(tmp_path, Settings("reference", 0))
    with closing(rounds.run(4, quiet, jobs=3)) as results:
        assert next(results).round == 0
        assert [*rounds.finished()] == [0]
    assert [*rounds.finished()] == [0, 2]  # what has finished is not repeated
