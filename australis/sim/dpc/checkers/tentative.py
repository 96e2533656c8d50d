"""Tentative buckets hold what follows from the inputs that were there (thesis 4.5 to 4.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from australis.node.hosts import HEAD_EPOCH
from australis.protocols.dpc.effects import ForkLane, RunTentative, SkipAhead, TentativeDone
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import Bucket, TentativeData, reader_key
from australis.protocols.dpc.proxies import ClientMachine, Tentatives
from australis.protocols.dpc.replica import ReplicaMachine
from australis.sim.dpc.hosts import rows_of
from australis.sim.dpc.oracle import UNKNOWN, equal
from australis.sim.dpc.probes import Checker
from australis.sim.dpc.replay import REMEMBER, Replay, Truth


class TentativeContent(Checker):
    """A tentative bucket is what the true state and all inputs that were there give.

    Each lane is replayed on a fork of the fault-free state at the bucket where it was forked. What
    it is given must be what its node has: the stable content of a bucket, or else what the node
    received from a replica it reads. What lanes say, what arrives at nodes, and what clients
    deliver, is compared with the replay.
    """

    name = "tentative"

    def __init__(self, truth: Truth, clients: Mapping[str, str]) -> None:
        self._truth = truth
        self._replay = Replay(truth)
        self._clients = clients
        self._arrived: dict[tuple[str, str], dict[int, list[Any]]] = {}
        """What arrived of each tentative bucket, by the node and its input."""
        self._lives: dict[str, Any] = {}
        """The machine of each node for which that is known."""
        self.compared = 0
        """The number of tentative buckets compared."""

    # --- what arrives ------------------------------------------------------------------------

    def received(self, node: str, machine: Any, sender: str, data: TentativeData) -> None:
        number = data.bucket.number
        if data.epoch == HEAD_EPOCH:
            wanted = self._truth.content(data.stream, number)
        else:
            wanted = self._replay.content(sender, data.stream, data.epoch, number)
            read = self._replay.knows(sender, data.stream, data.epoch, number)
            if not read:
                self.fail(f"{sender} sent bucket {number} of {data.stream}, which no lane has read")
        self._same(wanted, data.bucket.batch, f"{sender} sent", number, data.stream)
        self._look(node, machine)
        key = reader_key(data.stream, data.reader)
        one = machine.input if isinstance(machine, ClientMachine) else machine.inputs.get(key)
        if not self._knows_clock(machine, sender, data):
            return  # it counts as lost
        if one is not None and sender in (one.choice.curr, one.standby) and number > one.have:
            arrived = self._arrived.setdefault((node, key), {})
            arrived.setdefault(number, []).append(data.bucket.batch)
            if len(arrived) > REMEMBER:
                del arrived[min(arrived)]

    def _knows_clock(self, machine: Any, sender: str, data: TentativeData) -> bool:
        """Whether a machine knows the clock of the sender in this incarnation."""
        monitor = machine.monitors.get(sender)
        return monitor is not None and monitor.clock.incarnation == data.incarnation

    def _look(self, node: str, machine: Any) -> None:
        """Forget what has arrived at a machine that has been replaced by another one."""
        if self._lives.get(node) is not machine:
            self._lives[node] = machine
            for known in [k for k in self._arrived if k[0] == node]:
                del self._arrived[known]

    # --- lanes -----------------------------------------------------------------------------------

    def skipped(self, node: str, effect: SkipAhead) -> None:
        self._replay.skip(node, effect.output, effect.after, effect.trimmed_upto)

    def installed(self, node: str, machine: ReplicaMachine, stream: str) -> None:
        self._replay.install(node, stream)
        for one in machine.outputs[stream].inputs:
            self._arrived.pop((node, reader_key(one.stream, one.reader)), None)

    def forked(self, node: str, machine: ReplicaMachine, effect: ForkLane) -> None:
        upto = machine.outputs[effect.output].upto
        self._replay.fork(node, effect.output, effect.epoch, upto)

    def released(self, node: str, machine: ReplicaMachine, effect: RunTentative) -> None:
        self._look(node, machine)
        output, number = machine.outputs[effect.output], effect.bucket
        ((_, carried),) = rows_of(effect.inputs, number - 1, number)
        there = [self._there(node, one, number) for one in output.inputs]
        for one, had, given in zip(output.inputs, there, carried, strict=True):
            if had is not UNKNOWN and not equal(had, given):
                what = "other tuples than" if given is not None else "nothing of what"
                self.fail(
                    f"{node} gave its tentative lane of {effect.output} {what} there was of"
                    f" {one.stream} in bucket {number}"
                )
        if not self._replay.release(node, effect.output, effect.epoch, number, there):
            self.fail(f"{node} ran bucket {number} of {effect.output} on a lane that it has left")

    def _there(self, node: str, one: Input, number: int) -> Any:
        """What a node has of an input in a bucket: None if that is nothing, or empty."""
        if number <= one.have:
            return self._truth.content(one.stream, number)
        arrived = self._arrived.get((node, reader_key(one.stream, one.reader)), {})
        said = one.overlay.get(number)
        if said is None:
            later = sum(other > number for other in arrived)
            if number in arrived and later < one.options.input_window:
                self.fail(f"{node} has dropped what it received of {one.stream} in bucket {number}")
            return None
        if not any(equal(said.batch, batch) for batch in arrived.get(number, ())):
            self.fail(f"{node} has tuples of {one.stream} in bucket {number} that nobody sent")
        return said.batch

    def computed(self, node: str, event: TentativeDone) -> None:
        if not self._replay.knows(node, event.output, event.epoch, event.bucket):
            self.fail(f"{node} computed bucket {event.bucket} of {event.output} unasked")
        wanted = self._replay.content(node, event.output, event.epoch, event.bucket)
        self._same(wanted, event.batch, f"{node} computed", event.bucket, event.output)

    # --- clients ---------------------------------------------------------------------------------

    def delivered(self, client: str, what: Any, now: int) -> None:
        if isinstance(what, Tentatives):
            bucket: Bucket = what.bucket
            stream = self._clients[client]
            said = self._arrived.get((client, stream), {}).get(bucket.number, ())
            if not any(equal(bucket.batch, batch) for batch in said):
                self.fail(f"{client} delivered tuples in bucket {bucket.number} that nobody sent")

    def _same(self, wanted: Any, got: Any, did: str, number: int, stream: str) -> None:
        if wanted is not UNKNOWN:
            self.compared += 1
            if not equal(wanted, got):
                self.fail(
                    f"{did} other tentative tuples in bucket {number} of {stream} than follow from"
                    " what was there"
                )
