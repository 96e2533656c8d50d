"""The outcome of a scenario: both worlds give the same kind of verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
EMPTY = "empty"
EQUAL, TOLD = "equal", "told"
STABLE = ("lost", "twice", "different", TOLD, EQUAL, EMPTY)
"""The words for what clients got that is stable, the worst one first."""


@dataclass(frozen=True)
class Judged:
    """How much there was to judge in a live run."""

    delays: int
    """The number of buckets of sources whose delay was judged."""
    in_failures: int
    """The number of those that arrived while some fault lasted."""
    masked_s: float
    """The time in which no outage was long enough to excuse tentative results."""
    compared: int
    """The number of tentative buckets whose content was compared with a replay."""
    precise: int
    """The number of tentative buckets whose word on what is missing in them was compared."""
    incomplete: tuple[str, ...]
    """The nodes whose traces became too large: what lanes did was not judged then."""


@dataclass(frozen=True)
class Course:
    """What clients received in a run, and the moments at which it is judged."""

    heard: Mapping[str, Sequence[Heard]]
    """What was received of each stream."""
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
    judged: Judged | None = None
    """How much there was to judge; None: that is judged by other means."""
    recovered_s: float | None = None
    """The longest time from a restart until all outputs of the node were stable, if any."""


@dataclass(frozen=True)
class Facts:
    """The figures of a verdict."""

    expected: int
    """The number of tuples of all streams up to the clients' positions."""
    got: int
    lost: int
    duplicated: int
    tentative: int
    """The number of tuples that were tentative at their first delivery."""
    silence_s: float
    """The longest time without a new tuple for the client."""
    settled_s: float | None
    """The time after the last fault at which the client had everything, for good; None: never."""
    judged: Judged | None = None
    """How much there was to judge; None: that is judged by other means."""
    recovered_s: float | None = None
    """The longest time from a restart until all outputs of the node were stable, if any."""
    gone: int = 0
    """The number of tuples of which clients were told that they are gone; they do not count as
    lost."""


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
    """Compare what clients received with the same streams without faults, up to the same buckets."""
    streams = [_Compared.of(known, stream, heard) for stream, heard in course.heard.items()]
    facts = _facts(streams, course)
    waits = any(_Reader.of(changes_of(heard)).waits for heard in course.heard.values())
    words = {
        "stable": _worst(one.word for one in streams),
        "tentative": "some" if facts.tentative else "none",
        "corrected": "open" if waits else "all",
    }
    if words["stable"] == EQUAL and scenario.expected.words.get("stable") == TOLD:
        words["stable"] = TOLD  # of nothing, since nothing was gone
    misses = list(course.broken) + [
        f"{what} is '{words[what]}', expected was '{word}'"
        for what, word in scenario.expected.words.items()
        if words[what] != word
    ]
    for what, missed in _limits(scenario, facts).items():
        words[what] = MISSED if missed else KEPT
        misses += [missed] if missed else []
    return Verdict(scenario.name, world, words, tuple(misses), facts)


def changes_of(heard: Iterable[Heard]) -> list[Change]:
    """What was received, without the times."""
    return [one.change for one in heard]


@dataclass(frozen=True)
class _Compared:
    """What was received of a stream beside all of it, but for what the client knows is gone."""

    rows: Comparison
    skipped: bool
    """Whether the client was told that something is gone."""
    gone: int
    """The number of tuples of which it was told that."""

    @classmethod
    def of(cls, known: Computed, stream: str, heard: Sequence[Heard]) -> _Compared:
        """Compare what was received of a stream."""
        stable, skips, end = [], set[int](), -1
        for change in changes_of(heard):
            if change.kind is ChangeKind.INSERTION:
                stable.append(change)
            elif change.kind is ChangeKind.SKIPPED:
                skips |= {n for n in known.logs[stream] if end < n <= change.bucket}
            else:
                continue
            end = max(end, change.bucket)
        logged = {n: batch for n, batch in known.logs[stream].items() if n <= end}
        whole = [r for n, batch in logged.items() if n not in skips for r in batch.to_pylist()]
        gone = sum(logged[n].num_rows for n in skips)
        told = any(change.kind is ChangeKind.SKIPPED for change in changes_of(heard))
        return cls(judge(whole, rows_of(stable)), told, gone)

    @property
    def word(self) -> str:
        """The word for it."""
        if self.rows.lost:
            return "lost"
        if self.rows.duplicated:
            return "twice"
        if not self.rows.equal:
            return "different"
        if self.skipped:
            return TOLD
        return EQUAL if self.rows.expected else EMPTY


def _facts(streams: Sequence[_Compared], course: Course) -> Facts:
    healed = course.healed_bucket
    settled = [settled_at(heard, healed) for heard in course.heard.values()]
    last = None if None in settled else max(at for at in settled if at is not None)
    changes = [change for heard in course.heard.values() for change in changes_of(heard)]
    gaps = (
        longest_gap(news(heard), course.begin_s, course.end_s) for heard in course.heard.values()
    )
    return Facts(
        sum(one.rows.expected for one in streams),
        sum(one.rows.got for one in streams),
        sum(one.rows.lost for one in streams),
        sum(one.rows.duplicated for one in streams),
        sum(change.rows for change in changes if change.kind is ChangeKind.TENTATIVE),
        round(max(gaps), 3),
        None if last is None else round(max(0.0, last - course.healed_s), 3),
        course.judged,
        None if course.recovered_s is None else round(course.recovered_s, 3),
        sum(one.gone for one in streams),
    )


def _worst(words: Iterable[str]) -> str:
    """The word for all streams, given that for each: they are empty if all are."""
    given = [*words]
    return min([word for word in given if word != EMPTY] or [EMPTY], key=STABLE.index)


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
