"""An application on a node: the machines of one diagram that run here, and what carries them out.

A node has the application of its cluster file, if that names a diagram, and those that were
submitted to it. Each has its own deployment, options, schemas, logs and directory; they share the
node's network, Spark and clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from australis.deployment.cluster import Cluster, steward_machine
from australis.deployment.deployed import Deployment
from australis.deployment.sinks import readers
from australis.diagram.model import Diagram
from australis.kernel.durations import SECOND
from australis.kernel.errors import Damaged, Stopped, UserError
from australis.kernel.machine import Event, Message, SetTimer
from australis.node.hosts import ClientHost, LogHost, ReplicaHost
from australis.protocols.change.messages import Deployed
from australis.protocols.dpc.effects import (
    AnnounceClock,
    AnnounceDifference,
    AnnounceLease,
    AnnounceLoss,
    AnnouncePhase,
    AnnounceWentBack,
    LogDamaged,
    Rewired,
    Started,
)
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.topology import (
    Topology,
    dpc_options,
    leases_of,
    pairs_of,
    waiting,
    wired,
)
from australis.runtime.logs import SharedLog
from australis.runtime.node import status
from australis.runtime.node.clocks import Clocks
from australis.runtime.node.context import NodeContext
from australis.runtime.node.damaged import Damages
from australis.runtime.node.directory import NodeDirectory
from australis.runtime.node.driver import Driver, WallClock
from australis.runtime.node.engine import LiveEngine
from australis.runtime.node.events import INFO, WARNING, Tell
from australis.runtime.node.exchange import SnapshotExchange
from australis.runtime.node.local_replicas import LocalReplicas
from australis.runtime.node.local_sinks import LocalSinks
from australis.runtime.node.local_sources import LocalSources
from australis.runtime.node.network import Network, qualified
from australis.runtime.node.phase_log import tell_differences, tell_loss, tell_went_back
from australis.runtime.node.router import Router
from australis.runtime.node.settings import Layout, NodeSettings
from australis.runtime.node.sinks import SinkFollower
from australis.runtime.node.spark_home import SparkBranch, SparkHome
from australis.runtime.node.transport import NodeConnection
from australis.runtime.node.waits import Waits, of_wait
from australis.runtime.sinks import SinkWriter
from australis.streams.schema import Schema


@dataclass(frozen=True)
class NodeServices:
    """What the applications of a node share."""

    name: str
    """The node."""
    settings: NodeSettings
    base: Path
    """The directory of the cluster file, at which paths of diagrams begin."""
    clock: WallClock
    tell: Tell
    network: Network
    spark: SparkHome
    connect: Callable[[str], NodeConnection]
    """Connects to another node."""
    notify: Callable[[], None]
    """Says that a log or a sink has advanced."""


class Application:
    """One application on one node, which implements the ports that its hosts share."""

    def __init__(
        self,
        node: NodeServices,
        space: str,
        cluster: Cluster,
        diagram: Diagram,
        deployment: Deployment,
        layout: Layout,
        driver: Driver,
        failed: Callable[[BaseException], None],
    ) -> None:
        """The application in its space of names, with the cluster as it is for this application."""
        self.space = space
        self.diagram = diagram
        self.deployment = deployment
        self.driver = driver
        self._node = node
        self._tell = node.tell if not space else self._tell_with_name
        self._cluster = cluster
        self._failed = failed
        self._layout = layout
        self._machines = driver.node
        self.state = NodeDirectory(cluster, node.name, node.base, layout)
        self.options = dpc_options(cluster, diagram)
        if not node.settings.tentative:
            self.options = waiting(self.options)
        kept = {f"kept {stream}": stream for stream in node.settings.keep}
        self._readers = readers(cluster, diagram) | kept
        self.topology = self._wired(deployment)
        schemas: dict[str, Schema] = {}
        self.router = Router(
            *(node.network, space, cluster, node.name, self.topology, schemas, driver, self._tell)
        )
        self._exchange = SnapshotExchange(
            node.name,
            layout.root / "snapshots",
            self.topology,
            self.router.places,
            node.connect,
            driver,
            self._tell,
            failed,
            self.log_damaged,
            lambda machine: qualified(space, machine),
        )
        self._clocks = Clocks(
            node.name, self.router.places, cluster.sources_on, cluster.clock_bound_us, self._tell
        )
        self._damages = Damages(self._tell, driver.about)
        self._waits = Waits(self._tell, self._clocks.off)
        self._context = context = NodeContext(
            cluster,
            diagram,
            node.name,
            node.base,
            node.settings,
            layout,
            self.state,
            self.options,
            self.topology,
            self._tell,
            node.clock,
            self._machines,
            driver,
            self._damages,
            failed,
            node.notify,
        )
        self._sources = LocalSources(context, self, self._unread)
        self._sinks = LocalSinks(context, self, self.find_log)
        self._replicas = LocalReplicas(
            context,
            self,
            self._exchange,
            SparkBranch(node.spark) if space else node.spark,
            self.find_log,
            schemas,
        )
        node.network.add(space, self.router)

    def _tell_with_name(self, event: str, **fields: Any) -> None:
        self._node.tell(event, **fields, application=self.space)

    def _wired(self, deployment: Deployment) -> Topology:
        return wired(self.diagram, deployment, self._readers, pairs_of(self._cluster))

    # --- what there is ---------------------------------------------------------------------

    @property
    def computes(self) -> bool:
        """Whether this node has a replica of it."""
        return bool(self.deployment.on(self._node.name))

    @property
    def base_bucket(self) -> int:
        """The bucket before the first one."""
        return self._context.base_bucket

    @property
    def epoch_us(self) -> int:
        """When its streams begin."""
        return self._context.epoch_us

    @property
    def schemas(self) -> dict[str, Schema]:
        """The schemas of all streams that this node knows."""
        return self._replicas.schemas

    @property
    def sources(self) -> LocalSources:
        """The sources that are read here."""
        return self._sources

    @property
    def sinks(self) -> dict[str, SinkFollower]:
        """The sinks that run here, by client proxy."""
        return self._sinks.followers

    @property
    def engines(self) -> dict[str, LiveEngine]:
        """The engines of the replicas that run here."""
        return self._exchange.engines

    @property
    def logs(self) -> dict[str, SharedLog]:
        """All logs of this node, by stream: those of sources first."""
        computed = {
            output.stream: self.engines[r.name].log(output.stream)
            for r in self.topology.replicas
            if r.name in self.engines
            for output in r.outputs
        }
        return self._sources.logs | computed

    # --- starting -----------------------------------------------------------------------------

    def find_schemas(self) -> None:
        """Find the schemas of the streams; a `UserError` if Spark refuses the diagram."""
        self._replicas.find_schemas(computes=self.computes)

    def open(
        self, incarnation: int, began_us: int | None, max_connections: int
    ) -> dict[str, Event]:
        """Open what runs here; returns the first event of each machine."""
        self._exchange.clear()
        first: dict[str, Event] = {}
        first |= self._replicas.open(self.deployment, self.topology, incarnation)
        first |= self._sources.open(incarnation, began_us, max_connections)
        first |= self._sinks.open(incarnation, self.schemas)
        return first

    def start_engines(self) -> None:
        """Let the lanes begin."""
        for engine in self.engines.values():
            engine.start()

    def start(self) -> None:
        """Let the machines talk, the sinks write and the sources be read."""
        self._rewire(self.deployment)
        self.router.begin()
        self._sinks.start()
        self._sources.start()

    # --- a deployment that changes ------------------------------------------------------------

    def follow_deployment(self, deployment: Deployment) -> None:
        """Follow a newer deployment: open and close replicas, and rewire all machines."""
        if deployment.version <= self.deployment.version:
            return
        self.deployment, self.topology = deployment, self._wired(deployment)
        self._exchange.topology = self.topology
        self.router.rewire(self.topology)
        self._replicas.follow(deployment, self.topology, self._opened)
        self._rewire(deployment)
        self.router.tell_clients(steward_machine(self._node.name), Deployed(deployment))

    def _opened(self, host: ReplicaHost, started: Started) -> None:
        """A replica has been opened while this node runs; called on the driver's thread."""
        if host.name not in (r.name for r in self.topology.replicas):
            self._replicas.follow(self.deployment, self.topology, self._opened)
            return
        self._machines.open(host)
        self.driver.post(host.name, started)
        self._rewire(self.deployment)
        self._tell("replica_opened", kind=host.name, machine=host.name)

    def _rewire(self, deployment: Deployment) -> None:
        """Tell all machines of this node whom they read and serve now."""
        topology = self.topology
        parts: dict[str, Any] = {r.name: r for r in topology.replicas}
        parts |= {c.name: c for c in topology.clients}
        for stream, consumers in topology.sources.items():
            parts |= dict.fromkeys(self._cluster.source_machines[stream], consumers)
        leases = leases_of(self._cluster, self.diagram, topology)
        roles = topology.joining, topology.leaving
        for name in [name for name in self._machines.hosts if name in parts]:
            self.driver.post(name, Rewired(deployment.version, parts[name], *roles, leases))

    def inbox(self, caller: str | None, client: str, incarnation: int) -> Iterable[list[bytes]]:
        """The stream of messages for a client, which begins with the deployment."""
        steward = steward_machine(self._node.name)
        return self.router.inbox(caller, client, incarnation, steward, Deployed(self.deployment))

    # --- within this process ----------------------------------------------------------------

    def follow(
        self, stream: str, writer: SinkWriter, on_error: Callable[[BaseException], None]
    ) -> None:
        """Let a program of this process follow a stream, from the first tuple that is kept."""
        self._sinks.follow(stream, writer, on_error)

    def _unread(self, stream: str, log: SharedLog) -> int:
        return max((e.lanes.unread(stream, log) for e in self.engines.values()), default=0)

    @property
    def lanes_started(self) -> bool:
        """Whether the lanes of all replicas have started."""
        return all(engine.lanes.started for engine in self.engines.values())

    # --- the ports that all hosts share -----------------------------------------------------

    def send(self, sender: str, to: str, message: Message) -> None:
        """Send a machine's message, to this node or another."""
        self.router.send(sender, to, message)

    def set_timer(self, machine: str, effect: SetTimer) -> None:
        """Set a timer of a machine of this node."""
        self.driver.set_timer(machine, effect)

    def shares_logs(self, machine: str) -> bool:
        """Whether a machine reads the logs of this node without a copy.

        Sinks do. Of replicas only those without tentative lanes: a warm query may still have to
        read what its stable query has acknowledged, and what has left the log since.
        """
        host = self._machines.hosts.get(machine)
        reads = isinstance(host, ReplicaHost) and not self._node.settings.tentative
        return reads or isinstance(host, ClientHost)

    def phase_changed(self, machine: str, effect: AnnouncePhase) -> None:
        """Record a phase change."""
        self._replicas.phases[effect.output].changed(effect)

    def logs_differ(self, machine: str, effect: AnnounceDifference) -> None:
        """Record that replicas' logs differ, or agree again, with the operators that wrote them."""
        plan = self.topology.plans.get(effect.stream)
        operators = [o.name for o in plan.operators] if plan is not None else []
        tell_differences(self._tell, self.driver.about(), machine, effect, operators)

    def state_lost(self, machine: str, effect: AnnounceLoss) -> None:
        """Record that an output cannot go on; if that is for good, the application fails here."""
        why = tell_loss(self._tell, self.driver.about(), machine, effect)
        if not effect.waits_for:
            self._failed(Stopped(why))

    def clock_is_off(self, machine: str, effect: AnnounceClock) -> None:
        """Record that another node's clock is off, or agrees again."""
        self._clocks.announced(effect, self.driver.about())

    def source_went_back(self, machine: str, effect: AnnounceWentBack) -> None:
        """Record that the log of a source has gone back, or is as it was again."""
        tell_went_back(self._tell, self.driver.about(), machine, effect)

    def log_damaged(self, machine: str, stream: str, error: Damaged) -> None:
        """Record that a bucket of a log is damaged; the log lets go of it."""
        own = stream in self._cluster.source_machines
        logs = self._layout.lanes(machine) / "logs" / stream
        self._damages.found(stream, error, self._layout.source_log(stream) if own else logs)
        if error.bucket is not None:
            self.driver.post(machine, LogDamaged(stream, error.bucket), self.driver.entry)

    def lease_changed(self, machine: str, effect: AnnounceLease) -> None:
        """Record that a log no longer waits for a consumer, or does so again."""
        self._tell(
            "lease_lapsed" if effect.lapsed else "lease_renewed",
            level=WARNING if effect.lapsed else INFO,
            kind=f"{effect.stream} {effect.consumer}",
            **self.driver.about(),
            stream=effect.stream,
            consumer=effect.consumer,
            silent_s=round(effect.silent_us / SECOND, 1),
            acknowledged=effect.acknowledged,
        )

    def find_log(self, machine: str, stream: str) -> SharedLog:
        """The log of a stream that a machine of this node keeps."""
        host = self._machines.hosts[machine]
        assert isinstance(host, LogHost), f"'{machine}' keeps no log"
        log = host.log(stream)
        assert isinstance(log, SharedLog)
        return log

    def snapshot(self, caller: str | None, machine: str, stream: str) -> tuple[int, Path]:
        """The latest checkpoint of a lane, in a directory, for a node with a replica of it."""
        return self._exchange.serve(caller, machine, stream)

    # --- what people ask ------------------------------------------------------------------

    def output(self, stream: str) -> Output:
        """An output that a replica on this node computes."""
        for host in self._machines.hosts.values():
            if isinstance(host, ReplicaHost) and stream in host.machine.outputs:
                return host.machine.outputs[stream]
        raise UserError(f"is not computed on '{self._node.name}'", name=stream)

    def wait_of(self, stream: str) -> dict[str, Any]:
        """The input that holds back an output of this node."""
        return of_wait(self.output(stream), self.diagram.buckets, self._node.clock.now())

    def status(self) -> dict[str, Any]:
        """What runs here of the application, and how it is doing."""
        now_us = self._node.clock.now()
        outputs = dict(self._output_status(now_us))
        return {
            "schemas": {stream: str(self.schemas[stream]) for stream in outputs},
            "choices": status.of_choices(self.options),
            "deployment": msgspec.to_builtins(self.deployment),
            "bucket_us": self.diagram.bucket_us,
            "outputs": outputs,
            "sources": self._sources.status(),
            "sinks": {name: status.of_sink(one) for name, one in list(self.sinks.items())},
            "clocks": self._clocks.status(
                [host.machine for host in list(self._machines.hosts.values())], now_us
            ),
            **self.router.status(),
        }

    def _output_status(self, now_us: int) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, host in list(self._machines.hosts.items()):
            if not isinstance(host, ReplicaHost) or name not in self.engines:
                continue
            for stream, output in host.machine.outputs.items():
                found = status.of_output(
                    output,
                    self.engines[name],
                    self._replicas.phases[stream],
                    stream,
                    self.diagram.buckets,
                    now_us,
                )
                logs = self._layout.lanes(name) / "logs" / stream
                damaged = self._damages.status(stream)
                yield (
                    stream,
                    found | {"damaged": damaged, "log_bytes": status.log_bytes(logs)},
                )

    def look(self) -> None:
        """Look at who waits for whom."""
        hosts = [h for h in list(self._machines.hosts.values()) if isinstance(h, ReplicaHost)]
        outputs = {name: out for host in hosts for name, out in host.machine.outputs.items()}
        self._waits.look(outputs, self.diagram.buckets, self._node.clock.now())

    # --- stopping --------------------------------------------------------------------------

    def stops(self) -> Iterator[list[Callable[[], None]]]:
        """The steps that stop what brings rows in and takes them out."""
        yield self._sources.stops()
        yield self._sinks.stops()

    def close_lanes(self) -> list[Callable[[], None]]:
        """What closes the lanes, each by itself."""
        return [engine.lanes.close for engine in self.engines.values()]

    def close(self) -> None:
        """Close the files of the sources' logs."""
        self._sources.close()
