"""Broken variants of what replicas do when none of them has a state any more (see `broken`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from australis.kernel.machine import Effect
from australis.protocols.dpc.loss import Loss
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.proxies import ClientMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.sim.dpc.run import Scenario
from australis.sim.harness.model import Variant


class PublishesWithinSpan(Output):
    """Publishes as soon as it begins anew, before its state is right again."""

    def _begin_after(self, bucket: int, span: int) -> list[Effect]:
        return super()._begin_after(bucket, 0)


class StaysSilent(Output):
    """Says nothing where it cannot go on."""

    def go_on_without(self, now: int) -> list[Effect]:
        return [] if self.config.span is None else super().go_on_without(now)


class _AsksNobody(Loss):
    def silent(self, now: int) -> list[str]:
        return []

    def decides(self, now: int) -> bool:
        return True


class AsksNobody(Output):
    """Begins anew without asking whether a replica has the state."""

    def share_with(self, name: str, peers: Any) -> None:
        super().share_with(name, peers)
        self.loss.__class__ = _AsksNobody


class WaitsForGone(ClientMachine):
    """Waits for buckets that no replica has any more."""

    def _skip(self, now: int) -> list[Effect]:
        return []


def _output(kind: type[Output]) -> Callable[[Scenario], Scenario]:
    machine = type("Broken", (ReplicaMachine,), {"output_class": kind})
    return lambda scenario: replace(scenario, replica_class=machine)


LOSS_VARIANTS: Mapping[str, Variant[Scenario]] = {
    name: Variant(name, str(kind.__doc__), apply, (caught_by,), range(60), "loss")
    for name, kind, apply, caught_by in (
        ("publishes within span", PublishesWithinSpan, _output(PublishesWithinSpan), "logs"),
        ("stays silent", StaysSilent, _output(StaysSilent), "liveness"),
        ("asks nobody", AsksNobody, _output(AsksNobody), "loss"),
        (
            "waits for gone",
            WaitsForGone,
            lambda scenario: replace(scenario, client_class=WaitsForGone),
            "liveness",
        ),
    )
}
