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
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from australis.deployment.check import check, check_name
from australis.deployment.cluster import LOOPBACK, Cluster, steward_machine
from australis.deployment.definition import Definition, cluster_for
from australis.deployment.deployed import Deployment, from_cluster
from australis.diagram.model import Diagram
from australis.kernel.durations import SECOND
from australis.kernel.errors import (
    AustralisError,
    OperatorFailed,
    Stopped,
    UserError,
    unknown_name,
)
from australis.node.admission import HEARTBEATS_PER_PERIOD, Limits, connection_limit
from australis.node.control import found_progress
from australis.node.machine import NodeMachine
from australis.protocols.change.events import FindProgress
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.topology import (
    Topology,
)
from australis.runtime.certs import load as load_credentials
from australis.runtime.checks import check_parts
from australis.runtime.ending import side_by_side
from australis.runtime.files import DirectoryLock, make_directory, refuse_links
from australis.runtime.json_values import iso_time
from australis.runtime.listener import raise_descriptor_limit
from australis.runtime.logs import SharedLog
from australis.runtime.node import status, wire
from australis.runtime.node.application import Application, NodeServices
from australis.runtime.node.applications import DIRECTORY as APPLICATIONS
from australis.runtime.node.applications import Applications, read_diagram
from australis.runtime.node.clocks import WallWatch
from australis.runtime.node.control import Control, WantedChange, WantedDrain
from australis.runtime.node.directory import NodeDirectory
from australis.runtime.node.driver import Driver, shifted_clock
from australis.runtime.node.engine import LiveEngine
from australis.runtime.node.entries import Entries
from australis.runtime.node.events import ERROR, Events
from australis.runtime.node.feed import SourceFeed
from australis.runtime.node.links import connect, greeted
from australis.runtime.node.local_replicas import find_schemas
from australis.runtime.node.memory import spark_settings
from australis.runtime.node.network import HOME, Network, in_space
from australis.runtime.node.paired import (
    PairedSource,
)
from australis.runtime.node.server import NodeServer, ask
from australis.runtime.node.settings import Layout, NodeSettings
from australis.runtime.node.sinks import SinkFollower
from australis.runtime.node.spark_home import SparkHome
from australis.runtime.node.spark_lanes import SparkLanes
from australis.runtime.node.trace import TraceFile
from australis.runtime.node.transport import NodeConnection
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
        self._base = base
        self._settings = settings
        self._place = place = cluster.nodes[name]
        self._host = settings.host or (LOOPBACK if place.master.startswith("local") else place.host)
        self._on_error = on_error
        self._directory = directory or base / cluster.state / name
        self._layout = Layout(self._directory, flat=directory is not None)
        self.state = NodeDirectory(cluster, name, base, self._layout)
        self.events = Events(self._directory, name)
        self._lock = DirectoryLock(self.state.lock)
        self._access: Access | None = None
        """How it proves who it is to other nodes, once it has opened."""
        self._clock = shifted_clock()
        self._entries = Entries(name)
        self._driver = self._new_driver(self._failed)
        self._machines = self._driver.node
        self._network = Network(cluster, name, self.events)
        self.digest = ""
        """The digest of what nodes must have in common: the diagram, its functions, the epoch."""
        own = {} if directory is not None else spark_settings(place.memory_mb)
        self._spark = SparkHome(
            self.state,
            place.master,
            f"australis {self.cluster} {name}"
            if directory is None
            else f"australis {diagram.name}",
            {**own, **settings.spark_settings},
            self._host,
            settings.spark,
            settings.on_step,
        )
        self._services = NodeServices(
            name,
            settings,
            base,
            self._clock,
            self.events.tell,
            self._network,
            self._spark,
            self._connect,
            self._notify,
        )
        self._applications = Applications(
            self._services,
            cluster,
            self._directory / APPLICATIONS,
            self._new_driver,
            self._find_definition,
            self._connection_limit,
        )
        self._control = self._open_control(diagram) if settings.listen and cluster.keepers else None
        self._home = self._open_home(diagram)
        self._wall = WallWatch(self.events.tell, cluster.sources_on(name))
        self._watch = Watch(self._driver, self.events.tell, self._failed, [self._look])
        self._server: NodeServer | None = None
        self._metrics: MetricsServer | None = None
        self._started_us = self._clock.now()
        self._started_at = time.monotonic()
        self._incarnation = 0
        self._closed = False

    def _new_driver(self, failed: Callable[[BaseException], None]) -> Driver:
        """A driver for the machines of an application."""
        per_s = HEARTBEATS_PER_PERIOD * SECOND / self._cluster.heartbeat_us
        machines = NodeMachine(self.name)
        return Driver(machines, failed, self._clock, self._entries.next, per_s)

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
        home = self._home
        if self._cluster.epoch_us is None:
            raise UserError(
                "says no 'epoch': no tuple is older than this time (`australis up` fills it in)",
                name=self.cluster,
                place=self._cluster.place,
            )
        check_parts(home.diagram, self._base, home.sources.names)
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
        home.find_schemas()
        if self._settings.fresh:
            self.state.clear()
            self.events.open()
        paced = home.sources.names and not self._settings.bounded
        began = self._clock.now if paced else None
        began_us = self.state.claim(home.diagram, functions, began)
        if home.computes and self._place.engine == "spark":
            self.state.save_schemas(home.schemas)
        self._incarnation = self.state.next_incarnation()
        self._entries.begin(self._incarnation)
        if self._place.trace:
            self._driver.trace = TraceFile(self._directory, self.name)
        first = home.open(self._incarnation, began_us, self._connection_limit())
        if self._control is not None:
            first |= self._control.open(self._incarnation, self._machines, home)
        if self._settings.listen:
            self._network.open(self._connect)
            self._server = self._listen()
            self._open_metrics()
        self._tell_started()
        if self._server is not None:
            self._server.start()
        home.start_engines()
        self._driver.start(first)
        home.start()
        if self._control is not None:
            self._applications.start()
            for deployment in self._control.applications():
                self._applications.adopt(deployment)
            self._control.start()
        if self._settings.listen:
            self._watch.start()
            if not self._cluster.diagram_path and self._place.engine == "spark":
                self._warm_up()

    def _warm_up(self) -> None:
        """Start Spark before an application needs it."""

        def start() -> None:
            try:
                self._spark.session()
            except Exception as error:
                self._failed(error)

        threading.Thread(target=start, name="warm-up", daemon=True).start()

    def _refuse_unsound(self) -> dict[str, str]:
        """Refuse the state of another diagram; returns the digests of the diagram's functions."""
        outlive(self.state.spark_pid)
        diagram = self._home.diagram
        functions = function_digests(diagram, self._base)
        if self._layout.flat and not self._settings.fresh:
            self.state.refuse_other(diagram, functions)
        elif not self._layout.flat:
            remedy = "remove the state of every node to begin anew, or name another 'state'"
            self.state.refuse_other(diagram, functions, remedy)
        self.digest = digest(diagram, functions, self._home.epoch_us)
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

    # --- the application of the cluster file ------------------------------------------------

    def _open_home(self, diagram: Diagram) -> Application:
        first = from_cluster(diagram.name, self._cluster)
        deployment = first if self._control is None else self._control.known()
        return Application(
            *(self._services, HOME, self._cluster, diagram, deployment, self._layout),
            *(self._driver, self._failed),
        )

    @property
    def deployment(self) -> Deployment:
        """The newest deployment that this node knows."""
        return self._home.deployment

    @property
    def topology(self) -> Topology:
        """Who reads whom in that deployment."""
        return self._home.topology

    @property
    def base_bucket(self) -> int:
        """The bucket before the first one."""
        return self._home.base_bucket

    @property
    def schemas(self) -> dict[str, Schema]:
        """The schemas of all streams that this node knows."""
        return self._home.schemas

    @property
    def sources(self) -> dict[str, SourceFeed]:
        """The sources that are read here and have no standby."""
        return self._home.sources.alone

    @property
    def pairs(self) -> dict[str, PairedSource]:
        """The sources with two proxies that have one of them here."""
        return self._home.sources.pairs

    @property
    def sinks(self) -> dict[str, SinkFollower]:
        """The sinks that run here, by client proxy."""
        return self._home.sinks

    @property
    def engines(self) -> dict[str, LiveEngine]:
        """The engines of the replicas that run here."""
        return self._home.engines

    @property
    def logs(self) -> dict[str, SharedLog]:
        """All logs of this node, by stream: those of sources first."""
        return self._home.logs

    def find_log(self, machine: str, stream: str) -> SharedLog:
        """The log of a stream that a machine of this node keeps."""
        return self._home.find_log(machine, stream)

    def follow(
        self, stream: str, writer: SinkWriter, on_error: Callable[[BaseException], None]
    ) -> None:
        """Let a program of this process follow a stream, from the first tuple that is kept."""
        self._home.follow(stream, writer, on_error)

    def await_lanes(self) -> None:
        """Wait until the lanes of all replicas have started, or a component has failed."""
        while not self._home.lanes_started:
            self.check()
            with self.changed:
                self.changed.wait(0.05)
        self._spark.lanes_started()

    def output(self, stream: str) -> Output:
        """An output that a replica on this node computes."""
        return self._home.output(stream)

    def wait_of(self, stream: str) -> dict[str, Any]:
        """The input that holds back an output of this node."""
        return self._home.wait_of(stream)

    def push(self, source: str, rows: Any) -> None:
        """Give rows to a push source on this node; they are durable when this returns."""
        self._home.sources.push(source, rows)

    # --- deployments that change --------------------------------------------------------------

    def _open_control(self, diagram: Diagram) -> Control:
        return Control(
            self.name,
            {name: place.engine for name, place in self._cluster.nodes.items()},
            self._cluster.keepers,
            self._directory / "control",
            from_cluster(diagram.name, self._cluster),
            self._driver,
            self.events.tell,
            self._adopt,
            self._find_progress,
        )

    def _adopt(self, deployment: Deployment) -> None:
        """Follow a newer deployment."""
        if deployment.application == self._home.deployment.application:
            self._home.follow_deployment(deployment)
        else:
            self._applications.adopt(deployment)

    def _find_progress(self, effect: FindProgress) -> None:
        """Find out how far a replica here is, on the thread that drives it."""
        home = effect.application == self._home.deployment.application
        one = self._home if home else self._applications.running.get(effect.application)
        steward = steward_machine(self.name)

        def find() -> None:
            assert one is not None
            now, machines = self._clock.now(), one.driver.node
            found = found_progress(effect, one.deployment, self.name, machines, now)
            self._driver.post(steward, found)

        if one is not None:
            one.driver.call(find)

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
        application = wanted.application or self._home.deployment.application
        return self._control.want(application, wanted.fragment, wanted.add, wanted.drop)

    # --- applications ---------------------------------------------------------------------------

    def about_applications(self, kind: str, body: bytes, caller: str | None) -> Any:
        """Submit or withdraw an application, or keep or give the definition of one."""
        control = self._control
        if control is None:
            raise UserError("has no keepers, so nothing can change", name=self.cluster)
        match kind:
            case "define":
                definition = msgspec.msgpack.decode(body, type=Definition)
                definition.check()
                control.keep_definition(definition)
                return definition.digest
            case "definition":
                known = control.definition(msgspec.msgpack.decode(body, type=str))
                if known is not None and not self._network.rights.is_node(caller):
                    known = replace(known, code={})  # clients need the diagram only
                return None if known is None else msgspec.to_builtins(known)
            case "drain":
                wanted_drain = msgspec.msgpack.decode(body, type=WantedDrain)
                return self._drain(control, wanted_drain, caller)
            case "withdraw":
                name = msgspec.msgpack.decode(body, type=str)
                self._known_application(name)
                self._tell_wanted("withdraw_wanted", name, caller)
                return control.withdraw(name)
            case _:
                definition, wanted = msgspec.msgpack.decode(
                    body, type=tuple[Definition, Deployment]
                )
                self._tell_wanted("submit_wanted", wanted.application, caller)
                return self._submit(control, definition, wanted)

    def _tell_wanted(self, event: str, application: str, caller: str | None) -> None:
        by = caller or "the holder of the token"
        self.events.tell(event, kind=application, application=application, by=by)

    def _drain(self, control: Control, wanted: WantedDrain, caller: str | None) -> dict[str, Any]:
        """Have an application leave a node, or use it again."""
        if wanted.node not in self._cluster.nodes:
            sentence = "is not a node of this cluster"
            raise unknown_name(wanted.node, self._cluster.nodes, sentence, heading="nodes")
        event = "drain_wanted" if wanted.drained else "undrain_wanted"
        by = caller or "the holder of the token"
        application = wanted.application or self._home.deployment.application
        self.events.tell(event, kind=wanted.node, application=application, by=by)
        return control.drain(application, wanted.node, drained=wanted.drained)

    def _known_application(self, name: str) -> None:
        known = self._applications.status()
        if name == self._home.deployment.application:
            sentence = "is the application of the cluster file: it ends with the cluster"
            raise UserError(sentence, name=name)
        if name not in known:
            sentence = "is not an application of this cluster"
            raise unknown_name(name, known, sentence, heading="applications")

    def _submit(
        self, control: Control, definition: Definition, wanted: Deployment
    ) -> dict[str, Any]:
        """Let an application run once a majority of nodes has its definition."""
        if wanted.application == self._home.deployment.application:
            raise UserError("is the application of the cluster file", name=wanted.application)
        definition.check()
        check_name(wanted.application)
        scratch = self._directory / APPLICATIONS / ".submitted"
        diagram = read_diagram(definition, scratch)
        check(cluster_for(self._cluster, definition, wanted), diagram)
        schemas = find_schemas(diagram, self._place.engine, self._spark.session, self._base)
        shutil.rmtree(scratch, ignore_errors=True)
        definition = replace(definition, schemas={s: str(one) for s, one in schemas.items()})
        control.keep_definition(definition)
        self._spread(definition)
        return control.submit(replace(wanted, definition=definition.digest))

    def _spread(self, definition: Definition) -> None:
        """Have a majority of nodes keep a definition."""
        nodes = list(self._cluster.nodes)

        def keep(node: str) -> bool:
            try:
                with self._connect(node) as connection:
                    return bool(ask(connection, "define", definition) == definition.digest)
            except (AustralisError, OSError):
                return False

        others = [node for node in nodes if node != self.name]
        with ThreadPoolExecutor(max(1, len(others))) as pool:
            keep_it = 1 + sum(pool.map(keep, others))
        if 2 * keep_it <= len(nodes):
            raise UserError(
                f"is known to {keep_it} of {len(nodes)} nodes only, and a majority must keep it:"
                " start the others",
                name=definition.application,
            )

    def _find_definition(self, digest: str) -> Definition:
        """A definition that this node or another one has."""
        assert self._control is not None
        known = self._control.definition(digest)
        for node in self._cluster.nodes:
            if known is not None:
                return known
            if node == self.name:
                continue
            try:
                with self._connect(node) as connection:
                    found = ask(connection, "definition", digest)
            except (AustralisError, OSError):
                continue
            if found is not None:
                known = msgspec.convert(found, Definition)
                if known.digest != digest:
                    known = None
                    continue
                self._control.keep_definition(known)
        if known is None:
            raise Stopped(f"no node that answers has the definition {digest}")
        return known

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
        here = self._home.sources.names
        tcp = [s for s in self._home.diagram.sources if s.kind == "tcp" and s.name in here]
        listeners = len(tcp) + self._settings.listen
        return connection_limit(raise_descriptor_limit(), listeners)

    def _open_metrics(self) -> None:
        """Serve metrics if configured; a node without them does not even load the library."""
        if self._place.metrics is None:
            return
        from australis.runtime.node.metrics import NO_PROCESS, MetricsServer, metrics

        def ask() -> Iterator[Metric]:
            return metrics(self.status(), self._clock.now(), self._home.diagram.buckets)

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
        return self._network.rights.knows(caller)

    def longest(self, caller: str | None, kind: str) -> int:
        """The longest body of a request; a `WireError` if the caller may not make it."""
        return self._network.longest(caller, kind)

    def receive(self, caller: str | None, body: bytes) -> None:
        """Take a message for one of this node's machines."""
        self._network.receive(caller, body)

    def inbox(self, caller: str | None, client: str, incarnation: int) -> Iterable[list[bytes]]:
        """The stream of messages for a client in one of its incarnations."""
        space, name = in_space(client)
        return self._application(space).inbox(caller, name, incarnation)

    def snapshot(self, caller: str | None, machine: str, stream: str) -> tuple[int, Path]:
        """The latest checkpoint of a lane, in a directory, for a node with a replica of it."""
        space, name = in_space(machine)
        return self._application(space).snapshot(caller, name, stream)

    def _application(self, space: str) -> Application:
        """The application that runs here in this space."""
        found = self._home if space == HOME else self._applications.running.get(space)
        if found is None:
            raise wire.WireError(f"'{wire.short(space)}' does not run on '{self.name}'")
        return found

    # --- what people ask ------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The status of the node."""
        return {
            "cluster": self.cluster,
            "node": self.name,
            "started_at": iso_time(self._started_us),
            "up_s": round(time.monotonic() - self._started_at, 1),
            "clock_us": self._clock.now(),
            "clock_jumped_s": self._wall.jumped_s,
            **self._home.status(),
            "applications": self._applications.status(),
            "links": self._network.status(),
            **status.of_refusals(self._server),
            "overflowed": self._driver.overflowed,
            "over_budget": {rank.name.lower(): n for rank, n in self._driver.dropped.items()},
            "handled": self._entries.count,
            "events_lost": self.events.lost,
        }

    def fault(self, what: dict[str, Any], caller: str | None = None) -> str:
        """Inject a network fault between this node and another, or end it."""
        self._network.fault(what, caller)
        return "done"

    # --- looking after itself ----------------------------------------------------------------

    def _look(self) -> None:
        """Look once a second at the clock, and at who waits for whom."""
        self._wall.look()
        self._home.look()
        self._applications.look()
        for name, feed in self._home.sources.feeds.items():
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
        yield self._applications.stops()
        yield from self._home.stops()
        self._closed = True
        self._driver.stop()
        yield [self._home.router.close_inboxes]
        yield [one.stop for one in (self._metrics, self._server) if one is not None]
        yield [self._network.close]
        yield self._home.close_lanes()
        yield [self._spark.close]
        yield [self._home.close]
        yield [self._driver.trace.close] if self._driver.trace is not None else []
