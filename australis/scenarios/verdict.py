"""What came of a scenario: the same kind of verdict from both worlds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from australis.diagram.model import Diagram
from australis.live.client import Change, Kind
from australis.live.trial import (
    Heard,
    computed_at_once,
    judge,
    longest_gap,
    news,
    rows_of,
)
from australis.live.trial import Verdict as Compared
from australis.scenarios.model import Scenario, seconds

KEPT, MISSED = "kept", "missed"


@dataclass(frozen=True)
class Course:
    """What a client heard in a run, and the moments that matter for it."""

    heard: Sequence[Heard]
    begin_s: float
    """When all replicas were stable: the scenario's times count from here."""
    healed_s: float
    """When the last fault was mended."""
    healed_bucket: int
    """What the sources had closed by then."""
    end_s: float
    """When the scenario was over."""
    broken: tuple[str, ...] = ()
    """What went wrong besides what the client heard."""


@dataclass(frozen=True)
class Facts:
    """A verdict in numbers."""

    expected: int
    """So many tuples the stream has up to where the client is."""
    got: int
    lost: int
    duplicated: int
    tentative: int
    """So many tuples were tentative when they first came."""
    silence_s: float
    """The longest time in which the client heard of nothing new."""
    settled_s: float | None
    """So long after the last fault the client had everything, for good; None: never."""


@dataclass(frozen=True)
class Verdict:
    """What came of a scenario in one world."""

    scenario: str
    world: str
    words: dict[str, str]
    """What happened, in the words of the file's `expect`."""
    misses: tuple[str, ...]
    """What is not as it should be, a sentence each."""
    facts: Facts
    logs: str = ""
    """Where to look closer."""

    @property
    def ok(self) -> bool:
        """Whether everything is as expected."""
        return not self.misses

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {"ok": self.ok} | asdict(self)


def verdict_on(scenario: Scenario, world: str, diagram: Diagram, course: Course) -> Verdict:
    """Compare what a client heard with the tuples of the whole diagram, computed at once."""
    changes = [heard.change for heard in course.heard]
    stable = [change for change in changes if change.kind is Kind.STABLE]
    skipped = any(change.kind is Kind.SKIPPED for change in changes)
    upto = stable[-1].bucket if stable else -1
    whole = computed_at_once(diagram, Path(), scenario.stream, upto).to_pylist() if stable else []
    compared = judge(whole, rows_of(stable), skipped=skipped)
    facts = _facts(compared, course)
    words = {
        "stable": _stable(compared, skipped),
        "tentative": "some" if facts.tentative else "none",
        "corrected": "open" if _Reader.of(changes).waits else "all",
    }
    misses = list(course.broken) + [
        f"{what} is '{words[what]}', expected was '{word}'"
        for what, word in scenario.expected.words.items()
        if words[what] != word
    ]
    for what, missed in _limits(scenario, facts).items():
        words[what] = MISSED if missed else KEPT
        misses += [missed] if missed else []
    return Verdict(scenario.name, world, words, tuple(misses), facts)


def _facts(compared: Compared, course: Course) -> Facts:
    settled = settled_at(course.heard, course.healed_bucket)
    changes = (heard.change for heard in course.heard)
    return Facts(
        compared.expected,
        compared.got,
        compared.lost,
        compared.duplicated,
        sum(change.rows for change in changes if change.kind is Kind.TENTATIVE),
        round(longest_gap(news(course.heard), course.begin_s, course.end_s), 3),
        None if settled is None else round(max(0.0, settled - course.healed_s), 3),
    )


def _stable(compared: Compared, skipped: bool) -> str:
    if compared.lost or skipped:
        return "lost"
    if compared.duplicated:
        return "twice"
    if not compared.expected:
        return "empty"
    return "equal" if compared.equal else "different"


def _limits(scenario: Scenario, facts: Facts) -> dict[str, str]:
    """For each limit that is expected what to say of it; nothing ("") if it was kept."""
    found: dict[str, str] = {}
    silence_us, within_us = scenario.expected.silence_us, scenario.expected.within_us
    if silence_us is not None:
        allowed = seconds(silence_us)
        said = (
            f"the client heard of nothing new for {facts.silence_s:g} s, {allowed:g} s are allowed"
        )
        found["silence"] = said if facts.silence_s > allowed else ""
    if within_us is not None:
        allowed, took = seconds(within_us), facts.settled_s
        when = "never" if took is None else f"only after {took:g} s"
        said = f"the client had everything {when}, expected was within {allowed:g} s"
        found["within"] = said if took is None or took > allowed else ""
    return found


class _Reader:
    """What a client believes after what it was told."""

    def __init__(self) -> None:
        self.upto = -1
        self._tentative: set[int] = set()
        self._correcting = False

    @classmethod
    def of(cls, changes: Iterable[Change]) -> _Reader:
        """The reader of all these."""
        reader = cls()
        for change in changes:
            reader.take(change)
        return reader

    def take(self, change: Change) -> None:
        """Hear the next change."""
        match change.kind:
            case Kind.STABLE:
                self.upto = change.bucket
                self._tentative.discard(change.bucket)
            case Kind.TENTATIVE:
                self._tentative.add(change.bucket)
            case Kind.UNDO:
                self._tentative.clear()
                self._correcting = True
            case Kind.DONE:
                self._correcting = False
            case Kind.SKIPPED:
                self.upto = change.bucket

    @property
    def waits(self) -> bool:
        """Whether corrections are still to come."""
        return bool(self._tentative) or self._correcting


def settled_at(heard: Iterable[Heard], bucket: int) -> float | None:
    """From when on a client had all up to a bucket and waited for nothing; None: never."""
    reader, at = _Reader(), None
    for one in heard:
        reader.take(one.change)
        if reader.upto < bucket or reader.waits:
            at = None
        elif at is None:
            at = one.at
    return at


def differences(scenario: Scenario, verdicts: Sequence[Verdict]) -> list[str]:
    """Where the worlds do not agree about what the scenario expects."""
    expected = scenario.expected
    limits = {"silence": expected.silence_us, "within": expected.within_us}
    asked = [*expected.words, *(what for what, limit in limits.items() if limit is not None)]
    return [
        f"{what} is " + ", ".join(f"'{v.words[what]}' in {v.world}" for v in verdicts)
        for what in asked
        if len({verdict.words[what] for verdict in verdicts}) > 1
    ]
