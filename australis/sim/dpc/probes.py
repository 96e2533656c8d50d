"""What the checkers see of a run: everything, as it happens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from australis.protocols.dpc.messages import Bucket, Heartbeat
from australis.protocols.dpc.replica import ReplicaMachine


class Violation(Exception):
    """A promise was broken."""

    def __init__(self, checker: str, said: str) -> None:
        self.checker = checker
        self.said = said
        super().__init__(f"{checker}: {said}")


class Checker:
    """Watches a run for one promise; what it does not care about it need not override."""

    name = "nothing"

    def entered(self, source: str, new: Sequence[Bucket], now: int) -> None:
        """A source has logged buckets."""

    def appended(self, node: str, stream: str, end: int, new: Sequence[Bucket]) -> None:
        """A replica appends buckets to its stable log, which ended at `end`."""

    def delivered(self, client: str, what: Any, now: int) -> None:
        """A client's application was told something."""

    def heard(self, node: str, sender: str, heartbeat: Heartbeat) -> None:
        """A producer heard from a consumer."""

    def sent(self, node: str, to: str, stream: str) -> None:
        """A producer sends tuples."""

    def looked(self, node: str, machine: ReplicaMachine) -> None:
        """A node has handled an event."""

    def gone(self, machine: ReplicaMachine) -> None:
        """A node is about to die, or the run is over."""

    def finish(self) -> None:
        """The run is over and everything had time to heal."""

    def fail(self, said: str) -> None:
        """Stop the run: the promise is broken."""
        raise Violation(self.name, said)


class Probe:
    """Passes what happens on to all checkers that care."""

    def __init__(self, checkers: Iterable[Checker]) -> None:
        self.checkers = list(checkers)
        for hook in (
            "entered",
            "appended",
            "delivered",
            "heard",
            "sent",
            "looked",
            "gone",
            "finish",
        ):
            setattr(self, f"_{hook}", self._caring(hook))

    def _caring(self, hook: str) -> list[Any]:
        unchanged = getattr(Checker, hook)
        return [getattr(c, hook) for c in self.checkers if getattr(type(c), hook) is not unchanged]

    _entered: list[Any]
    _appended: list[Any]
    _delivered: list[Any]
    _heard: list[Any]
    _sent: list[Any]
    _looked: list[Any]
    _gone: list[Any]
    _finish: list[Any]

    def entered(self, source: str, new: Sequence[Bucket], now: int) -> None:
        for tell in self._entered:
            tell(source, new, now)

    def appended(self, node: str, stream: str, end: int, new: Sequence[Bucket]) -> None:
        for tell in self._appended:
            tell(node, stream, end, new)

    def delivered(self, client: str, what: Any, now: int) -> None:
        for tell in self._delivered:
            tell(client, what, now)

    def heard(self, node: str, sender: str, heartbeat: Heartbeat) -> None:
        for tell in self._heard:
            tell(node, sender, heartbeat)

    def sent(self, node: str, to: str, stream: str) -> None:
        for tell in self._sent:
            tell(node, to, stream)

    def looked(self, node: str, machine: ReplicaMachine) -> None:
        for tell in self._looked:
            tell(node, machine)

    def gone(self, machine: ReplicaMachine) -> None:
        for tell in self._gone:
            tell(machine)

    def finish(self) -> None:
        for tell in self._finish:
            tell()
