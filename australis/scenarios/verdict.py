"""The outcome of a scenario: both worlds give the same kind of verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from australis.runtime.client import Change, ChangeKind
from australis.runtime.testbed import (
    Comparison,
    Computed,
    Heard,
    judge,
    longest_gap,
    news,
    rows_of,
)
from australis.scenarios.model import Scenario, seconds

KEPT, MISSED = "kept", "missed"


@dataclass(frozen=True)
class Course:
    """What a client received in a run, and the moments at which it is judged."""

    heard: Sequence[Heard]
    begin_s: float
    """When all replicas were stable: the scenario's times count from this moment."""
    healed_s: float
    """When the last fault was mended."""
    healed_bucket: int
    """The last bucket that the sources had closed by then."""
    end_s: float
    """When the scenario was over."""
    broken: tuple[str, ...] = ()
    """Broken promises beyond what the client received."""
    judged: int | None = None
    """The number of buckets of sources whose delay was judged; None: by other means."""
    recovered_s: float | None = None
    """The longest time from a restart until all outputs of the node were stable, if any."""


@dataclass(frozen=True)
class Facts:
    """The figures of a verdict."""

    expected: int
    """The number of tuples of the stream up to the client's position."""
    got: int
    lost: int
    duplicated: int
    tentative: int
    """The number of tuples that were tentative at their first delivery."""
    silence_s: float
    """The longest time without a new tuple for the client."""
    settled_s: float | None
    """The time after the last fault at which the client had everything, for good; None: never."""
    judged: int | None = None
    """The number of buckets of sources whose delay was judged; None: by other means."""
    recovered_s: float | None = None
    """The longest time from a restart until all outputs of the node were stable, if any."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a scenario in one world."""

    scenario: str
    world: str
    words: dict[str, str]
    """The outcome, in the words of the file's `expect`."""
    misses: tuple[str, ...]
    """Each expectation that was missed, as a sentence."""
    facts: Facts
    logs: str = ""
    """The directory of the logs, for diagnosis."""
    story: tuple[str, ...] = ()
    """What happened and when, where an expectation was missed."""

    @property
    def ok(self) -> bool:
        """Whether all expectations were met."""
        return not self.misses

    def as_json(self) -> dict[str, Any]:
        """The verdict as plain data, for programs."""
        return {"ok": self.ok} | asdict(self)


def verdict_on(scenario: Scenario, world: str, known: Computed, course: Course) -> Verdict:
    """Compare what a client received with the same stream without faults, up to the same bucket."""
    changes = [heard.change for heard in course.heard]
    stable = [change for change in changes if change.kind is ChangeKind.INSERTION]
    skipped = any(change.kind is ChangeKind.SKIPPED for change in changes)
    whole = known.table(scenario.stream).to_pylist() if stable else []
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


def _facts(compared: Comparison, course: Course) -> Facts:
    settled = settled_at(course.heard, course.healed_bucket)
    changes = (heard.change for heard in course.heard)
    return Facts(
        compared.expected,
        compared.got,
        compared.lost,
        compared.duplicated,
        sum(change.rows for change in changes if change.kind is ChangeKind.TENTATIVE),
        round(longest_gap(news(course.heard), course.begin_s, course.end_s), 3),
        None if settled is None else round(max(0.0, settled - course.healed_s), 3),
        course.judged,
        None if course.recovered_s is None else round(course.recovered_s, 3),
    )


def _stable(compared: Comparison, skipped: bool) -> str:
    if compared.lost or skipped:
        return "lost"
    if compared.duplicated:
        return "twice"
    if not compared.expected:
        return "empty"
    return "equal" if compared.equal else "different"


def _limits(scenario: Scenario, facts: Facts) -> dict[str, str]:
    """For each expected limit the message if it was missed, or ""."""
    found: dict[str, str] = {}
    silence_us, within_us = scenario.expected.silence_us, scenario.expected.within_us
    if silence_us is not None:
        allowed = seconds(silence_us)
        said = (
            f"the client heard of nothing new for {facts.silence_s:g} s, {allowed:g} s are allowed"
        )
        found["silence"] = said if facts.silence_s > allowed else ""
    at_most = scenario.expected.tentative_at_most
    if at_most is not None:
        said = f"{facts.tentative:,} tuples were tentative first, at most {at_most:,} were expected"
        found["tentative_at_most"] = said if facts.tentative > at_most else ""
    if within_us is not None:
        allowed, took = seconds(within_us), facts.settled_s
        when = "never" if took is None else f"only after {took:g} s"
        said = f"the client had everything {when}, expected was within {allowed:g} s"
        found["within"] = said if took is None or took > allowed else ""
    return found


class _Reader:
    """The state of a client, after a number of deliveries."""

    def __init__(self) -> None:
        self.upto = -1
        self._tentative: set[int] = set()
        self._correcting = False

    @classmethod
    def of(cls, changes: Iterable[Change]) -> _Reader:
        """The state after all these deliveries."""
        reader = cls()
        for change in changes:
            reader.take(change)
        return reader

    def take(self, change: Change) -> None:
        """Apply the next delivery."""
        match change.kind:
            case ChangeKind.INSERTION:
                self.upto = change.bucket
                self._tentative.discard(change.bucket)
            case ChangeKind.TENTATIVE:
                self._tentative.add(change.bucket)
            case ChangeKind.UNDO:
                self._tentative.clear()
                self._correcting = True
            case ChangeKind.REC_DONE:
                self._correcting = False
            case ChangeKind.SKIPPED:
                self.upto = change.bucket

    @property
    def waits(self) -> bool:
        """Whether corrections are still missing."""
        return bool(self._tentative) or self._correcting


def settled_at(heard: Iterable[Heard], bucket: int) -> float | None:
    """When a client had everything up to a bucket and waited for no correction; None: never."""
    reader, at = _Reader(), None
    for one in heard:
        reader.take(one.change)
        if reader.upto < bucket or reader.waits:
            at = None
        elif at is None:
            at = one.at
    return at


def differences(scenario: Scenario, verdicts: Sequence[Verdict]) -> list[str]:
    """The expectations on which the worlds disagree."""
    expected = scenario.expected
    limits = {
        "silence": expected.silence_us,
        "tentative_at_most": expected.tentative_at_most,
        "within": expected.within_us,
    }
    asked = [*expected.words, *(what for what, limit in limits.items() if limit is not None)]
    return [
        f"{what} is " + ", ".join(f"'{v.words[what]}' in {v.world}" for v in verdicts)
        for what in asked
        if len({verdict.words[what] for verdict in verdicts}) > 1
    ]
