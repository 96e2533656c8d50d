"""One node of a cluster: everything it runs, from its cluster file and its directory.

node = Node(cluster, diagram, "a", base=Path("examples"))
node.start()
...
node.stop()
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.flight as fl

from australis.catalog.check import check
from australis.catalog.cluster import Cluster, machine_name
from australis.diagram.fragments import Fragment, Plan
from australis.diagram.model import Diagram, Spark
from australis.kernel.durations import MILLISECOND
from australis.kernel.errors import AustralisError, Stopped, UserError
from australis.kernel.machine import Event
from australis.live.certs import Credentials, caller
from australis.live.certs import load as load_credentials
from australis.live.datapath import SharedLog
from australis.live.epoch import began_us
from australis.live.files import DirectoryLock, FileDisk, make_directory, replace_file
from australis.live.flight_port import FACTORY
from australis.live.node import snapshots, status, wire
from australis.live.node.driver import Clock, Driver, Host
from australis.live.node.entries import Entries
from australis.live.node.events import ERROR, WARNING, Events
from australis.live.node.feed import SourceFeed
from australis.live.node.hosts import ReplicaHost, SourceHost
from australis.live.node.lane_work import LaneWork
from australis.live.node.lanes import Lanes
from australis.live.node.links import Mismatch, connect, greeted, sentence_of
from australis.live.node.memory import spark_settings
from australis.live.node.post import Post
from australis.live.node.reference_lanes import ReferenceLanes
from australis.live.node.server import NodeServer
from australis.live.node.spark_lanes import SparkLanes
from australis.live.node.trace import Trace
from australis.live.node.turns import Turns
from australis.live.processes import identity, outlive
from australis.live.state import StateDirectory, digest
from australis.protocols.dpc.effects import (
    InstallSnapshot,
    LaneRestored,
    SnapshotFailed,
    SnapshotInstalled,
    Started,
)
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.proxies import SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.topology import Topology, deploy, dpc_options
from australis.reference import ReferenceEngine
from australis.spark.analyse import stream_schemas
from australis.spark.functions import function_digest
from australis.spark.session import SparkSession, open_session, process_id
from australis.streams.schema import Schema

if TYPE_CHECKING:
    from prometheus_client import Metric

    from australis.live.node.metrics import MetricsServer

SNAPSHOT_PATIENCE_S = 60.0


def reference_schemas(diagram: Diagram, topology: Topology) -> dict[str, Schema]:
    """The schema of every stream, as the reference engine sees it."""
    schemas = {source.name: source.schema for source in diagram.sources}
    for fragment in topology.fragments:
        for plan in fragment.plans:
            schemas[plan.output] = ReferenceEngine(plan, schemas, diagram.buckets).schema
    return schemas


class Node:
    """One node that runs."""

    def __init__(
        self,
        cluster: Cluster,
        diagram: Diagram,
        name: str,
        *,
        base: Path,
        on_error: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        check(cluster, diagram)
        if name not in cluster.nodes:
            known = ", ".join(cluster.nodes)
            raise UserError(
                f"is not a node of this cluster (nodes: {known})", name=name, place=cluster.place
            )
        self.cluster = cluster.name
        self.name = name
        self.errors: list[BaseException] = []
        self._cluster = cluster
        self._diagram = diagram
        self._base = base
        self._place = cluster.nodes[name]
        self._on_error = on_error
        self._directory = base / cluster.state / name
        self._state = StateDirectory(self._directory)
        self._options = dpc_options(cluster, diagram)
        self.topology = deploy(diagram, cluster.machines, cluster.readers)
        self.events = Events(self._directory, name)
        self._lock = DirectoryLock(self._directory / "node.lock")
        self._credentials: Credentials | None = None
        self._clock = Clock()
        self._entries = Entries(name)
        self._driver = Driver(self._failed, self._clock, self._entries.next)
        self._post = Post(cluster, name, self.topology, self._driver, self.events)
        self.digest = ""
        """What nodes must have in common: the diagram, its functions and the epoch."""
        self._hosts: dict[str, Host] = {}
        self._lanes: dict[str, Lanes] = {}
        self._turns: dict[str, Turns] = {}
        self.sources: dict[str, SourceFeed] = {}
        self._disks: list[FileDisk] = []
        self._snapshots = self._directory / "snapshots"
        """Checkpoints on their way to or from a replica."""
        self._copies = itertools.count()
        self._server: NodeServer | None = None
        self._metrics: MetricsServer | None = None
        self._started_at = time.monotonic()
        self._starting = threading.Lock()
        self._spark: SparkSession | None = None
        self._spark_pid: int | None = None
        self.schemas: dict[str, Schema] = {}

    # --- starting -----------------------------------------------------------------------

    def start(self) -> Node:
        """Open everything and begin."""
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
        make_directory(self._directory)
        self._lock.acquire()
        self.events.open()
        if self._cluster.tls is not None:
            tls = self._cluster.tls
            self._credentials = load_credentials(
                self._base / tls.certificates, self._base / tls.ca, self.name
            )
        self._claim_state()
        shutil.rmtree(self._snapshots, ignore_errors=True)
        life = self._next_life()
        self._entries.begin(life)
        if self._place.trace:
            self._driver.trace = Trace(self._directory, self.name)
        self.schemas = self._find_schemas()
        first: dict[str, Event] = {}
        for fragment in self.topology.fragments:
            if self.name in self._cluster.replicas[fragment.name]:
                self._open_replica(fragment, life, first)
        for source, node in self._cluster.sources.items():
            if node == self.name:
                self._open_source(source, life, first)
        self._post.open(self._hosts.keys(), self._connect)
        self._server = self._listen()
        self._open_metrics()
        self._tell_started(life)
        self._server.start()
        for host in self._hosts.values():
            if isinstance(host, ReplicaHost):
                host.lanes.start(self._reporter(host))
        self._driver.start(self._hosts, first)
        self._post.begin()
        for feed in self.sources.values():
            feed.start()

    def _claim_state(self) -> None:
        """A state belongs to one diagram, and only one process works on it."""
        outlive(self._state.spark_pid)
        functions = {
            o.name: function_digest(o, self._base)
            for o in self._diagram.operators
            if isinstance(o, Spark)
        }
        remedy = "remove the state of every node to begin anew, or name another 'state'"
        self._state.refuse_other(self._diagram, functions, remedy)
        self._state.claim(self._diagram, functions)
        self.digest = digest(self._diagram, functions, self._epoch_us)

    def _reporter(self, host: ReplicaHost) -> Callable[[Event], None]:
        return lambda event: self._driver.post(host.name, event, host.work.done(event))

    def _tell_started(self, life: int) -> None:
        self.events.tell(
            "started",
            version=wire.VERSION,
            cluster=self.cluster,
            address=self._place.address,
            tls=self._credentials is not None,
            life=life,
            process=os.getpid(),
            machines=list(self._hosts),
        )

    @property
    def base_bucket(self) -> int:
        """The bucket before the first one."""
        return self._diagram.buckets.closed_by(self._epoch_us)

    @property
    def _epoch_us(self) -> int:
        assert self._cluster.epoch_us is not None
        return self._cluster.epoch_us

    def _next_life(self) -> int:
        """A number higher than in every life before, even on a disk that was lost."""
        path = self._directory / "life"
        before = int(path.read_text()) if path.exists() else 0
        life = max(before + 1, (time.time_ns() // 1000 - self._epoch_us) // MILLISECOND, 1)
        replace_file(path, str(life).encode())
        return life

    def _open_replica(self, fragment: Fragment, life: int, first: dict[str, Event]) -> None:
        name = machine_name(fragment.name, self.name)
        config = next(r for r in self.topology.replicas if r.name == name)
        plans = {plan.output: plan for plan in fragment.plans}
        lanes = self._open_lanes(self._directory / name, plans)
        self._lanes[name] = lanes
        machine = ReplicaMachine(config, self._options, random.Random(f"{name} {life}"))
        for output in machine.outputs.values():
            turns = Turns(self.events.tell, self._driver.about, name, output.stream)
            output.turns = self._turns[output.stream] = turns
        self._hosts[name] = ReplicaHost(
            machine,
            self._post.sayer(name),
            lanes,
            lambda e: self._install(name, e),
            LaneWork(plans, lambda: self._driver.entry),
        )
        restored = tuple(lanes.restore(output, self.base_bucket) for output in plans)
        first[name] = Started(life, restored)

    def _open_lanes(self, directory: Path, plans: dict[str, Plan]) -> Lanes:
        buckets = self._diagram.buckets
        if self._place.engine == "reference":
            return ReferenceLanes(plans, self.schemas, buckets, directory, self._failed)
        return SparkLanes(
            plans, self.schemas, buckets, directory, self._session, self._base, self._failed
        )

    def _find_schemas(self) -> dict[str, Schema]:
        """The schemas of all streams; of its sources, where this node computes nothing."""
        computes = any(self.name in nodes for nodes in self._cluster.replicas.values())
        if not computes:
            return {source.name: source.schema for source in self._diagram.sources}
        if self._place.engine == "reference":
            return reference_schemas(self._diagram, self.topology)
        saved = self._state.load_schemas()
        if saved is not None:
            return saved
        schemas = stream_schemas(self._session(), self._diagram, self._base)
        self._state.save_schemas(schemas)
        return schemas

    def _session(self) -> SparkSession:
        """This node's Spark, started when it is first needed."""
        with self._starting:
            if self._spark is None:
                self._spark = open_session(
                    self._place.master,
                    f"australis {self.cluster} {self.name}",
                    settings=spark_settings(self._place.memory_mb),
                    log=self._state.spark_log,
                    preload=FACTORY.partition(":")[0],
                )
                self._spark_pid = process_id(self._spark)
                self._state.spark_pid.write_text(identity(self._spark_pid))
            return self._spark

    def _open_source(self, stream: str, life: int, first: dict[str, Event]) -> None:
        source = next(s for s in self._diagram.sources if s.name == stream)
        disk = FileDisk(self._directory / "sources" / stream / "log")
        self._disks.append(disk)
        log = SharedLog(disk, source.schema, self._diagram.buckets)
        if log.boundary_us < self._diagram.buckets.end(self.base_bucket):
            log.restart_at(self.base_bucket)
        consumers = self.topology.sources[stream]
        machine = SourceMachine(stream, consumers, self._options)
        host = SourceHost(machine, self._post.sayer(stream), log)
        self._hosts[stream] = host
        feed = SourceFeed(
            source,
            log,
            host,
            self._driver.post,
            self._failed,
            self._clock.now,
            state=self._directory / "sources" / stream,
            base=self._base,
            began=(began_us(self._base / self._cluster.state, self._clock.now()), self._epoch_us),
        )
        self.sources[stream] = feed
        restored = LaneRestored(stream, feed.closed, log.begins, feed.closed)
        first[stream] = Started(life, (restored,))

    def _connect(self, node: str) -> fl.FlightClient:
        client = connect(self._cluster, node, self._credentials)
        return greeted(client, self.cluster, node, self.digest)

    def _listen(self) -> NodeServer:
        scheme = "grpc" if self._credentials is None else "grpc+tls"
        location = f"{scheme}://{self._place.address}"
        try:
            if self._credentials is None:
                return NodeServer(self, location, tell=self.events.tell)
            return NodeServer(
                self, location, caller, self.events.tell, **self._credentials.for_server()
            )
        except pa.ArrowException:
            # Flight does not say why; it is nearly always this.
            raise UserError(
                f"cannot listen at {self._place.address}: the port is taken, or not of this machine",
                name=self.name,
                place=self._cluster.place_of("nodes", self.name),
            ) from None

    def _open_metrics(self) -> None:
        """Serve metrics if that is wanted; a node without them does not even load the library."""
        if self._place.metrics is None:
            return
        from australis.live.node.metrics import NO_PROCESS, MetricsServer, metrics

        def ask() -> Iterator[Metric]:
            return metrics(self.status(), self._clock.now(), self._diagram.buckets)

        try:
            self._metrics = MetricsServer(
                self._place.metrics, ask, lambda: self._spark_pid or NO_PROCESS
            )
        except UserError as error:
            place = self._cluster.place_of("nodes", self.name)
            raise UserError(error.sentence, name=self.name, place=place) from None

    # --- messages -----------------------------------------------------------------------

    def knows(self, node: str) -> bool:
        """Whether a certificate of this name is of this cluster."""
        return node in self._cluster.nodes or node in self._cluster.clients

    def receive(self, node: str | None, body: bytes) -> None:
        """Take a message for one of this node's machines."""
        self._post.receive(node, body, self.schemas, self._diagram.buckets)

    def inbox(self, node: str | None, client: str, life: int) -> Iterable[Any]:
        """The stream of messages for a client in one of its lives."""
        return self._post.inbox(node, client, life)

    # --- snapshots ------------------------------------------------------------------------

    def snapshot(self, node: str | None, machine: str, stream: str) -> tuple[int, Path]:
        """The latest checkpoint of a lane, for a node that runs the same, in a directory."""
        config = next((r for r in self.topology.replicas if r.name == machine), None)
        if config is None or machine not in self._lanes:
            raise wire.WireError(f"'{wire.short(machine)}' does not run on '{self.name}'")
        if stream not in (output.stream for output in config.outputs):
            raise wire.WireError(f"'{machine}' has no output '{wire.short(stream)}'")
        if node is not None and node not in {self._post.places[peer] for peer in config.peers}:
            raise wire.WireError(f"'{node}' may not have the state of '{machine}'")
        copy = self._snapshots / f"{next(self._copies)}"
        make_directory(copy)
        try:
            return self._lanes[machine].snapshot(stream, copy), copy
        except BaseException:
            shutil.rmtree(copy, ignore_errors=True)
            raise

    def _install(self, machine: str, effect: InstallSnapshot) -> None:
        """Fetch a replica's checkpoint on a thread of its own, then go on from it."""
        entry, about = self._driver.entry, self._driver.about()

        def fetch() -> None:
            told = {**about, "stream": effect.stream, "peer": effect.state}
            try:
                files = self._snapshots / f"of {effect.stream}"
                with self._connect(self._post.places[effect.state]) as client:
                    upto = snapshots.fetch(
                        client, effect.state, effect.stream, files, SNAPSHOT_PATIENCE_S
                    )
                begins = self._lanes[machine].install(effect.stream, upto, files)
                self._driver.post(machine, SnapshotInstalled(effect.stream, upto, begins), entry)
                self.events.tell("snapshot_installed", upto=upto, begins=begins, **told)
            except (fl.FlightError, pa.ArrowException, wire.WireError, Mismatch) as error:
                self._driver.post(machine, SnapshotFailed(effect.stream), entry)  # it asks again
                why = sentence_of(error)
                self.events.tell("snapshot_failed", level=WARNING, why=why, **told)
            except BaseException as error:
                self._failed(error)

        threading.Thread(target=fetch, name=f"snapshot of {effect.stream}", daemon=True).start()

    # --- what is here ---------------------------------------------------------------------

    def output(self, stream: str) -> Output:
        """An output that a replica on this node computes."""
        for host in self._hosts.values():
            if isinstance(host, ReplicaHost) and stream in host.machine.outputs:
                return host.machine.outputs[stream]
        raise UserError(f"is not computed on '{self.name}'", name=stream)

    def push(self, source: str, rows: Any) -> None:
        """Give rows to a push source on this node; they are durable when this returns."""
        feed = self.sources.get(source)
        if feed is None or feed.proxy.push_handle is None:
            raise UserError(f"is not a push source on '{self.name}'", name=source)
        feed.proxy.push_handle.push(rows)

    # --- what people ask ------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """How the node is doing."""
        outputs = {
            stream: status.of_output(
                host, stream, self._turns[stream], self._directory / name / "logs" / stream
            )
            for name, host in self._hosts.items()
            if isinstance(host, ReplicaHost)
            for stream in host.machine.outputs
        }
        return {
            "cluster": self.cluster,
            "node": self.name,
            "schemas": {stream: str(self.schemas[stream]) for stream in outputs},
            "up_s": round(time.monotonic() - self._started_at, 1),
            "outputs": outputs,
            "sources": {
                s: status.of_source(feed, self._directory / "sources" / s / "log")
                for s, feed in self.sources.items()
            },
            **self._post.status(),
            **status.of_refusals(self._server),
            "overflowed": self._driver.overflowed,
            "handled": self._entries.count,
            "events_lost": self.events.lost,
        }

    def fault(self, what: dict[str, Any]) -> str:
        """Rehearse a failure of the network between this node and another, or end it."""
        self._post.fault(what)
        return "done"

    # --- stopping --------------------------------------------------------------------------

    def _failed(self, error: BaseException) -> None:
        trace = "".join(traceback.format_exception(error))
        about = self._driver.about()
        self.events.tell("error", level=ERROR, **about, why=str(error), trace=trace)
        self.errors.append(error)
        self._on_error(error)

    def check(self) -> None:
        """Raise what has stopped this node."""
        for error in self.errors:
            raise error if isinstance(error, AustralisError) else Stopped(f"stopped: {error!r}")

    def stop(self) -> None:
        """Stop everything; what was acknowledged stays."""
        for feed in self.sources.values():
            with suppress(RuntimeError):
                feed.stop()
        self._driver.stop()
        self._post.close_inboxes()
        if self._metrics is not None:
            self._metrics.stop()
        if self._server is not None:
            self._server.stop()
        self._post.close_links()
        for lanes in self._lanes.values():
            lanes.close()
        if self._spark is not None:
            with suppress(Exception):
                self._spark.stop()
            self._state.spark_pid.unlink(missing_ok=True)
        for disk in self._disks:
            disk.close()
        if self._driver.trace is not None:
            self._driver.trace.close()
        self.events.tell("stopped")
        self.events.close()
        self._lock.release()
