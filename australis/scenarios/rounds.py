"""Rounds of drawn scenarios against real clusters, with their state in a directory.

`chaos.json` has the engine and the first seed, `rounds.jsonl` one line for each finished round; a
round that was interrupted is run again. `scenarios/` keeps the file of every round, and the
directory of a failed round (`round-0007`) what its nodes left, with its story.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import DecodeError, Struct, ValidationError
from msgspec import json as msgjson

from australis.deployment.cluster import Engine
from australis.kernel.errors import Place, UserError
from australis.scenarios import drawn, real
from australis.scenarios.scenario_file import load
from australis.scenarios.side_by_side import Results, RunRound, Say, side_by_side
from australis.scenarios.verdict import Facts

SETTINGS, RESULTS = "chaos.json", "rounds.jsonl"


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """What all rounds of a directory have in common."""

    engine: Engine
    seed: int
    """The seed of the first round; each further round has the next one."""


class Round(Struct, frozen=True, kw_only=True):
    """The outcome of one round."""

    round: int
    seed: int
    scenario: str
    faults: tuple[str, ...]
    misses: tuple[str, ...]
    facts: Facts
    took_s: float
    load: float = 0.0
    """The load of the machine in the last minute: where it is many times the number of cores, nodes
    are too slow to be judged by the clock."""
    jobs: int = 1
    """The number of rounds that ran at once."""
    file: str
    """The scenario file, which runs in both worlds."""
    logs: str = ""
    """The directory of the nodes' files, if something was missed."""
    story: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all promises were kept."""
        return not self.misses

    @property
    def unjudged(self) -> tuple[str, ...]:
        """What could not be judged, though no promise is known to be broken."""
        judged = self.facts.judged
        if judged is None:
            return ("nothing but what its clients got",)
        found = [] if judged.delays else ["no delay"]
        found += [] if judged.masked_s else ["no masking"]
        cut = " and ".join(judged.incomplete)
        found += [f"no lane, since the trace of {cut} was too large"] if cut else []
        return tuple(found)


@dataclass(frozen=True)
class Rounds:
    """The rounds of a directory."""

    directory: Path
    settings: Settings

    @classmethod
    def open(cls, directory: Path, engine: Engine | None, seed: int | None) -> Rounds:
        """Open a directory, or begin in it; what is given must be what it was begun with."""
        path = directory / SETTINGS
        if path.exists():
            try:
                found = msgjson.decode(path.read_bytes(), type=Settings)
            except (DecodeError, ValidationError) as error:
                raise UserError(
                    f"is not of 'australis chaos': {error}", place=Place(str(path))
                ) from None
            for name, given, was in (("engine", engine, found.engine), ("seed", seed, found.seed)):
                if given is not None and given != was:
                    sentence = f"is {given}, but these rounds were begun with {was}"
                    raise UserError(sentence, name=f"--{name}", place=Place(str(path)))
            return cls(directory, found)
        directory.mkdir(parents=True, exist_ok=True)
        settings = Settings(engine or "reference", seed or 0)
        path.write_bytes(msgjson.encode(settings))
        return cls(directory, settings)

    def finished(self) -> dict[int, Round]:
        """The finished rounds by their numbers; a line that was cut off does not count."""
        path, found = self.directory / RESULTS, {}
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            if line.endswith(b"\n") and line.strip():
                one = msgjson.decode(line, type=Round)
                found[one.round] = one
        return found

    def run(self, count: int, say: Say, jobs: int = 1) -> Generator[Round]:
        """Run those of the first rounds that are not finished, at most `jobs` at once.

        They are recorded and yielded in order; if this ends early, rounds that finished before an
        earlier one are recorded too.
        """
        done = self.finished()
        todo = tuple(number for number in range(count) if number not in done)
        run = partial(self._run, jobs)
        results = side_by_side(run, todo, jobs, say) if jobs > 1 else _in_turn(run, todo, say)
        awaited, early = deque(todo), dict[int, Round]()
        with closing(results):
            try:
                for number, result in results:
                    early[number] = result
                    while awaited and awaited[0] in early:
                        first = early.pop(awaited.popleft())
                        self._record(first)
                        yield first
            finally:
                for _, result in sorted(early.items()):
                    self._record(result)

    def scenario_file(self, number: int) -> Path:
        """The scenario of a round, written down."""
        seed = self.settings.seed + number
        path = self.directory / "scenarios" / f"{number:04}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(drawn.text(seed, self.settings.engine), encoding="utf-8")
        return path

    def _run(self, jobs: int, number: int, say: Say) -> Round:
        file = self.scenario_file(number)
        scenario = load(file)
        place = self.directory / f"round-{number:04}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        began = time.monotonic()
        keep = False
        try:
            verdict = real.run(
                scenario, self.settings.engine, lambda said: say(number, said), place
            )
            keep = not verdict.ok
        finally:
            if not keep:
                shutil.rmtree(place, ignore_errors=True)
        if keep:
            (place / "story.txt").write_text("\n".join([*verdict.misses, *verdict.story, ""]))
        return Round(
            round=number,
            seed=self.settings.seed + number,
            scenario=scenario.name,
            faults=tuple(f"{fault.at_us / 1e6:g} s: {fault}" for fault in scenario.faults),
            misses=verdict.misses,
            facts=verdict.facts,
            took_s=round(time.monotonic() - began, 1),
            load=round(os.getloadavg()[0], 1),
            jobs=jobs,
            file=str(file),
            logs=verdict.logs,
            story=verdict.story,
        )

    def _record(self, result: Round) -> None:
        """Add a line that is on disk when this returns."""
        path = self.directory / RESULTS
        whole = path.read_bytes() if path.exists() else b""
        if whole and not whole.endswith(b"\n"):  # a line that was cut off
            path.write_bytes(whole[: whole.rfind(b"\n") + 1])
        with path.open("ab") as file:
            file.write(msgjson.encode(result) + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _in_turn(run: RunRound, numbers: Iterable[int], say: Say) -> Results:
    """Rounds one after the other in this process."""
    return ((number, run(number, say)) for number in numbers)


def summary(rounds: Sequence[Round]) -> dict[str, Any]:
    """The figures of finished rounds."""
    settled = sorted(r.facts.settled_s for r in rounds if r.facts.settled_s is not None)
    judged = [r.facts.judged for r in rounds if r.facts.judged is not None]
    recovered = [r.facts.recovered_s for r in rounds if r.facts.recovered_s is not None]
    return {
        "rounds": len(rounds),
        "broken": [r.round for r in rounds if not r.ok],
        "faults": sum(len(r.faults) for r in rounds),
        "tuples": sum(r.facts.got for r in rounds),
        "lost": sum(r.facts.lost for r in rounds),
        "duplicated": sum(r.facts.duplicated for r in rounds),
        "tentative": sum(r.facts.tentative > 0 for r in rounds),
        "judged": {
            "delays": sum(one.delays for one in judged),
            "in_failures": sum(one.in_failures for one in judged),
            "masked_s": round(sum(one.masked_s for one in judged), 1),
            "compared": sum(one.compared for one in judged),
            "precise": sum(one.precise for one in judged),
        },
        "unjudged": {r.round: r.unjudged for r in rounds if r.unjudged},
        "settled_s": {
            "median": settled[len(settled) // 2] if settled else None,
            "longest": settled[-1] if settled else None,
        },
        "recovered_s": max(recovered, default=None),
        "took_s": round(sum(r.took_s for r in rounds), 1),
    }
