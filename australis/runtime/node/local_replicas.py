"""The replicas of a node: opened when it starts, and when a deployment says so; closed again."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from australis.deployment.cluster import Engine
from australis.deployment.deployed import Deployment, Member, MemberRole
from australis.diagram.fragments import Fragment, Plan, cut
from australis.diagram.model import Diagram
from australis.kernel.machine import Event
from australis.node.hosts import ReplicaHost
from australis.node.ports import NodePort
from australis.protocols.dpc.effects import Started
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.topology import Topology
from australis.reference import ReferenceEngine
from australis.runtime.logs import SharedLog
from australis.runtime.node.context import NodeContext
from australis.runtime.node.engine import LiveEngine
from australis.runtime.node.exchange import SnapshotExchange
from australis.runtime.node.lane_work import LaneWork
from australis.runtime.node.lanes import Lanes, LaneSettings
from australis.runtime.node.phase_log import PhaseLog
from australis.runtime.node.reference_lanes import ReferenceLanes
from australis.runtime.node.remembered import load_read, write_read
from australis.runtime.node.spark_home import SparkBranch, SparkHome
from australis.runtime.node.spark_lanes import SparkLanes
from australis.spark.analyse import analyse
from australis.spark.session import SparkSession
from australis.streams.schema import Schema


def reference_schemas(diagram: Diagram, fragments: Iterable[Fragment]) -> dict[str, Schema]:
    """The schema of every stream according to the reference engine."""
    schemas = {source.name: source.schema for source in diagram.sources}
    for fragment in fragments:
        for plan in fragment.plans:
            schemas[plan.output] = ReferenceEngine(plan, schemas, diagram.buckets).schema
    return schemas


def find_schemas(
    diagram: Diagram, engine: Engine, session: Callable[[], SparkSession], base: Path
) -> dict[str, Schema]:
    """The schema of every stream, as the engine of a node finds it."""
    if engine == "spark":
        return analyse(session(), diagram, base)
    return reference_schemas(diagram, cut(diagram))


class LocalReplicas:
    """The replicas that run on a node."""

    def __init__(
        self,
        context: NodeContext,
        port: NodePort,
        exchange: SnapshotExchange,
        spark: SparkHome | SparkBranch,
        find_log: Callable[[str, str], SharedLog],
        schemas: dict[str, Schema],
    ) -> None:
        self._node = context
        self._port = port
        self._exchange = exchange
        self._spark = spark
        self._find_log = find_log
        self._incarnation = 0
        self._opening: dict[str, threading.Thread] = {}
        """The replicas that are being opened while the node runs."""
        self.phases: dict[str, PhaseLog] = {}
        """What happens to each output."""
        self.schemas = schemas
        """The schemas of the streams, which are found when the application is opened."""

    @property
    def engines(self) -> dict[str, LiveEngine]:
        """The engines of the replicas, by machine."""
        return self._exchange.engines

    # --- schemas ---------------------------------------------------------------------------------

    def find_schemas(self, *, computes: bool) -> dict[str, Schema]:
        """Find the schemas of all streams, or only of the sources where nothing is computed."""
        self.schemas |= self._found_schemas(computes)
        return self.schemas

    def _found_schemas(self, computes: bool) -> dict[str, Schema]:
        node = self._node
        if not computes:
            return {source.name: source.schema for source in node.diagram.sources}
        if node.cluster.nodes[node.name].engine == "reference":
            return reference_schemas(node.diagram, node.topology.fragments)
        saved = None if node.settings.fresh else node.state.load_schemas()
        if saved is not None:
            return saved
        session = self._spark.session()
        node.settings.on_step("checking the diagram")
        with self._spark.settled():
            return analyse(session, node.diagram, node.base)

    # --- opening ---------------------------------------------------------------------------------

    def open(
        self, deployment: Deployment, topology: Topology, incarnation: int
    ) -> dict[str, Event]:
        """Open the replicas that this node has; returns the first event of each."""
        self._incarnation = incarnation
        first: dict[str, Event] = {}
        for fragment, member in self._members(deployment, topology):
            host, event = self._open(fragment, member, topology)
            self._node.machines.open(host)
            first[host.name] = event
        return first

    def _members(
        self, deployment: Deployment, topology: Topology
    ) -> Iterator[tuple[Fragment, Member]]:
        members = dict(deployment.on(self._node.name))
        for fragment in topology.fragments:
            if fragment.name in members:
                yield fragment, members[fragment.name]

    def _open(
        self, fragment: Fragment, member: Member, topology: Topology
    ) -> tuple[ReplicaHost, Started]:
        node, name = self._node, member.machine(fragment.name)
        config = next(r for r in topology.replicas if r.name == name)
        plans = {plan.output: plan for plan in fragment.plans}
        rng = random.Random(f"{name} {self._incarnation}")
        machine = ReplicaMachine(config, node.options, rng)
        lanes = self._open_lanes(node.state.replica(name), plans, alone=not config.peers)
        directory = node.layout.lanes(name)
        engine = LiveEngine(
            *(name, lanes, LaneWork(plans, lambda: node.driver.entry)),
            *(node.driver.post, self._exchange.install, node.options.bounds_of),
            partial(write_read, directory),
        )
        for output in plans:
            self.phases[output] = PhaseLog(node.tell, node.driver.about, name, output)
        restored = tuple(
            replace(
                lanes.restore(o, node.base_bucket),
                fits_after=engine.fits_after(o),
                read=load_read(directory, o),
            )
            for o in plans
        )
        joins = member.role is MemberRole.JOINING
        lost = tuple(r.stream for r in restored if joins and r.upto <= node.base_bucket)
        self.engines[name] = engine
        return ReplicaHost(machine, self._port, engine), Started(self._incarnation, restored, lost)

    def _open_lanes(self, directory: Path, plans: dict[str, Plan], *, alone: bool) -> Lanes:
        node, spark = self._node, self._spark
        settings = LaneSettings(
            warm=node.settings.tentative,
            alone=alone,
            rows_per_batch=node.settings.rows_per_batch,
            segment_bytes=node.segment_bytes,
            host=spark.host,
            on_step=node.settings.on_step,
            on_restarted=spark.lane_restarted,
            settled=spark.settled,
            tell=node.tell,
            on_damaged=node.damages.found,
            on_append=node.notify,
        )
        buckets = node.diagram.buckets
        if node.cluster.nodes[node.name].engine == "reference":
            return ReferenceLanes(
                plans, self.schemas, buckets, directory, node.failed, self._find_log, settings
            )
        return SparkLanes(
            plans,
            self.schemas,
            buckets,
            directory,
            spark.session,
            node.base,
            node.failed,
            self._find_log,
            settings,
        )

    # --- while the node runs ---------------------------------------------------------------------

    def follow(
        self,
        deployment: Deployment,
        topology: Topology,
        opened: Callable[[ReplicaHost, Started], None],
    ) -> None:
        """Open what this node has now and did not have before, and close what it has no more.

        It returns at once; a replica that has been opened is handed over on the driver's thread.
        """
        members = {m.machine(f.name): (f, m) for f, m in self._members(deployment, topology)}
        for name in [name for name in self.engines if name not in members]:
            self._close(name)
        for name, (fragment, member) in members.items():
            if name in self.engines or name in self._opening:
                continue
            work = partial(self._open_late, fragment, member, topology, opened)
            thread = threading.Thread(target=work, name=f"opens {name}", daemon=True)
            self._opening[name] = thread
            thread.start()

    def _open_late(
        self,
        fragment: Fragment,
        member: Member,
        topology: Topology,
        opened: Callable[[ReplicaHost, Started], None],
    ) -> None:
        name = member.machine(fragment.name)
        try:
            self.find_schemas(computes=True)
            host, started = self._open(fragment, member, topology)
            self.engines[name].start()
            self._node.driver.call(partial(opened, host, started))
        except BaseException as error:
            self._node.failed(error)
        finally:
            self._opening.pop(name, None)

    def _close(self, name: str) -> None:
        """Close a replica for good; its files go too, since others have what it had."""
        host = self._node.machines.close(name)
        engine = self.engines.pop(name)
        if isinstance(host, ReplicaHost):
            for stream in host.machine.outputs:
                self.phases.pop(stream, None)
        self._node.tell("replica_closed", kind=name, machine=name)
        threading.Thread(target=self._forget, args=(name, engine), daemon=True).start()

    def _forget(self, name: str, engine: LiveEngine) -> None:
        try:
            engine.lanes.close()
            if not self._node.layout.flat:
                shutil.rmtree(self._node.layout.lanes(name), ignore_errors=True)
        except BaseException as error:
            self._node.failed(error)
