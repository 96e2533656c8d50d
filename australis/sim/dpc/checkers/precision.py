"""A tentative bucket says exactly what is missing in it (thesis 5.8.3)."""

from __future__ import annotations

from typing import Any

from australis.node.hosts import HEAD_EPOCH
from australis.protocols.dpc.effects import ForkLane, RunTentative
from australis.protocols.dpc.messages import TentativeData
from australis.protocols.dpc.missing import Missing
from australis.protocols.dpc.proxies import ClientMachine, Tentatives
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.topology import Topology
from australis.sim.dpc.probes import Checker

Absent = frozenset[tuple[str, int]]
"""The buckets of sources that are missing."""
REMEMBER = 4096
"""The number of tentative buckets of all lanes that are kept for comparison."""


class Precision(Checker):
    """What a tentative bucket says is missing is what its lanes, and those upstream, were not given.

    The truth is counted bucket by bucket: what each lane was given since it was forked, as far as
    the state of its operators reaches back.
    """

    name = "precision"

    def __init__(self, topology: Topology) -> None:
        self._origins = {s: frozenset(_sources(topology, s)) for s in _all(topology)}
        self._lanes: dict[tuple[str, str], tuple[int, dict[int, Absent]]] = {}
        """The last bucket that the latest tentative lane was given, and what each lacked."""
        self._truth: dict[tuple[str, str, int, int], Absent] = {}
        self._received: dict[tuple[str, str, int], Absent] = {}
        self.compared = 0
        """The number of tentative buckets compared that were missing something."""

    def forked(self, node: str, machine: ReplicaMachine, effect: ForkLane) -> None:
        self._lanes[node, effect.output] = machine.outputs[effect.output].upto, {}

    def released(self, node: str, machine: ReplicaMachine, effect: RunTentative) -> None:
        output, number = machine.outputs[effect.output], effect.bucket
        last, lacked = self._lanes[node, effect.output]
        everything = self._origins[effect.output]
        for skipped in range(last + 1, number):
            lacked[skipped] = frozenset((source, skipped) for source in everything)
        gone: set[tuple[str, int]] = set()
        for one, spans in zip(output.inputs, effect.inputs, strict=True):
            if not spans:
                gone |= {(source, number) for source in self._origins[one.stream]}
            elif number > one.have:
                sender, epoch = one.said[number]
                gone |= self._told(sender, one.stream, epoch, number)
        lacked[number] = frozenset(gone)
        span = output.config.span
        for old in [n for n in lacked if span is not None and n < number - span]:
            del lacked[old]
        self._lanes[node, effect.output] = number, lacked
        wanted: Absent = frozenset().union(*lacked.values())
        self._truth[node, effect.output, effect.epoch, number] = wanted
        self._same(wanted, _said(effect.missing), f"{node} says of its", number, effect.output)
        if len(self._truth) > REMEMBER:
            del self._truth[next(iter(self._truth))]

    def _told(self, sender: str, stream: str, epoch: int, number: int) -> Absent:
        """What is missing in a bucket that a replica has said."""
        if epoch == HEAD_EPOCH:
            return frozenset()
        return self._truth[sender, stream, epoch, number]

    def received(self, node: str, machine: Any, sender: str, data: TentativeData) -> None:
        number, epoch = data.bucket.number, data.epoch
        if epoch != HEAD_EPOCH and (sender, data.stream, epoch, number) not in self._truth:
            return
        wanted, said = self._told(sender, data.stream, epoch, number), _said(data.bucket.missing)
        self._same(wanted, said, f"{sender} says of", number, data.stream)
        if isinstance(machine, ClientMachine):
            self._received[node, sender, number] = said

    def _same(self, wanted: Absent, said: Absent, does: str, number: int, stream: str) -> None:
        self.compared += bool(wanted)
        if said != wanted:
            self.fail(
                f"{does} bucket {number} of {stream} that {_text(said)} is missing,"
                f" but it is {_text(wanted)}"
            )

    def delivered(self, client: str, what: Any, now: int) -> None:
        if isinstance(what, Tentatives):
            number, said = what.bucket.number, _said(what.bucket.missing)
            known = [v for (c, _, n), v in self._received.items() if c == client and n == number]
            if known and said not in known:
                self.fail(f"{client} delivered bucket {number} without what is missing in it")


def _all(topology: Topology) -> set[str]:
    return {*topology.sources, *topology.plans}


def _sources(topology: Topology, stream: str) -> set[str]:
    """The original sources of a stream."""
    plan = topology.plans.get(stream)
    if plan is None:
        return {stream}
    return {source for one in plan.inputs for source in _sources(topology, one)}


def _said(missing: Missing) -> Absent:
    return frozenset(
        (one.source, number)
        for one in missing
        for after, upto in one.runs
        for number in range(after + 1, upto + 1)
    )


def _text(buckets: Absent) -> str:
    return ", ".join(f"{number} of {source}" for source, number in sorted(buckets)) or "nothing"
