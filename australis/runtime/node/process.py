"""One running node: everything on it, from its cluster and its directory.

node = Node(cluster, diagram, "a", base=Path("examples"))
node.start()
...
node.stop()
"""

from __future__ import annotations

import dataclasses
import errno
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from australis.deployment.check import check
from australis.deployment.cluster import LOOPBACK, Cluster, steward_machine
from australis.deployment.deployed import Deployment, from_cluster
from australis.deployment.sinks import readers
from australis.diagram.model import Diagram
from australis.kernel.durations import SECOND
from australis.kernel.errors import (
    AustralisError,
    Damaged,
    OperatorFailed,
    Stopped,
    UserError,
    unknown_name,
)
from australis.kernel.machine import Event, Message, SetTimer
from australis.node.admission import HEARTBEATS_PER_PERIOD, Limits, connection_limit
from australis.node.hosts import (
    ClientHost,
    LogHost,
    ReplicaHost,
)
from australis.node.machine import NodeMachine
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
from australis.runtime.certs import load as load_credentials
from australis.runtime.checks import check_parts
from australis.runtime.ending import side_by_side
from australis.runtime.files import DirectoryLock, make_directory, refuse_links
from australis.runtime.json_values import iso_time
from australis.runtime.listener import raise_descriptor_limit
from australis.runtime.logs import SharedLog
from australis.runtime.node import status, wire
from australis.runtime.node.clocks import Clocks, WallWatch
from australis.runtime.node.context import NodeContext
from australis.runtime.node.control import Control, WantedChange
from australis.runtime.node.damaged import Damages
from australis.runtime.node.directory import NodeDirectory
from australis.runtime.node.driver import Driver, shifted_clock
from australis.runtime.node.engine import LiveEngine
from australis.runtime.node.entries import Entries
from australis.runtime.node.events import ERROR, INFO, WARNING, Events
from australis.runtime.node.exchange import SnapshotExchange
from australis.runtime.node.feed import SourceFeed
from australis.runtime.node.links import connect, greeted
from australis.runtime.node.local_replicas import LocalReplicas
from australis.runtime.node.local_sinks import LocalSinks
from australis.runtime.node.local_sources import LocalSources
from australis.runtime.node.memory import spark_settings
from australis.runtime.node.paired import (
    PairedSource,
)
from australis.runtime.node.phase_log import (
    tell_differences,
    tell_loss,
    tell_went_back,
)
from australis.runtime.node.router import Router
from australis.runtime.node.server import NodeServer
from australis.runtime.node.settings import Layout, NodeSettings
from australis.runtime.node.sinks import SinkFollower
from australis.runtime.node.spark_home import SparkHome
from australis.runtime.node.spark_lanes import SparkLanes
from australis.runtime.node.trace import TraceFile
from australis.runtime.node.transport import NodeConnection
from australis.runtime.node.waits import Waits, of_wait
from australis.runtime.node.watch import Watch
from australis.runtime.processes import outlive
from australis.runtime.sinks import SinkWriter
from australis.runtime.sockets import Access
from australis.runtime.state import digest
from australis.runtime.token import keep_token
from australis.spark.functions import function_digests
from australis.streams.schema import Schema

if TYPE_CHECKING:
    from prometheus_client import Metric

    from australis.runtime.node.metrics import MetricsServer

UNBOUNDED = NodeSettings()


class Node:
    """One running node, which implements the ports that its hosts share (`node.ports.NodePort`)."""

    def __init__(
        self,
        cluster: Cluster,
        diagram: Diagram,
        name: str,
        *,
        base: Path,
        on_error: Callable[[BaseException], None] = lambda error: None,
        settings: NodeSettings = UNBOUNDED,
        directory: Path | None = None,
    ) -> None:
        """A node in the directory of the cluster's state, unless another one is given."""
        check(cluster, diagram)
        if name not in cluster.nodes:
            sentence = "is not a node of this cluster"
            raise unknown_name(name, cluster.nodes, sentence, heading="nodes", place=cluster.place)
        self.cluster = cluster.name
        self.name = name
        self.errors: list[BaseException] = []
        self.changed = threading.Condition()
        """Notified when a log or a sink has advanced, and when a component has failed."""
        self._cluster = cluster
        self._diagram = diagram
        self._base = base
        self._settings = settings
        self._place = place = cluster.nodes[name]
        self._host = settings.host or (LOOPBACK if place.master.startswith("local") else place.host)
        self._on_error = on_error
        self._directory = directory or base / cluster.state / name
        self._layout = Layout(self._directory, flat=directory is not None)
        self.state = NodeDirectory(cluster, name, base, self._layout)
        self._options = dpc_options(cluster, diagram)
        if not settings.tentative:
            self._options = waiting(self._options)
        kept = {f"kept {stream}": stream for stream in settings.keep}
        clients = readers(cluster, diagram) | kept
        self._readers = clients
        self.events = Events(self._directory, name)
        self._lock = DirectoryLock(self.state.lock)
        self._access: Access | None = None
        """How it proves who it is to other nodes, once it has opened."""
        self._clock = shifted_clock()
        self._entries = Entries(name)
        self._machines = NodeMachine(name)
        per_s = HEARTBEATS_PER_PERIOD * SECOND / cluster.heartbeat_us
        self._driver = Driver(self._machines, self._failed, self._clock, self._entries.next, per_s)
        self._control = self._open_control() if settings.listen and cluster.keepers else None
        first = from_cluster(diagram.name, cluster)
        self.deployment = first if self._control is None else self._control.known()
        self.topology = self._topology(self.deployment)
        self._router = Router(cluster, name, self.topology, self._driver, self.events)
        self.digest = ""
        """The digest of what nodes must have in common: the diagram, its functions, the epoch."""
        self._exchange = SnapshotExchange(
            name,
            self._directory / "snapshots",
            self.topology,
            self._router.places,
            self._connect,
            self._driver,
            self.events.tell,
            self._failed,
            self.log_damaged,
        )
        self._clocks = Clocks(
            name, self._router.places, cluster.sources_on, cluster.clock_bound_us, self.events.tell
        )
        self._damages = Damages(self.events.tell, self._driver.about)
        self._wall = WallWatch(self.events.tell, cluster.sources_on(name))
        self._waits = Waits(self.events.tell, self._clocks.off)
        self._watch = Watch(self._driver, self.events.tell, self._failed, [self._look])
        self._context = context = NodeContext(
            cluster,
            diagram,
            name,
            base,
            settings,
            self._layout,
            self.state,
            self._options,
            self.topology,
            self.events,
            self._clock,
            self._machines,
            self._driver,
            self._damages,
            self._failed,
            self._notify,
        )
        self._sources = LocalSources(context, self, self._unread)
        self._sinks = LocalSinks(context, self, self.find_log)
        self._server: NodeServer | None = None
        self._metrics: MetricsServer | None = None
        self._started_us = self._clock.now()
        self._started_at = time.monotonic()
        own = {} if directory is not None else spark_settings(self._place.memory_mb)
        self._spark = SparkHome(
            self.state,
            self._place.master,
            f"australis {self.cluster} {name}"
            if directory is None
            else f"australis {diagram.name}",
            {**own, **settings.spark_settings},
            self._host,
            settings.spark,
            settings.on_step,
        )
        self._replicas = LocalReplicas(context, self, self._exchange, self._spark, self.find_log)
        self._incarnation = 0
        self._closed = False

    # --- starting -----------------------------------------------------------------------

    def start(self) -> Node:
        """Open everything and start the machines."""
        try:
            self._open()
        except BaseException as error:
            self.events.tell("error", level=ERROR, why=str(error))
            self.stop()
            raise
        return self

    def _open(self) -> None:
        if self._cluster.epoch_us is None:
            raise UserError(
                "says no 'epoch': no tuple is older than this time (`australis up` fills it in)",
                name=self.cluster,
                place=self._cluster.place,
            )
        check_parts(self._diagram, self._base, self._sources.names)
        if self._layout.flat:
            self.state.open()
        make_directory(self._directory)
        self._lock.acquire()
        refuse_links(self._directory)
        if not self._settings.fresh:
            self.state.refuse_foreign()
        self.events.open()
        if self._cluster.tls is not None:
            tls = self._cluster.tls
            self._access = load_credentials(
                self._base / tls.certificates, self._base / tls.ca, self.name
            )
        elif self._settings.listen:
            token = keep_token(self._base / self._cluster.state)
            self._access = dataclasses.replace(token, node=self.name)
        functions = self._refuse_unsound()
        self._replicas.find_schemas(computes=self._computes)
        if self._settings.fresh:
            self.state.clear()
            self.events.open()
        paced = self._sources.names and not self._settings.bounded
        began = self._clock.now if paced else None
        began_us = self.state.claim(self._diagram, functions, began)
        if self._computes and self._place.engine == "spark":
            self.state.save_schemas(self.schemas)
        self._exchange.clear()
        self._incarnation = self.state.next_incarnation()
        self._entries.begin(self._incarnation)
        if self._place.trace:
            self._driver.trace = TraceFile(self._directory, self.name)
        first: dict[str, Event] = {}
        first |= self._replicas.open(self.deployment, self.topology, self._incarnation)
        first |= self._sources.open(self._incarnation, began_us, self._connection_limit())
        first |= self._sinks.open(self._incarnation, self.schemas)
        if self._control is not None:
            first |= self._control.open(self._incarnation, self._machines, self, self._clock.now)
        if self._settings.listen:
            self._router.open(self._connect)
            self._server = self._listen()
            self._open_metrics()
        self._tell_started()
        if self._server is not None:
            self._server.start()
        for engine in self.engines.values():
            engine.start()
        self._driver.start(first)
        self._rewire(self.deployment)
        self._router.begin()
        self._sinks.start()
        self._sources.start()
        if self._control is not None:
            self._control.start()
        if self._settings.listen:
            self._watch.start()

    @property
    def _computes(self) -> bool:
        return bool(self.deployment.on(self.name))

    @property
    def base_bucket(self) -> int:
        """The bucket before the first one."""
        return self._context.base_bucket

    @property
    def schemas(self) -> dict[str, Schema]:
        """The schemas of all streams that this node knows."""
        return self._replicas.schemas

    @property
    def sources(self) -> dict[str, SourceFeed]:
        """The sources that are read here and have no standby."""
        return self._sources.alone

    @property
    def pairs(self) -> dict[str, PairedSource]:
        """The sources with two proxies that have one of them here."""
        return self._sources.pairs

    @property
    def sinks(self) -> dict[str, SinkFollower]:
        """The sinks that run here, by client proxy."""
        return self._sinks.followers

    @property
    def engines(self) -> dict[str, LiveEngine]:
        """The engines of the replicas that run here."""
        return self._exchange.engines

    def _refuse_unsound(self) -> dict[str, str]:
        """Refuse the state of another diagram; returns the digests of the diagram's functions."""
        outlive(self.state.spark_pid)
        functions = function_digests(self._diagram, self._base)
        if self._layout.flat and not self._settings.fresh:
            self.state.refuse_other(self._diagram, functions)
        elif not self._layout.flat:
            remedy = "remove the state of every node to begin anew, or name another 'state'"
            self.state.refuse_other(self._diagram, functions, remedy)
        self.digest = digest(self._diagram, functions, self._context.epoch_us)
        return functions

    def _tell_started(self) -> None:
        self.events.tell(
            "started",
            version=wire.VERSION,
            cluster=self.cluster,
            address=self._place.address,
            tls=self._cluster.tls is not None,
            incarnation=self._incarnation,
            process=os.getpid(),
            machines=list(self._machines.hosts),
        )

    # --- a deployment that changes ------------------------------------------------------------

    def _open_control(self) -> Control:
        return Control(
            self.name,
            tuple(self._cluster.nodes),
            self._cluster.keepers,
            self._directory / "control",
            from_cluster(self._diagram.name, self._cluster),
            self._driver,
            self.events.tell,
            self._adopt,
        )

    def _topology(self, deployment: Deployment) -> Topology:
        return wired(self._diagram, deployment, self._readers, pairs_of(self._cluster))

    def _adopt(self, deployment: Deployment) -> None:
        """Follow a newer deployment: open and close replicas, and rewire all machines."""
        if deployment.version <= self.deployment.version:
            return
        self.deployment, self.topology = deployment, self._topology(deployment)
        self._exchange.topology = self.topology
        self._router.rewire(self.topology)
        self._replicas.follow(deployment, self.topology, self._opened)
        self._rewire(deployment)
        self._router.tell_clients(steward_machine(self.name), Deployed(deployment))

    def _opened(self, host: ReplicaHost, started: Started) -> None:
        """A replica has been opened while this node runs; called on the driver's thread."""
        if host.name not in (r.name for r in self.topology.replicas):
            self._replicas.follow(self.deployment, self.topology, self._opened)
            return
        self._machines.open(host)
        self._driver.post(host.name, started)
        self._rewire(self.deployment)
        self.events.tell("replica_opened", kind=host.name, machine=host.name)

    def _rewire(self, deployment: Deployment) -> None:
        """Tell all machines of this node whom they read and serve now."""
        topology = self.topology
        parts: dict[str, Any] = {r.name: r for r in topology.replicas}
        parts |= {c.name: c for c in topology.clients}
        for stream, consumers in topology.sources.items():
            parts |= dict.fromkeys(self._cluster.source_machines[stream], consumers)
        leases = leases_of(self._cluster, self._diagram, topology)
        roles = topology.joining, topology.leaving
        for name in [name for name in self._machines.hosts if name in parts]:
            self._driver.post(name, Rewired(deployment.version, parts[name], *roles, leases))

    def change(self, what: dict[str, Any], caller: str | None = None) -> dict[str, Any]:
        """Begin a change of the deployment for an operator; returns what was begun."""
        if self._control is None:
            raise UserError("has no keepers, so nothing can change", name=self.cluster)
        wanted = msgspec.convert(what, WantedChange)
        for node in wanted.add:
            if node not in self._cluster.nodes:
                sentence = "is not a node of this cluster"
                raise unknown_name(node, self._cluster.nodes, sentence, heading="nodes")
        by = caller or "the holder of the token"
        self.events.tell("change_wanted", kind=wanted.fragment, by=by, **what)
        return self._control.want(wanted.fragment, wanted.add, wanted.drop)

    def follow(
        self, stream: str, writer: SinkWriter, on_error: Callable[[BaseException], None]
    ) -> None:
        """Let a program of this process follow a stream, from the first tuple that is kept."""
        self._sinks.follow(stream, writer, on_error)

    def _unread(self, stream: str, log: SharedLog) -> int:
        return max((e.lanes.unread(stream, log) for e in self.engines.values()), default=0)

    def await_lanes(self) -> None:
        """Wait until the lanes of all replicas have started, or a component has failed."""
        lanes = [engine.lanes for engine in self.engines.values()]
        while not all(one.started for one in lanes):
            self.check()
            with self.changed:
                self.changed.wait(0.05)
        self._spark.lanes_started()

    # --- the ports that all hosts share -----------------------------------------------------

    def send(self, sender: str, to: str, message: Message) -> None:
        """Send a machine's message, to this node or another."""
        self._router.send(sender, to, message)

    def set_timer(self, machine: str, effect: SetTimer) -> None:
        """Set a timer of a machine of this node."""
        self._driver.set_timer(machine, effect)

    def shares_logs(self, machine: str) -> bool:
        """Whether a machine reads the logs of this node without a copy.

        Sinks do. Of replicas only those without tentative lanes: a warm query may still have to
        read what its stable query has acknowledged, and what has left the log since.
        """
        host = self._machines.hosts.get(machine)
        reads = isinstance(host, ReplicaHost) and not self._settings.tentative
        return reads or isinstance(host, ClientHost)

    def phase_changed(self, machine: str, effect: AnnouncePhase) -> None:
        """Record a phase change."""
        self._replicas.phases[effect.output].changed(effect)

    def logs_differ(self, machine: str, effect: AnnounceDifference) -> None:
        """Record that replicas' logs differ, or agree again, with the operators that wrote them."""
        plan = self.topology.plans.get(effect.stream)
        operators = [o.name for o in plan.operators] if plan is not None else []
        tell_differences(self.events.tell, self._driver.about(), machine, effect, operators)

    def state_lost(self, machine: str, effect: AnnounceLoss) -> None:
        """Record that an output cannot go on; if that is for good, this node ends."""
        why = tell_loss(self.events.tell, self._driver.about(), machine, effect)
        if not effect.waits_for:
            self._failed(Stopped(why))

    def clock_is_off(self, machine: str, effect: AnnounceClock) -> None:
        """Record that another node's clock is off, or agrees again."""
        self._clocks.announced(effect, self._driver.about())

    def source_went_back(self, machine: str, effect: AnnounceWentBack) -> None:
        """Record that the log of a source has gone back, or is as it was again."""
        tell_went_back(self.events.tell, self._driver.about(), machine, effect)

    def log_damaged(self, machine: str, stream: str, error: Damaged) -> None:
        """Record that a bucket of a log is damaged; the log lets go of it."""
        own = stream in self._cluster.source_machines
        logs = self._layout.lanes(machine) / "logs" / stream
        self._damages.found(stream, error, self._layout.source_log(stream) if own else logs)
        if error.bucket is not None:
            self._driver.post(machine, LogDamaged(stream, error.bucket), self._driver.entry)

    def lease_changed(self, machine: str, effect: AnnounceLease) -> None:
        """Record that a log no longer waits for a consumer, or does so again."""
        self.events.tell(
            "lease_lapsed" if effect.lapsed else "lease_renewed",
            level=WARNING if effect.lapsed else INFO,
            kind=f"{effect.stream} {effect.consumer}",
            **self._driver.about(),
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

    def _notify(self) -> None:
        with self.changed:
            self.changed.notify_all()

    # --- the network ----------------------------------------------------------------------

    def _connect(self, node: str) -> NodeConnection:
        assert self._access is not None
        client = connect(self._cluster, node, self._access)
        return greeted(client, self.cluster, node, self.digest)

    def _listen(self) -> NodeServer:
        assert self._access is not None
        place, limits = self._place, Limits(connections=self._connection_limit())
        try:
            return NodeServer(self, place.host, place.port, self._access, self.events.tell, limits)
        except OSError as error:
            taken = "the port is taken" if error.errno == errno.EADDRINUSE else error.strerror
            raise UserError(
                f"cannot listen at {place.address}: {taken or error}",
                name=self.name,
                place=self._cluster.place_of("nodes", self.name),
            ) from None

    def _connection_limit(self) -> int:
        """The largest number of connections of each listener of this node."""
        here = self._sources.names
        sources = [s for s in self._diagram.sources if s.kind == "tcp" and s.name in here]
        listeners = len(sources) + self._settings.listen
        return connection_limit(raise_descriptor_limit(), listeners)

    def _open_metrics(self) -> None:
        """Serve metrics if configured; a node without them does not even load the library."""
        if self._place.metrics is None:
            return
        from australis.runtime.node.metrics import NO_PROCESS, MetricsServer, metrics

        def ask() -> Iterator[Metric]:
            return metrics(self.status(), self._clock.now(), self._diagram.buckets)

        try:
            self._metrics = MetricsServer(
                self._place.metrics, ask, lambda: self._spark.pid or NO_PROCESS, self.events.tell
            )
        except UserError as error:
            place = self._cluster.place_of("nodes", self.name)
            raise UserError(error.sentence, name=self.name, place=place) from None

    # --- messages -----------------------------------------------------------------------

    def knows(self, caller: str) -> bool:
        """Whether a certificate of this name belongs to this cluster."""
        return self._router.rights.knows(caller)

    def longest(self, caller: str | None, kind: str) -> int:
        """The longest body of a request; a `WireError` if the caller may not make it."""
        return self._router.longest(caller, kind)

    def receive(self, caller: str | None, body: bytes) -> None:
        """Take a message for one of this node's machines."""
        self._router.receive(caller, body, self.schemas, self._diagram.buckets)

    def inbox(self, caller: str | None, client: str, incarnation: int) -> Iterable[list[bytes]]:
        """The stream of messages for a client in one of its incarnations."""
        deployed = Deployed(self.deployment) if self._control is not None else None
        return self._router.inbox(caller, client, incarnation, steward_machine(self.name), deployed)

    def snapshot(self, caller: str | None, machine: str, stream: str) -> tuple[int, Path]:
        """The latest checkpoint of a lane, in a directory, for a node with a replica of it."""
        return self._exchange.serve(caller, machine, stream)

    # --- what is here ---------------------------------------------------------------------

    def output(self, stream: str) -> Output:
        """An output that a replica on this node computes."""
        for host in self._machines.hosts.values():
            if isinstance(host, ReplicaHost) and stream in host.machine.outputs:
                return host.machine.outputs[stream]
        raise UserError(f"is not computed on '{self.name}'", name=stream)

    def wait_of(self, stream: str) -> dict[str, Any]:
        """The input that holds back an output of this node."""
        return of_wait(self.output(stream), self._diagram.buckets, self._clock.now())

    def push(self, source: str, rows: Any) -> None:
        """Give rows to a push source on this node; they are durable when this returns."""
        self._sources.push(source, rows)

    # --- what people ask ------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The status of the node."""
        outputs = {
            stream: status.of_output(
                host.machine.outputs[stream],
                self.engines[name],
                self._replicas.phases[stream],
                stream,
                self._diagram.buckets,
                self._clock.now(),
            )
            | {
                "damaged": self._damages.status(stream),
                "log_bytes": status.log_bytes(self._layout.lanes(name) / "logs" / stream),
            }
            for name, host in list(self._machines.hosts.items())
            if isinstance(host, ReplicaHost) and name in self.engines
            for stream in host.machine.outputs
        }
        return {
            "cluster": self.cluster,
            "node": self.name,
            "schemas": {stream: str(self.schemas[stream]) for stream in outputs},
            "started_at": iso_time(self._started_us),
            "up_s": round(time.monotonic() - self._started_at, 1),
            "clock_us": self._clock.now(),
            "clock_jumped_s": self._wall.jumped_s,
            "choices": status.of_choices(self._options),
            "deployment": msgspec.to_builtins(self.deployment),
            "outputs": outputs,
            "sources": self._sources.status(),
            "sinks": {name: status.of_sink(one) for name, one in list(self.sinks.items())},
            "clocks": self._clocks.status(
                [host.machine for host in list(self._machines.hosts.values())], self._clock.now()
            ),
            **self._router.status(),
            **status.of_refusals(self._server),
            "overflowed": self._driver.overflowed,
            "over_budget": {rank.name.lower(): n for rank, n in self._driver.dropped.items()},
            "handled": self._entries.count,
            "events_lost": self.events.lost,
        }

    def fault(self, what: dict[str, Any], caller: str | None = None) -> str:
        """Inject a network fault between this node and another, or end it."""
        self._router.fault(what, caller)
        return "done"

    # --- looking after itself ----------------------------------------------------------------

    def _look(self) -> None:
        """Look once a second at the clock, and at who waits for whom."""
        self._wall.look()
        now_us, buckets = self._clock.now(), self._diagram.buckets
        hosts = [h for h in list(self._machines.hosts.values()) if isinstance(h, ReplicaHost)]
        outputs = {name: out for host in hosts for name, out in host.machine.outputs.items()}
        self._waits.look(outputs, buckets, now_us)
        for name, feed in self._sources.feeds.items():
            self._wall.look_at(name, feed.proxy.stats.ahead_us)

    # --- stopping --------------------------------------------------------------------------

    def _failed(self, error: BaseException) -> None:
        if self._closed:
            return
        self.errors.append(error)  # first: whatever else fails, the node ends
        self._notify()
        trace = "".join(traceback.format_exception(error))
        about = self._driver.about()
        self.events.tell("error", level=ERROR, **about, why=str(error), trace=trace)
        if isinstance(error, OperatorFailed):
            self.events.tell(
                "operator_failed",
                level=ERROR,
                **about,
                output=error.output,
                operators=list(error.operators),
                where=error.where,
                why=str(error),
            )
        self._on_error(error)

    def check(self) -> None:
        """Raise the error that has stopped this node, if there is one."""
        for error in self.errors:
            raise error if isinstance(error, AustralisError) else Stopped(f"stopped: {error!r}")

    def trim(self) -> None:
        """End the Spark processes that are no longer needed."""
        lanes = [engine.lanes for engine in self.engines.values()]
        self._spark.trim([q for one in lanes if isinstance(one, SparkLanes) for q in one.queries])

    def stop(self) -> None:
        """Stop everything; acknowledged data stays durable.

        What cannot be stopped in order is told, and keeps nothing else from being stopped.
        """
        self._settings.on_stop()
        if self._control is not None:
            self._control.stop()
        self._watch.stop()
        for steps in self._stops():
            for error in side_by_side(steps):
                self.events.tell("error", level=ERROR, why=f"while it stopped: {error}")
        self.events.tell("stopped")
        self.events.close()
        self._lock.release()

    def _stops(self) -> Iterator[list[Callable[[], None]]]:
        """The steps that stop what runs; those of one list may be taken side by side."""
        yield self._sources.stops()
        yield self._sinks.stops()
        self._closed = True
        self._driver.stop()
        yield [self._router.close_inboxes]
        yield [one.stop for one in (self._metrics, self._server) if one is not None]
        yield [self._router.close_links]
        yield [engine.lanes.close for engine in self.engines.values()]
        yield [self._spark.close]
        yield [self._sources.close]
        yield [self._driver.trace.close] if self._driver.trace is not None else []
