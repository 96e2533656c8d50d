"""The sinks of a node, and the programs of its process that read along: clients without a network."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from australis.deployment.cluster import sink_machine
from australis.deployment.sinks import sink_places
from australis.diagram.model import Sink
from australis.kernel.errors import UserError
from australis.kernel.machine import Event
from australis.node.hosts import ClientHost
from australis.node.ports import NodePort
from australis.protocols.dpc.effects import RestoredLog, Started
from australis.protocols.dpc.proxies import ClientMachine
from australis.protocols.dpc.subscribers import GUEST
from australis.runtime.logs import SharedLog
from australis.runtime.node.context import NodeContext
from australis.runtime.node.sinks import SinkFollower
from australis.runtime.sinks import SinkWriter, open_sink
from australis.streams.schema import Schema

OnError = Callable[[BaseException], None]


class LocalSinks:
    """What follows streams within a node."""

    def __init__(
        self,
        context: NodeContext,
        port: NodePort,
        find_log: Callable[[str, str], SharedLog],
    ) -> None:
        self._node = context
        self._port = port
        self._find_log = find_log
        self._guests = itertools.count()
        self._incarnation = 0
        self.followers: dict[str, SinkFollower] = {}
        """What runs, by client proxy."""

    def open(self, incarnation: int, schemas: Mapping[str, Schema]) -> dict[str, Event]:
        """Open the diagram's sinks that this node has; returns the first event of each."""
        node, first = self._node, dict[str, Event]()
        self._incarnation = incarnation
        sinks = {sink.name: sink for sink in node.diagram.sinks}
        for name, at in sink_places(node.cluster, node.diagram).items():
            if at != node.name:
                continue
            schema = self._schema_of(sinks[name], schemas)
            fresh = node.settings.fresh
            writer = open_sink(sinks[name], schema, node.layout.root, node.base, fresh=fresh)
            first |= self._follow(sink_machine(name), sinks[name].stream, writer, node.failed)
        return first

    def _schema_of(self, sink: Sink, schemas: Mapping[str, Schema]) -> Schema:
        if sink.stream not in schemas:
            raise UserError(
                f"cannot be written on '{self._node.name}', which computes nothing: place its sinks"
                " on a node with a replica ('sinks' in the cluster file)",
                name=sink.stream,
                place=self._node.cluster.place_of("sinks"),
            )
        return schemas[sink.stream]

    def follow(self, stream: str, writer: SinkWriter, on_error: OnError) -> None:
        """Let a program of this process follow a stream, from the first tuple that is kept."""
        machine = f"{GUEST}{next(self._guests)}"
        first = self._follow(machine, stream, writer, on_error)
        self.followers[machine].start()
        for name, event in first.items():
            self._node.driver.post(name, event)

    def _follow(
        self, machine: str, stream: str, writer: SinkWriter, on_error: OnError
    ) -> dict[str, Event]:
        """Let a writer follow a stream; the first event of its client proxy."""
        node = self._node
        config = next((c for c in node.topology.clients if c.name == machine), None)
        producers = self._producers(stream) if config is None else config.producers
        guest = machine.startswith(GUEST)
        client = ClientMachine(
            machine, stream, producers, node.options, hold=not guest, bounded=not guest
        )
        follower = SinkFollower(
            machine,
            stream,
            writer,
            node.diagram.buckets,
            self._find_log,
            node.driver.post,
            on_error,
            lambda: self._went_on(machine),
            node.tell,
            self._port.log_damaged,
        )
        self.followers[machine] = follower
        node.machines.open(ClientHost(client, self._port, follower))
        after = max(follower.begins_after, node.base_bucket)
        return {machine: Started(self._incarnation, (RestoredLog(stream, after, after, after),))}

    def _producers(self, stream: str) -> tuple[str, ...]:
        replicas = self._node.topology.replicas
        computed = [r.name for r in replicas for o in r.outputs if o.stream == stream]
        return tuple(computed) or tuple(self._node.cluster.source_machines[stream])

    def _went_on(self, machine: str) -> None:
        """A sink has got further; a program of this process that has read all is let go."""
        if machine.startswith(GUEST) and self.followers[machine].done.is_set():
            self._node.machines.close(machine)
            del self.followers[machine]
        self._node.notify()

    def start(self) -> None:
        """Let the diagram's sinks write."""
        for follower in self.followers.values():
            follower.start()

    def stops(self) -> list[Callable[[], None]]:
        """What stops all followers, each by itself."""
        return [follower.stop for follower in list(self.followers.values())]
