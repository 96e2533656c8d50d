"""Deliberately broken variants that ignore what a cluster file promises for a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from australis.protocols.dpc.outputs import Output
from australis.sim.dpc.run import Scenario
from australis.sim.harness.model import Variant


class OneDelayForAll(Output):
    """Takes the accepted delay of the cluster for that of every result."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.patience_us is not None:
            ahead = self.config.hops_ahead * self.options.hop_us
            self.patience_us = self.options.max_delay_us - ahead


class NeverSaysNever(Output):
    """Releases results tentatively that are never to be tentative."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.patience_us is None and not self.options.never:
            self.patience_us = self.options.max_delay_us // 2


def _replicas(output: type[Output], scenario: Scenario) -> Scenario:
    broken = type("Broken", (scenario.replica_class,), {"output_class": output})
    return replace(scenario, replica_class=broken)


_LIST: list[tuple[str, type[Output], str]] = [
    ("one delay for all", OneDelayForAll, "masked"),
    ("never says never", NeverSaysNever, "masked"),
]
CHOICE_VARIANTS: Mapping[str, Variant[Scenario]] = {
    name: Variant(
        *(name, str(kind.__doc__).strip(), partial(_replicas, kind), (caught_by,)),
        *(range(60), "choices"),
    )
    for name, kind, caught_by in _LIST
}
