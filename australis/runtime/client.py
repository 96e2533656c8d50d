"""Reading a stream of a cluster from Python.

    with connect("cluster.yaml") as cluster:
        for change in cluster.subscribe("alerts", client="dashboard"):
            print(change)

A subscription follows all replicas of its stream at once and delivers one sequence:
stable tuples in order, each once (INSERTION); while an input is missing, tentative ones
(TENTATIVE); their revocation (UNDO), the corrections, and the end of these (REC_DONE). The
failure of a replica is masked. `Connection.view` keeps a table of the current tuples
(`runtime.view`).
"""

from __future__ import annotations

import atexit
import queue
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from australis.deployment.check import check
from australis.deployment.cluster import Cluster, node_of_machine
from australis.deployment.cluster_file import load as load_text
from australis.deployment.definition import Definition, cluster_for
from australis.deployment.deployed import Deployment, from_cluster
from australis.deployment.sinks import placed, readers
from australis.diagram import diagram_file
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.errors import Damaged, Stopped, UserError, unknown_name
from australis.kernel.ids import MAX_BUCKET
from australis.kernel.machine import Message, MessageReceived, SetTimer
from australis.node.hosts import ClientHost
from australis.node.machine import NodeMachine
from australis.node.roles import Roles
from australis.protocols.change.messages import Deployed
from australis.protocols.dpc.effects import (
    AnnounceClock,
    AnnounceDifference,
    AnnounceLease,
    AnnounceLoss,
    AnnouncePhase,
    AnnounceWentBack,
    Consumed,
    RestoredLog,
    Rewired,
    Started,
)
from australis.protocols.dpc.missing import share
from australis.protocols.dpc.proxies import (
    ClientMachine,
    Insertions,
    RecDone,
    Skipped,
    Tentatives,
    Undo,
)
from australis.protocols.dpc.subscribers import GUEST
from australis.protocols.dpc.topology import (
    Topology,
    dpc_options,
    leases_of,
    origins_of,
    pairs_of,
    wired,
)
from australis.runtime.admin import AdminClient, NoAnswer, find_access
from australis.runtime.epoch import read_epoch
from australis.runtime.files import read_text
from australis.runtime.load import load as load_diagram
from australis.runtime.load import seen_from_above
from australis.runtime.node.driver import Driver
from australis.runtime.node.families import FAMILIES
from australis.runtime.node.links import Link, Mismatch, greeted, unpack
from australis.runtime.node.links import connect as connect_to
from australis.runtime.node.mailbox import INBOX
from australis.runtime.node.network import HOME, in_space, qualified
from australis.runtime.node.router import node_of
from australis.runtime.node.server import ask
from australis.runtime.node.transport import NETWORK_ERRORS, NodeConnection, Refused, sentence_of
from australis.runtime.node.wire import Wire, WireError
from australis.runtime.sockets import Access
from australis.runtime.token import NoToken, Unproven
from australis.streams.schema import Schema, parse_schema

if TYPE_CHECKING:
    from australis.runtime.changes import Changes
    from australis.runtime.view import View

MAX_QUEUED_CHANGES = 10_000
"""The number of unread changes at which a subscription stops reading (back-pressure)."""
MAX_QUEUED_BYTES = 64 << 20
"""The number of unread bytes at which a subscription stops reading."""
RETRY_S = 0.1
SILENCE_TIMEOUT_S = 10.0
"""The silence after which the stream from a node, which sends at least empty parts, is broken."""
CLOSE_TIMEOUT_S = 5.0
"""The longest time that closing a subscription takes."""
MAX_REFUSALS = 3
"""The number of refusals in a row, by every node, after which a subscription fails."""
OLDEST = -1
"""The start of a guest that reads everything that the logs hold."""
START_TIMEOUT_S = 60.0
"""The longest time that a new subscription waits for the first node that answers."""
DEFAULT_LAST_TUPLES = 100_000
"""The default number of tuples that a view keeps."""


class ChangeKind(StrEnum):
    """The kind of a change, named after the tuple types."""

    INSERTION = "INSERTION"
    """The tuples are stable: they are never revoked."""
    TENTATIVE = "TENTATIVE"
    """The tuples are tentative: they may be corrected later."""
    UNDO = "UNDO"
    """All tentative tuples after the bucket are revoked."""
    REC_DONE = "REC_DONE"
    """All tentative tuples have been corrected."""
    SKIPPED = "SKIPPED"
    """The buckets up to this one are truncated at all replicas."""


@dataclass(frozen=True)
class Change:
    """One step of a stream as a client sees it."""

    kind: ChangeKind
    bucket: int
    """The bucket of the tuples, or the last one that stays."""
    batch: pa.RecordBatch | None = None
    missing: tuple[str, ...] = ()
    """Of a tentative bucket: the original sources of which something is missing in it."""
    share: float = 1.0
    """The part of the buckets of all original sources that is in it, counted from the first
    missing one."""

    @property
    def rows(self) -> int:
        """The number of tuples of the change."""
        return 0 if self.batch is None else self.batch.num_rows

    @property
    def nbytes(self) -> int:
        """The approximate memory of the tuples, in bytes."""
        return 0 if self.batch is None else int(self.batch.nbytes)


NOTHING = Diagram("", (), ())
"""The diagram of a cluster that has none of its own, only what is submitted to it."""
_OPEN: set[Subscription] = set()


@atexit.register
def _close_all() -> None:
    """Close all open subscriptions."""
    for subscription in list(_OPEN):
        subscription.close()


class Connection:
    """A cluster as its clients see it."""

    def __init__(
        self,
        cluster: Cluster,
        diagram: Diagram,
        base: Path,
        identity: str | None,
        space: str = HOME,
    ) -> None:
        """The application of the cluster file, or a submitted one in its space."""
        check(cluster, diagram)
        self.space = space
        self.cluster = cluster
        self.diagram = diagram
        self._base = base
        self._identity = identity
        self._open: list[Subscription] = []

    def application(self, name: str) -> Connection:
        """A submitted application as its clients see it."""
        admin = AdminClient(self.cluster, self._base, self._identity)
        definition, deployment = find_application(admin, name)
        view = cluster_for(self.cluster, definition, deployment)
        diagram = diagram_file.load(definition.diagram, definition.file)
        return Connection(view, diagram, self._base, self._identity, name)

    @property
    def admin(self) -> Changes:
        """The applications of the cluster, and their changes."""
        from australis.runtime.changes import Changes

        return Changes(AdminClient(self.cluster, self._base, self._identity), self._base)

    def _of(self, stream: str) -> tuple[Connection, str]:
        """The connection to the application that a stream belongs to, and its name there."""
        application, dot, name = stream.partition(".")
        return (self.application(application), name) if dot and not self.space else (self, stream)

    def subscribe(
        self,
        stream: str,
        client: str | None = None,
        *,
        after: int | None = None,
        guest: bool = False,
        hedge: int | None = None,
        stable_only: bool = False,
        hold: bool = False,
    ) -> Subscription:
        """Follow a stream as one of the clients of the cluster file, after a bucket.

        A stream of a submitted application has its name before its own, as in `app.stream`, and is
        read as a guest.

        With `hedge=2` it reads the equal logs of two replicas and uses the first copy of each
        bucket: losing one replica costs no time, but every tuple is sent twice. The default is
        what the cluster file says of the client, and 1 for a guest.

        A `guest` needs no place in the file and may read any stream that is logged. It begins
        with new tuples, and no log is kept for it: what it does not read in time is lost to it.

        With `stable_only` no change is delivered that may be revoked later: only INSERTION, and
        SKIPPED where buckets are missing.

        The log of a client is kept until the client has received it; with `hold`, until the
        client acknowledges it (`Subscription.acknowledge`), so that it can be read again. A
        client that restarts continues after what it had acknowledged, and may get the last
        buckets again; where that matters it stores the last bucket it has processed, and passes
        it as `after`.
        """
        other, name = self._of(stream)
        if other is not self:
            made = other.subscribe(
                name, client, after=after, guest=guest, hedge=hedge, stable_only=stable_only,
                hold=hold,
            )  # fmt: skip
            self._open.append(made)
            return made
        if after is not None and not OLDEST <= after <= MAX_BUCKET:
            raise UserError(f"is not a bucket (from {OLDEST} to {MAX_BUCKET})", name=str(after))
        if hedge not in (None, 1, 2):
            raise UserError("is not a number of replicas to follow (1 or 2)", name=str(hedge))
        how = _How((hedge or 1) > 1, stable_only, hold)
        if guest:
            return self._as_guest(stream, after, how)
        named = [c for c in self.cluster.clients.values() if c.stream == stream]
        if client is not None:
            named = [c for c in named if c.name == client]
        if not named:
            raise self._no_client(stream, client)
        name = named[0].name
        how = replace(how, hedged=(hedge or named[0].hedge) > 1)
        return self._subscribed(stream, name, after, self._identity or name, how)

    def _no_client(self, stream: str, client: str | None) -> UserError:
        """The error for a stream that no client of this name reads."""
        clients, place = self.cluster.clients, self.cluster.place_of("clients")
        if client is not None and client not in clients:
            sentence = "is not a client of this cluster"
            return unknown_name(client, clients, sentence, heading="clients", place=place)
        producers_of(self.cluster, self.diagram, stream)
        known = ", ".join(f"{c.name} ({c.stream})" for c in clients.values()) or "none"
        reads = "no client" if client is None else f"not the client '{client}'"
        return UserError(
            f"is read by {reads} of the cluster file (clients: {known}): any logged stream can be"
            " read with guest=True",
            name=stream,
            place=place,
        )

    def _as_guest(self, stream: str, after: int | None, how: _How) -> Subscription:
        producers_of(self.cluster, self.diagram, stream)
        name = f"{GUEST}{secrets.token_hex(8)}"
        if after is None or after == OLDEST:
            trimmed_upto, end = self.kept(stream)
            after = end if after is None else trimmed_upto
        return self._subscribed(stream, name, after, self._identity, how)

    def _subscribed(
        self, stream: str, name: str, after: int | None, identity: str | None, how: _How
    ) -> Subscription:
        access = await_access(self.cluster, self._base, identity)
        made = Subscription(self, stream, name, after, access, how)
        self._open.append(made)
        return made

    def view(
        self,
        stream: str,
        client: str | None = None,
        *,
        stable_only: bool = False,
        last: int | str = DEFAULT_LAST_TUPLES,
        hedge: int | None = None,
        missing: bool = False,
    ) -> View:
        """A table of the current tuples of a stream, updated in the background.

        It reads as this client of the cluster file, else as a guest, and begins with what the
        logs hold. It keeps the `last` tuples: a number of them, or those of a time span
        ('10 min', by the stream's own time), whatever memory that needs. With `missing` it has a
        column `_missing`: the sources of which something is missing in a tentative tuple.
        """
        from australis.runtime.contents import Contents, Keep
        from australis.runtime.view import View

        other, name = self._of(stream)
        keep = Keep.of(last, other.diagram.buckets)
        guest = client is None
        subscription = other.subscribe(
            name,
            client,
            after=OLDEST if guest else None,
            guest=guest,
            hedge=hedge,
            stable_only=stable_only,
        )
        return View(subscription, Contents(subscription.schema.arrow, keep, missing=missing))

    def schema(self, stream: str) -> Schema:
        """The attributes of a stream: of a source from the diagram, else from its nodes."""
        other, name = self._of(stream)
        if other is not self:
            return other.schema(name)
        known = {source.name: source.schema for source in self.diagram.sources}
        if stream in known:
            return known[stream]
        producers_of(self.cluster, self.diagram, stream)
        access = await_access(self.cluster, self._base, self._identity)
        topology = wired(self.diagram, self.deployment(), {}, pairs_of(self.cluster))
        producers = producers_in(self.cluster, topology, stream)
        places = places_in(self.cluster, topology)
        return find_schema(self.cluster, stream, producers, access, places, self.space)

    def kept(self, stream: str) -> tuple[int, int]:
        """The last bucket that the logs of a stream no longer hold, and the last one they hold."""
        other, name = self._of(stream)
        if other is not self:
            return other.kept(name)
        admin = AdminClient(self.cluster, self._base, self._identity)
        topology = wired(self.diagram, self.deployment(), {}, pairs_of(self.cluster))
        places = places_in(self.cluster, topology)
        producers = producers_in(self.cluster, topology, stream)
        nodes = [places[producer] for producer in producers]
        answers = admin.ask_all(nodes, "status").values()
        parts = [part_of(answer, self.space) for answer in answers if answer is not None]
        found = [part["outputs"] | part["sources"] for part in parts if part is not None]
        logs = [logs[stream] for logs in found if stream in logs]
        if not logs:
            sentence = f"cannot be read: none of its nodes answers ({', '.join(nodes)}); `australis up` starts them"
            raise NoAnswer(sentence, name=stream)
        return min(int(log["trimmed_upto"]) for log in logs), max(int(log["end"]) for log in logs)

    def deployment(self) -> Deployment:
        """The newest deployment that a node knows; that of the cluster file if none answers."""
        admin = AdminClient(self.cluster, self._base, self._identity)
        answers = admin.ask_all(self.cluster.nodes, "status").values()
        known = [from_cluster(self.diagram.name, self.cluster)]
        for answer in answers:
            part = None if answer is None else part_of(answer, self.space)
            if part is not None and "deployment" in part:
                known.append(msgspec.convert(part["deployment"], Deployment))
        return max(known, key=lambda one: one.version)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The subscriptions that were made on this connection."""
        return tuple(self._open)

    def close(self) -> None:
        """End all subscriptions."""
        for one in self._open:
            one.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True)
class _How:
    """The options of a subscription."""

    hedged: bool = False
    stable_only: bool = False
    hold: bool = False


class Subscription:
    """One stream, followed at all its replicas."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        client: str,
        after: int | None,
        access: Access,
        how: _How,
    ) -> None:
        cluster, diagram = connection.cluster, connection.diagram
        self.stream = stream
        self.client = client
        self._cluster = cluster
        self._diagram = diagram
        self._access = access
        self._stable_only = how.stable_only
        deployment = connection.deployment()
        self._version = deployment.version
        topology = self._topology(deployment)
        config = next(c for c in topology.clients if c.name == client)
        options = dpc_options(cluster, diagram)
        self._sources = len(origins_of(topology.fragments).get(stream, (stream,)))
        self._places = places_in(cluster, topology)
        self._buckets = diagram.buckets
        self._roles = Roles(topology)
        self._wire = Wire(cluster.name, FAMILIES)
        self._space = connection.space
        known = {source.name: source.schema for source in diagram.sources}
        self.schema = known.get(stream) or find_schema(
            cluster, stream, config.producers, access, self._places, self._space
        )
        """The stream's attributes."""
        self._schemas = {stream: self.schema}
        self._changes: queue.Queue[Change | None] = queue.Queue()
        self._waiting_bytes = 0
        self._counting = threading.Lock()
        self._error: BaseException | None = None
        self._closed = threading.Event()
        self._refusals: Counter[str] = Counter()
        machine = ClientMachine(
            client, stream, config.producers, options, hedge=how.hedged, hold=how.hold
        )
        self._machine = machine
        self._links: dict[str, Link] = {}
        self._following = threading.Lock()
        self._node = NodeMachine(client)
        self._driver = Driver(self._node, self._failed)
        if after is None:
            assert cluster.epoch_us is not None
            after = diagram.buckets.closed_by(cluster.epoch_us)
            with suppress(UserError):  # what it acknowledged before may be truncated
                after = max(after, connection.kept(stream)[0])
        self._node.open(ClientHost(machine, self, self))
        self._incarnation = time.time_ns() // 1_000_000 - 1_600_000_000_000
        self._streams: dict[str, NodeConnection] = {}
        """The connection with the open stream from each node."""
        self._readers: dict[str, threading.Thread] = {}
        _OPEN.add(self)
        self._open_links({self._places[p] for p in config.producers})
        restored = RestoredLog(stream, after, after, after)
        self._driver.start({client: Started(self._incarnation, (restored,))})

    def _topology(self, deployment: Deployment) -> Topology:
        clients = readers(self._cluster, self._diagram) | {self.client: self.stream}
        return wired(self._diagram, deployment, clients, pairs_of(self._cluster))

    def _open_links(self, nodes: set[str]) -> None:
        """Talk to these nodes from now on, and to no others."""
        for node in [node for node in self._links if node not in nodes]:
            self._links.pop(node).close()
            if (stream := self._streams.pop(node, None)) is not None:
                stream.cancel()
            self._readers.pop(node, None)
        for node in nodes - self._links.keys():
            told = partial(self._link_told, node)
            self._links[node] = Link(node, self._connector(node), told)
            reader = threading.Thread(
                target=self._read, args=(node,), name=f"from {node}", daemon=True
            )
            self._readers[node] = reader
            reader.start()

    def _follow(self, deployment: Deployment) -> None:
        """Follow a newer deployment: its replicas may run on other nodes."""
        with self._following:
            if deployment.version <= self._version or self._closed.is_set():
                return
            self._version = deployment.version
            topology = self._topology(deployment)
            config = next(c for c in topology.clients if c.name == self.client)
            self._places |= places_in(self._cluster, topology)
            self._roles = Roles(topology)
            self._open_links({self._places[p] for p in config.producers})
            roles = topology.joining, topology.leaving
            leases = leases_of(self._cluster, self._diagram, topology)
            self._driver.post(self.client, Rewired(self._version, config, *roles, leases))

    def _connector(self, node: str) -> Callable[[], NodeConnection]:
        return lambda: _greet(self._cluster, node, self._access)

    # --- the ports of the client proxy (`node.ports`) ------------------------------------

    def send(self, sender: str, to: str, message: Message) -> None:
        """Send a message of the proxy to a producer."""
        names = qualified(self._space, sender), qualified(self._space, to)
        data = self._wire.encode(*names, message)
        link = self._links.get(self._places[to])
        if link is not None:
            link.send(data)

    def set_timer(self, machine: str, effect: SetTimer) -> None:
        """Set a timer of the proxy."""
        self._driver.set_timer(machine, effect)

    def shares_logs(self, machine: str) -> bool:
        """Return False, since a client has no logs."""
        return False

    def phase_changed(self, machine: str, effect: AnnouncePhase) -> None:
        """Do nothing, since a client has no phases."""

    def state_lost(self, machine: str, effect: AnnounceLoss) -> None:
        """Do nothing, since a client has no state to lose."""

    def source_went_back(self, machine: str, effect: AnnounceWentBack) -> None:
        """Do nothing: the stream has failed until the source has its log again."""

    def log_damaged(self, machine: str, stream: str, error: Damaged) -> None:
        """Do nothing, since a client has no logs."""

    def lease_changed(self, machine: str, effect: AnnounceLease) -> None:
        """Do nothing, since a client has no logs."""

    def clock_is_off(self, machine: str, effect: AnnounceClock) -> None:
        """Do nothing, since entry times are converted."""

    def logs_differ(self, machine: str, effect: AnnounceDifference) -> None:
        """Fail if what was read differs from what the replicas have now."""
        if effect.stops:
            said = "; ".join(one.text for one in effect.differences)
            self._failed(
                Stopped(
                    f"the replicas of '{effect.stream}' differ, and no program can tell which one"
                    f" is right: {said} (see 'Replicas that differ' in docs/reference/observability.md)"
                )
            )

    # --- reading ------------------------------------------------------------------------------

    def _read(self, node: str) -> None:
        """Read the stream of messages from a node, and reopen it until the subscription ends."""
        name = qualified(self._space, self.client)
        ticket = msgspec.msgpack.encode((name, self._incarnation))
        while not self._closed.is_set() and node in self._links:
            try:
                with self._connector(node)() as client:
                    self._streams[node] = client
                    if self._closed.is_set():
                        return
                    for part in client.call(INBOX, ticket, SILENCE_TIMEOUT_S):
                        self._refusals[node] = 0
                        for message in unpack(part):
                            self._take(node, message)
                        if self._closed.is_set() or node not in self._links:
                            return
            except (Refused, Unproven, Mismatch) as error:
                self._refused(node, error)
            except (OSError, ValueError):
                pass
            self._closed.wait(RETRY_S)

    def _link_told(self, node: str, event: str, **fields: Any) -> None:
        if event == "refused_by":
            self._refused(node, Stopped(fields["why"]))

    def _refused(self, node: str, error: Exception) -> None:
        """Count a refusal of a node; the subscription fails once every node keeps refusing."""
        self._refusals[node] += 1
        hopeless = all(self._refusals[one] >= MAX_REFUSALS for one in self._links)
        if hopeless and self._error is None:
            self._failed(Stopped(f"'{node}' refuses '{self.client}': {sentence_of(error)}"))

    def _take(self, node: str, data: bytes) -> None:
        with suppress(WireError):
            route = self._wire.route(data)
            space, sender = in_space(route.sender)
            if space != self._space:
                return
            route = msgspec.structs.replace(route, sender=sender)
            message = self._wire.message(route, self._schemas, self._buckets)
            if isinstance(message, Deployed):
                if self._places.get(sender) == node:
                    self._follow(message.deployment)
                return
            if self._roles.may(sender, self.client, message):
                received = MessageReceived(sender, message)
                self._driver.offer(self.client, received, size=len(data))

    def deliver(self, stream: str, what: Any) -> None:
        """Take a delivery of the proxy; blocks while the application does not read."""
        if self._stable_only and not isinstance(what, Insertions | Skipped):
            return
        while self._full and not self._closed.is_set():
            time.sleep(0.01)  # what is not read waits at the producers, then in their logs
        match what:
            case Insertions(bucket=bucket):
                change = Change(ChangeKind.INSERTION, bucket.number, bucket.batch)
            case Tentatives(bucket=bucket):
                number, missing = bucket.number, bucket.missing
                names = tuple(one.source for one in missing)
                there = share(missing, number, self._sources)
                change = Change(ChangeKind.TENTATIVE, number, bucket.batch, names, there)
            case Undo(upto=upto):
                change = Change(ChangeKind.UNDO, upto)
            case Skipped(upto=upto):
                change = Change(ChangeKind.SKIPPED, upto)
            case RecDone():
                change = Change(ChangeKind.REC_DONE, -1)
            case _:
                raise Stopped(f"a client cannot be told {what!r}")
        self._count(change.nbytes)
        self._changes.put(change)

    @property
    def _full(self) -> bool:
        return (
            self._changes.qsize() >= MAX_QUEUED_CHANGES or self._waiting_bytes >= MAX_QUEUED_BYTES
        )

    def _count(self, more: int) -> None:
        with self._counting:
            self._waiting_bytes += more

    def _failed(self, error: BaseException) -> None:
        self._error = error
        self._changes.put(None)

    @property
    def reads_from(self) -> str:
        """The node whose log it reads now."""
        return self._places[self._machine.input.log_from]

    def next(self, timeout_s: float | None = None) -> Change | None:
        """The next change; None if none came in time, or the subscription is closed."""
        try:
            change = self._changes.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if change is None:
            self._changes.put(None)  # for the next call
            if self._error is not None:
                raise self._error
            return None
        self._count(-change.nbytes)
        return change

    def acknowledge(self, upto: int) -> None:
        """Acknowledge the buckets up to this one, so that logs may truncate them (with `hold`)."""
        if not self._machine.hold:
            raise UserError(
                "acknowledges what it receives: subscribe with hold=True", name=self.client
            )
        self._driver.post(self.client, Consumed(upto))

    def __iter__(self) -> Iterator[Change]:
        while (change := self.next()) is not None:
            yield change

    def close(self) -> None:
        """Stop following the stream."""
        if self._closed.is_set():
            return
        self._closed.set()
        _OPEN.discard(self)
        self._driver.stop()
        for link in list(self._links.values()):
            link.close()
        for stream in list(self._streams.values()):
            stream.cancel()
        for reader in list(self._readers.values()):
            reader.join(CLOSE_TIMEOUT_S)
        self._changes.put(None)


def _greet(cluster: Cluster, node: str, access: Access) -> NodeConnection:
    return greeted(connect_to(cluster, node, access), cluster.name, node)


def await_access(cluster: Cluster, base: Path, identity: str | None) -> Access:
    """How to call nodes, once the cluster has been started for the first time."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return find_access(cluster, base, identity)
        except NoToken:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)


def find_schema(
    cluster: Cluster,
    stream: str,
    producers: tuple[str, ...],
    access: Access,
    places: Mapping[str, str],
    space: str = HOME,
) -> Schema:
    """The schema of a stream from the first producer that answers."""
    deadline = time.monotonic() + START_TIMEOUT_S
    why = ""
    while time.monotonic() < deadline:
        for producer in producers:
            try:
                with _greet(cluster, places[producer], access) as node:
                    part = part_of(ask(node, "status", timeout_s=2), space) or {}
                    schema = part.get("schemas", {}).get(stream)
                if schema is not None:
                    return parse_schema(schema)
            except (*NETWORK_ERRORS, Mismatch) as error:
                why = f": {sentence_of(error)}"
        time.sleep(RETRY_S)
    nodes = ", ".join(places[p] for p in producers)
    raise NoAnswer(f"cannot be read: none of its nodes answers ({nodes}){why}", name=stream)


def part_of(status: dict[str, Any], space: str) -> dict[str, Any] | None:
    """What the status of a node says of an application; None if nothing."""
    found: dict[str, Any] | None = status
    if space != HOME:
        found = status["applications"].get(space)
        found = found if found is not None and found["here"] else None
    return found


def find_application(admin: AdminClient, name: str) -> tuple[Definition, Deployment]:
    """A submitted application: what it computes, and its newest deployment."""
    answers = admin.ask_all(admin.cluster.nodes, "status")
    running = [a["applications"] for a in answers.values() if a is not None]
    if not running:
        raise NoAnswer(
            "has no node that answers: `australis up` starts them", name=admin.cluster.name
        )
    known = [msgspec.convert(a[name]["deployment"], Deployment) for a in running if name in a]
    if not known:
        names = {one for apps in running for one in apps}
        sentence = "is not an application of this cluster"
        raise unknown_name(name, sorted(names), sentence, heading="applications")
    deployment = max(known, key=lambda one: one.version)
    for node, answer in answers.items():
        if answer is None:
            continue
        found = admin.ask(node, "definition", deployment.definition)
        if found is not None:
            return msgspec.convert(found, Definition), deployment
    raise NoAnswer("has no node that answers and knows what it computes", name=name)


def producers_of(cluster: Cluster, diagram: Diagram, stream: str) -> tuple[str, ...]:
    """The machines that have a stream's log."""
    if stream in cluster.sources:
        return tuple(cluster.source_machines[stream])
    home = {plan.output: f.name for f in cut(diagram) for plan in f.plans}
    if stream not in home:
        known = [*cluster.sources, *home]
        raise unknown_name(
            stream, known, "has no log", heading="logged streams", place=diagram.place
        )
    return cluster.machines[home[stream]]


def producers_in(cluster: Cluster, topology: Topology, stream: str) -> tuple[str, ...]:
    """The machines that have a stream's log in a deployment."""
    if stream in cluster.sources:
        return tuple(cluster.source_machines[stream])
    made = (r.name for r in topology.replicas for o in r.outputs if o.stream == stream)
    return tuple(name for name in made if name not in topology.joining)


def places_in(cluster: Cluster, topology: Topology) -> dict[str, str]:
    """The node of each machine in a deployment."""
    return node_of(cluster) | {r.name: node_of_machine(r.name) for r in topology.replicas}


def load_nodes(path: Path | str) -> tuple[Cluster, Path]:
    """A cluster file alone, and the directory its paths are relative to.

    It is enough to stop nodes or to inject faults, even if the diagram cannot be read.
    """
    path = Path(path)
    return load_text(read_text(path), str(path)), path.parent


def load_cluster(path: Path | str, *, needs_epoch: bool = True) -> tuple[Cluster, Diagram, Path]:
    """A cluster file with its diagram, and the directory its paths are relative to."""
    cluster, diagram, base = load_files(path)
    if cluster.epoch_us is None:
        cluster = replace(cluster, epoch_us=read_epoch(base / cluster.state))
    if cluster.epoch_us is None and needs_epoch:
        raise UserError(
            "has no 'epoch', the time before its first tuple: `australis up` chooses one, or"
            " write for example 'epoch: 2026-01-01T00:00:00Z'",
            name=cluster.name,
            place=cluster.place,
        )
    return cluster, diagram, base


def load_files(path: Path | str) -> tuple[Cluster, Diagram, Path]:
    """The same by the files of the user alone, without the epoch that its state says."""
    cluster, base = load_nodes(path)
    diagram = NOTHING
    if cluster.diagram_path:
        diagram = load_diagram(base / cluster.diagram_path)
        diagram = seen_from_above(diagram, Path(cluster.diagram_path).parent)
    check(cluster, diagram)
    diagram = placed(cluster, diagram)
    dpc_options(cluster, diagram)
    return cluster, diagram, base


def connect(path: Path | str, *, identity: str | None = None) -> Connection:
    """A connection to the cluster of this file.

    With TLS a client presents its own certificate, or that of `identity`.
    """
    cluster, diagram, base = load_cluster(path)
    return Connection(cluster, diagram, base, identity)
