"""Losses are told where there are any: nobody gives up what some replica has (thesis 5.8.5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from australis.protocols.dpc.effects import AnnounceLoss, SkipAhead
from australis.protocols.dpc.proxies import Skipped
from australis.protocols.dpc.topology import Topology
from australis.sim.dpc.probes import Checker
from australis.sim.faults import Fault, Kind


def behind_losses(topology: Topology, faults: Iterable[Fault]) -> set[str]:
    """The streams of fragments whose replicas all lose their disks, and those computed from them."""
    wiped = {fault.node for fault in faults if fault.kind is Kind.WIPE}
    whole = [r for r in topology.replicas if not wiped.issuperset((r.name, *r.peers))]
    lost = {o.stream for r in topology.replicas if r not in whole for o in r.outputs}
    return behind(topology, lost)


def behind(topology: Topology, streams: set[str]) -> set[str]:
    """These streams, and those computed from them."""
    found = set(streams)
    while True:
        more = {stream for stream, plan in topology.plans.items() if found & {*plan.inputs}}
        if more <= found:
            return found
        found |= more


class LossTold(Checker):
    """Only what all replicas have lost is skipped, and what cannot go on says so."""

    name = "loss"

    def __init__(
        self,
        topology: Topology,
        faults: Iterable[Fault],
        clients: Mapping[str, str],
        bounded: bool,
        let_go: Collection[str] = (),
        has: Callable[[str, int], str] = lambda client, bucket: "",
        counts: Callable[[str], bool] = lambda node: True,
    ) -> None:
        """A checker that expects skips for other reasons too where logs are `bounded`, and at
        clients for which no log waits, unless a replica that such a client hears `has` the next
        bucket. Replicas that have left, and do not know it yet, do not count."""
        self._topology = topology
        self._clients = clients
        self._bounded = bounded
        self._let_go = let_go
        self._has = has
        self._counts = counts
        faults = tuple(faults)
        self._behind = behind_losses(topology, faults)
        self._faults = faults
        self._spans = {o.stream: o.span for r in topology.replicas for o in r.outputs}
        self._told: set[tuple[str, str]] = set()
        self.begun = 0
        """How many times a replica began anew."""

    def skipped(self, node: str, effect: SkipAhead) -> None:
        if not self._counts(node):
            return
        self.begun += 1
        if not self._bounded and effect.output not in self._behind:
            self.fail(f"{node} begins {effect.output} anew though a replica had its state")

    def delivered(self, client: str, what: Any, now: int) -> None:
        if not isinstance(what, Skipped) or self._bounded:
            return
        if self._clients[client] in self._behind:
            return
        if client not in self._let_go:
            self.fail(f"{client} was told of gone buckets up to {what.upto}, which a replica had")
        if replica := self._has(client, what.after + 1):
            self.fail(
                f"{client} was told that bucket {what.after + 1} is gone, but {replica} has it"
            )

    def lost(self, node: str, effect: AnnounceLoss) -> None:
        if effect.waits_for:
            return
        if effect.output not in self._behind:
            self.fail(f"{node} gives up {effect.output} though a replica had its state")
        span = self._spans[effect.output]
        if span is not None:
            self.fail(f"{node} gives up {effect.output}, whose state reaches back {span} buckets")
        self._told.add((node, effect.output))

    @property
    def ended(self) -> set[str]:
        """The streams that cannot go on, and those computed from them."""
        return behind(self._topology, {stream for _, stream in self._told})

    def waits_for(self, until_us: int) -> str:
        """A replica that has not said yet what another one has said, of those that are back by
        then; empty if there is none."""
        streams = {stream for _, stream in self._told}
        left = {fault.node for fault in self._faults if fault.until_us > until_us}
        for replica in (r for r in self._topology.replicas if r.name not in left):
            for output in replica.outputs:
                if output.stream in streams and (replica.name, output.stream) not in self._told:
                    return f"{replica.name} has not said that {output.stream} cannot go on"
        return ""
