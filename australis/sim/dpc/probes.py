"""The events of a run that checkers observe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from australis.deployment.deployed import Deployment
from australis.kernel.errors import Damaged
from australis.protocols.dpc.effects import (
    AnnounceDifference,
    AnnounceLease,
    AnnounceLoss,
    AnnouncePhase,
    AnnounceWentBack,
    ForkLane,
    RunTentative,
    SkipAhead,
    TentativeDone,
)
from australis.protocols.dpc.messages import Bucket, Heartbeat, TentativeData
from australis.protocols.dpc.replica import ReplicaMachine
from australis.sim.faults import Lie


class Violation(Exception):
    """Raised when a promise is broken."""

    def __init__(self, checker: str, said: str) -> None:
        self.checker = checker
        self.said = said
        super().__init__(f"{checker}: {said}")

    def __reduce__(self) -> tuple[type[Violation], tuple[str, str]]:
        return Violation, (self.checker, self.said)


class Checker:
    """Watches a run for one promise; overrides the methods of the events it needs."""

    name = "nothing"

    def entered(self, source: str, new: Sequence[Bucket], now: int) -> None:
        """A source has logged buckets."""

    def appended(self, node: str, stream: str, end: int, new: Sequence[Bucket]) -> None:
        """A replica appends buckets to its stable log, which ended at `end`."""

    def extended(self, node: str, stream: str, new: Sequence[Bucket], *, leads: bool) -> None:
        """One of the two proxies of a source appends to its log: new buckets, or a copy of some."""

    def delivered(self, client: str, what: Any, now: int) -> None:
        """A client proxy delivers to its application."""

    def heard(self, node: str, sender: str, heartbeat: Heartbeat) -> None:
        """A producer receives a message from a consumer."""

    def sent(self, node: str, to: str, stream: str) -> None:
        """A producer sends tuples."""

    def received(self, node: str, machine: Any, sender: str, data: TentativeData) -> None:
        """A machine is about to take a tentative bucket."""

    def forked(self, node: str, machine: ReplicaMachine, effect: ForkLane) -> None:
        """A replica forks a tentative lane."""

    def released(self, node: str, machine: ReplicaMachine, effect: RunTentative) -> None:
        """A replica gives a bucket to a tentative lane."""

    def computed(self, node: str, event: TentativeDone) -> None:
        """A tentative lane has processed a bucket."""

    def skipped(self, node: str, effect: SkipAhead) -> None:
        """A stable lane begins anew with an empty state."""

    def installed(self, node: str, machine: ReplicaMachine, stream: str) -> None:
        """A stable lane goes on from another replica's state."""

    def looked(self, node: str, machine: ReplicaMachine) -> None:
        """A node has handled an event."""

    def gone(self, machine: ReplicaMachine) -> None:
        """A node is about to crash, or the run is over."""

    def phase_changed(self, node: str, effect: AnnouncePhase) -> None:
        """An output of a replica moves from one phase to another."""

    def differs(self, node: str, effect: AnnounceDifference) -> None:
        """A machine finds that logs that should be equal differ, or agree again."""

    def lost(self, node: str, effect: AnnounceLoss) -> None:
        """An output says that it cannot go on, since its state is lost for good."""

    def leased(self, node: str, effect: AnnounceLease) -> None:
        """A log no longer waits for a consumer, or does so again."""

    def went_back(self, node: str, effect: AnnounceWentBack) -> None:
        """A source, or one that reads it, finds that its log has gone back, or no longer."""

    def lied(self, node: str, stream: str, kind: Lie, lost: int) -> None:
        """A disk gives back something else; so many of the latest buckets of a log are gone."""

    def damaged(self, node: str, stream: str, error: Damaged) -> None:
        """A node finds that what it has stored of a stream is damaged."""

    def decided(self, deployment: Deployment) -> None:
        """A register holds this deployment now."""

    def closed(self, node: str) -> None:
        """A replica is closed, since it has left the deployment."""

    def finish(self) -> None:
        """The run is over and every fault had time to heal."""

    def fail(self, said: str) -> None:
        """Stop the run: the promise is broken."""
        raise Violation(self.name, said)


class Probe(Checker):
    """Passes each event on to all checkers that override its method."""

    def __init__(self, checkers: Iterable[Checker]) -> None:
        self.checkers = list(checkers)
        for hook, unchanged in vars(Checker).items():
            if isinstance(unchanged, FunctionType) and hook != "fail":
                those = [c for c in self.checkers if getattr(type(c), hook) is not unchanged]
                setattr(self, hook, _telling([getattr(c, hook) for c in those]))


def _telling(listeners: list[Callable[..., None]]) -> Callable[..., None]:
    if len(listeners) == 1:
        return listeners[0]

    def tell(*args: Any, **named: Any) -> None:
        for listener in listeners:
            listener(*args, **named)

    return tell
