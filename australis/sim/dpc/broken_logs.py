"""Deliberately broken variants of bounded logs and of the leases of their consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.proxies import ClientMachine, SourceMachine
from australis.protocols.dpc.subscribers import Subscriber, Subscribers
from australis.sim.dpc.hosts import SourceHost
from australis.sim.dpc.run import Scenario
from australis.sim.harness.model import Variant


class NeverFull(Output):
    """Appends to its log however long that is."""

    @property
    def full(self) -> bool:
        return False


class TakesAllRows(SourceHost):
    """Takes rows however full the source's log is."""

    @property
    def full(self) -> bool:
        return False


class NeverLapses(Subscribers):
    """Keeps logs for consumers that never come back."""

    def _is_gone(self, one: Subscriber, silence_us: int, now: int) -> bool:
        return False


class LapsesAtOnce(Subscribers):
    """Lets go of whoever holds up a full log, though it is there."""

    def _is_gone(self, one: Subscriber, silence_us: int, now: int) -> bool:
        return super()._is_gone(one, -1, now)


class SkipsAtOnce(ClientMachine):
    """Skips what the first replica that answers has let go of."""

    def _has_waited(self, now: int) -> bool:
        return self.name in self.options.leases


def _subscribers(kind: type[Subscribers]) -> Callable[[Scenario], Scenario]:
    def apply(scenario: Scenario) -> Scenario:
        part = {"subscribers_class": kind}
        output: Any = type("Broken", (Output,), part)
        replica: Any = type("Broken", (scenario.replica_class,), {"output_class": output})
        source: Any = type("Broken", (SourceMachine,), part)
        return replace(scenario, replica_class=replica, source_class=source)

    return apply


def _never_full(scenario: Scenario) -> Scenario:
    replica: Any = type("Broken", (scenario.replica_class,), {"output_class": NeverFull})
    return replace(scenario, replica_class=replica)


_LIST: list[tuple[str, type, Callable[[Scenario], Scenario], str]] = [
    ("never full", NeverFull, _never_full, "log bounds"),
    ("takes all rows", TakesAllRows, lambda s: replace(s, source_host=TakesAllRows), "log bounds"),
    ("never lapses", NeverLapses, _subscribers(NeverLapses), "liveness"),
    ("skips at once", SkipsAtOnce, lambda s: replace(s, client_class=SkipsAtOnce), "loss"),
    ("lapses at once", LapsesAtOnce, _subscribers(LapsesAtOnce), "loss"),
]
LOG_VARIANTS: Mapping[str, Variant[Scenario]] = {
    name: Variant(name, str(kind.__doc__), apply, (caught_by,), range(60), "absent")
    for name, kind, apply, caught_by in _LIST
}
