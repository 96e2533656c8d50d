"""Reading a stream of a cluster from Python.

    with connect("cluster.yaml") as cluster:
        for change in cluster.subscribe("alerts", client="dashboard"):
            print(change)

A subscription follows all replicas of its stream at once and hands over one sequence:
stable tuples in order, each once; tentative ones while an input is missing; what takes
them back; and the corrections. A replica that dies goes unnoticed. `Connection.view` keeps
a table of what counts now (`live.view`).
"""

from __future__ import annotations

import atexit
import queue
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.flight as fl

from australis.catalog.check import check
from australis.catalog.cluster import Cluster
from australis.catalog.text import load as load_text
from australis.diagram.check import nearest
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.errors import Place, Stopped, UserError
from australis.kernel.ids import MAX_BUCKET
from australis.kernel.machine import Message, MessageReceived
from australis.live.certs import Credentials
from australis.live.epoch import read_epoch
from australis.live.load import load as load_diagram
from australis.live.node import wire
from australis.live.node.driver import Driver
from australis.live.node.hosts import ClientHost
from australis.live.node.links import Link, Mismatch, greeted, sentence_of
from australis.live.node.links import connect as connect_to
from australis.live.node.post import node_of
from australis.live.node.roles import Roles
from australis.live.node.server import ask
from australis.live.operate import NoAnswer, Operator, find_credentials
from australis.protocols.dpc.effects import Consumed, LaneRestored, Started
from australis.protocols.dpc.proxies import (
    ClientMachine,
    Insertions,
    RecDone,
    Skipped,
    Tentatives,
    Undo,
)
from australis.protocols.dpc.subscribers import GUEST
from australis.protocols.dpc.topology import deploy, dpc_options
from australis.streams.schema import Schema, parse_schema

if TYPE_CHECKING:
    from australis.live.view import View

WAITING_CHANGES = 10_000
"""An application that does not read holds its subscription up once so many changes wait,"""
WAITING_BYTES = 64 << 20
"""or so many bytes."""
AGAIN_S = 0.1
CLOSE_S = 5.0
"""So long at most it takes to close a subscription."""
REFUSALS = 3
"""So often in a row every node refuses before a subscription gives up."""
OLDEST = -1
"""Where a guest begins that wants all that is kept."""
PATIENCE_S = 60.0
"""How long a new subscription waits for the first node that answers."""
LAST_TUPLES = 100_000
"""So many tuples a view keeps if it is not told otherwise."""


class Kind(Enum):
    """What a change says."""

    STABLE = "stable"
    """These tuples are final."""
    TENTATIVE = "tentative"
    """These may be corrected later."""
    UNDO = "undo"
    """All tentative tuples after this bucket are taken back."""
    DONE = "rec_done"
    """What was tentative has been corrected."""
    SKIPPED = "skipped"
    """The buckets up to this one are no longer kept anywhere."""


@dataclass(frozen=True)
class Change:
    """One step of a stream as a client sees it."""

    kind: Kind
    bucket: int
    """The bucket of the tuples, or the last one that stays."""
    batch: pa.RecordBatch | None = None

    @property
    def rows(self) -> int:
        """How many tuples it brings."""
        return 0 if self.batch is None else self.batch.num_rows

    @property
    def nbytes(self) -> int:
        """How much memory they need, about."""
        return 0 if self.batch is None else int(self.batch.nbytes)


_OPEN: set[Subscription] = set()


@atexit.register
def _close_all() -> None:
    """Close what was left open: a thread inside gRPC when Python ends would crash it."""
    for subscription in list(_OPEN):
        subscription.close()


class Connection:
    """A cluster as its clients see it."""

    def __init__(
        self, cluster: Cluster, diagram: Diagram, base: Path, identity: str | None
    ) -> None:
        check(cluster, diagram)
        self.cluster = cluster
        self.diagram = diagram
        self._base = base
        self._identity = identity
        self._open: list[Subscription] = []

    def subscribe(
        self,
        stream: str,
        client: str | None = None,
        *,
        after: int | None = None,
        guest: bool = False,
        hedge: int = 1,
        stable_only: bool = False,
        hold: bool = False,
    ) -> Subscription:
        """Follow a stream as one of the clients of the cluster file, behind a bucket.

        With `hedge=2` it reads the equal logs of two replicas and takes what comes first: losing
        one of them costs no time, but every tuple travels twice.

        A `guest` needs no place in the file and may read any stream that is logged. It begins
        with what is new, and no log is kept for it: what it has not read in time is gone.

        With `stable_only` nothing is told that may change later: only STABLE, and SKIPPED where
        something is missing.

        The log of a client is kept until it has received it; with `hold`, until it says that it
        is done with it (`Subscription.acknowledge`), so that it can be asked for again. A client
        that begins anew goes on behind what it had acknowledged, and may get the last buckets
        again; where that matters it keeps the bucket it has finished, and says `after`.
        """
        if after is not None and not OLDEST <= after <= MAX_BUCKET:
            raise UserError(f"is not a bucket (from {OLDEST} to {MAX_BUCKET})", name=str(after))
        if hedge not in (1, 2):
            raise UserError("is not a number of replicas to follow (1 or 2)", name=str(hedge))
        how = _How(hedge > 1, stable_only, hold)
        if guest:
            return self._as_guest(stream, after, how)
        named = [c for c in self.cluster.clients.values() if c.stream == stream]
        if client is not None:
            named = [c for c in named if c.name == client]
        if not named:
            known = ", ".join(f"{c.name} ({c.stream})" for c in self.cluster.clients.values())
            raise UserError(
                f"is read by no such client (clients: {known or 'none'})",
                name=stream,
                place=self.cluster.place_of("clients"),
            )
        name = named[0].name
        return self._subscribed(stream, name, after, self._identity or name, how)

    def _as_guest(self, stream: str, after: int | None, how: _How) -> Subscription:
        producers_of(self.cluster, self.diagram, stream)
        name = f"{GUEST}{secrets.token_hex(8)}"
        if after is None or after == OLDEST:
            begins, end = self.kept(stream)
            after = end if after is None else begins
        return self._subscribed(stream, name, after, self._identity, how)

    def _subscribed(
        self, stream: str, name: str, after: int | None, identity: str | None, how: _How
    ) -> Subscription:
        credentials = find_credentials(self.cluster, self._base, identity)
        made = Subscription(self, stream, name, after, credentials, how)
        self._open.append(made)
        return made

    def view(
        self,
        stream: str,
        client: str | None = None,
        *,
        stable_only: bool = False,
        last: int | str = LAST_TUPLES,
        hedge: int = 1,
    ) -> View:
        """A table of the tuples of a stream that count now, kept current in the background.

        It reads as this client of the cluster file, else as a guest, and begins with what the
        logs hold. Of all tuples it keeps the `last` ones: so many, or those of a time span
        ('10 min', by the stream's own time), whatever memory that needs.
        """
        from australis.live.contents import Contents, Keep
        from australis.live.view import View

        keep = Keep.of(last, self.diagram.buckets)
        guest = client is None
        subscription = self.subscribe(
            stream,
            client,
            after=OLDEST if guest else None,
            guest=guest,
            hedge=hedge,
            stable_only=stable_only,
        )
        return View(subscription, Contents(subscription.schema.arrow, keep))

    def schema(self, stream: str) -> Schema:
        """The attributes of a stream: of a source from its file, else as its nodes say."""
        known = {source.name: source.schema for source in self.diagram.sources}
        if stream in known:
            return known[stream]
        producers = producers_of(self.cluster, self.diagram, stream)
        credentials = find_credentials(self.cluster, self._base, self._identity)
        return find_schema(self.cluster, stream, producers, credentials)

    def kept(self, stream: str) -> tuple[int, int]:
        """Behind which bucket the logs of a stream begin now, and the last one they hold."""
        places = node_of(self.cluster)
        operator = Operator(self.cluster, self._base, self._identity)
        producers = producers_of(self.cluster, self.diagram, stream)
        nodes = [places[producer] for producer in producers]
        answers = operator.ask_all(nodes, "status").values()
        logs = [(a["outputs"] | a["sources"])[stream] for a in answers if a is not None]
        if not logs:
            sentence = f"cannot be read: none of its nodes answers ({', '.join(nodes)})"
            raise NoAnswer(sentence, name=stream)
        return min(int(log["begins"]) for log in logs), max(int(log["end"]) for log in logs)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """Those that were made of it."""
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
    """How a subscription reads."""

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
        credentials: Credentials | None,
        how: _How,
    ) -> None:
        cluster, diagram = connection.cluster, connection.diagram
        self.stream = stream
        self.client = client
        self._cluster = cluster
        self._credentials = credentials
        self._stable_only = how.stable_only
        topology = deploy(diagram, cluster.machines, cluster.readers | {client: stream})
        config = next(c for c in topology.clients if c.name == client)
        options = dpc_options(cluster, diagram)
        self._places = node_of(cluster)
        self._buckets = diagram.buckets
        self._roles = Roles(topology)
        known = {source.name: source.schema for source in diagram.sources}
        self.schema = known.get(stream) or find_schema(
            cluster, stream, config.producers, credentials
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
        self._links = {
            node: Link(node, self._connector(node), partial(self._link_told, node))
            for node in {self._places[p] for p in config.producers}
        }
        self._driver = Driver(self._failed)
        if after is None:
            assert cluster.epoch_us is not None
            after = diagram.buckets.closed_by(cluster.epoch_us)
            with suppress(UserError):  # what it acknowledged before is gone
                after = max(after, connection.kept(stream)[0])
        host = ClientHost(machine, self._say, self._deliver)
        self._life = time.time_ns() // 1_000_000 - 1_600_000_000_000
        self._streams: dict[str, fl.FlightStreamReader] = {}
        """What is being read from each node."""
        self._readers = [
            threading.Thread(target=self._read, args=(node,), name=f"from {node}", daemon=True)
            for node in self._links
        ]
        _OPEN.add(self)
        for reader in self._readers:
            reader.start()
        restored = LaneRestored(stream, after, after, after)
        self._driver.start({client: host}, {client: Started(self._life, (restored,))})

    def _connector(self, node: str) -> Callable[[], fl.FlightClient]:
        return lambda: _greet(self._cluster, node, self._credentials)

    def _say(self, to: str, message: Message) -> None:
        data = wire.encode(self._cluster.name, self.client, to, message)
        self._links[self._places[to]].send(data)

    def _read(self, node: str) -> None:
        """Fetch what a node has for this client, again and again."""
        ticket = fl.Ticket(msgspec.msgpack.encode((self.client, self._life)))
        while not self._closed.is_set():
            try:
                with self._connector(node)() as client:
                    stream = self._streams[node] = client.do_get(ticket)
                    if self._closed.is_set():
                        return
                    for chunk in stream:
                        self._refusals[node] = 0
                        for message in chunk.data.column(0).to_pylist():
                            self._take(message)
                        if self._closed.is_set():
                            return
            except (fl.FlightServerError, Mismatch) as error:
                self._refused(node, error)
            except (fl.FlightError, OSError, pa.ArrowException):
                pass
            self._closed.wait(AGAIN_S)

    def _link_told(self, node: str, event: str, **fields: Any) -> None:
        if event == "refused_by":
            self._refused(node, Stopped(fields["why"]))

    def _refused(self, node: str, error: Exception) -> None:
        """A node has said why it sends nothing; if all do, and again, there is no use waiting."""
        self._refusals[node] += 1
        hopeless = all(self._refusals[one] >= REFUSALS for one in self._links)
        if hopeless and self._error is None:
            self._failed(Stopped(f"'{node}' refuses '{self.client}': {sentence_of(error)}"))

    def _take(self, data: bytes) -> None:
        with suppress(wire.WireError):
            envelope = wire.decode(data, self._cluster.name, self._schemas, self._buckets)
            if self._roles.may(envelope.sender, self.client, envelope.message):
                received = MessageReceived(envelope.sender, envelope.message)
                self._driver.post(self.client, received, size=len(data))

    def _deliver(self, what: Any) -> None:
        if self._stable_only and not isinstance(what, Insertions | Skipped):
            return
        while self._full and not self._closed.is_set():
            time.sleep(0.01)  # what is not read waits at the producers, then in their logs
        match what:
            case Insertions(bucket=bucket):
                change = Change(Kind.STABLE, bucket.number, bucket.batch)
            case Tentatives(bucket=bucket):
                change = Change(Kind.TENTATIVE, bucket.number, bucket.batch)
            case Undo(upto=upto):
                change = Change(Kind.UNDO, upto)
            case Skipped(upto=upto):
                change = Change(Kind.SKIPPED, upto)
            case RecDone():
                change = Change(Kind.DONE, -1)
            case _:
                raise Stopped(f"a client cannot be told {what!r}")
        self._count(change.nbytes)
        self._changes.put(change)

    @property
    def _full(self) -> bool:
        return self._changes.qsize() >= WAITING_CHANGES or self._waiting_bytes >= WAITING_BYTES

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
            self._changes.put(None)  # for whoever asks again
            if self._error is not None:
                raise self._error
            return None
        self._count(-change.nbytes)
        return change

    def acknowledge(self, upto: int) -> None:
        """The logs need not keep these buckets any longer; only with `hold`."""
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
        for link in self._links.values():
            link.close()
        for stream in list(self._streams.values()):
            stream.cancel()
        for reader in self._readers:  # one that outlives the interpreter takes it down
            reader.join(CLOSE_S)
        self._changes.put(None)


def _greet(cluster: Cluster, node: str, credentials: Credentials | None) -> fl.FlightClient:
    return greeted(connect_to(cluster, node, credentials), cluster.name, node)


def find_schema(
    cluster: Cluster, stream: str, producers: tuple[str, ...], credentials: Credentials | None
) -> Schema:
    """What a replica that answers says of a stream."""
    places = node_of(cluster)
    deadline = time.monotonic() + PATIENCE_S
    why = ""
    while time.monotonic() < deadline:
        for producer in producers:
            try:
                with _greet(cluster, places[producer], credentials) as node:
                    schema = ask(node, "status", timeout_s=2)["schemas"].get(stream)
                if schema is not None:
                    return parse_schema(schema)
            except (fl.FlightError, OSError, pa.ArrowException, Mismatch) as error:
                why = f": {sentence_of(error)}"
        time.sleep(AGAIN_S)
    nodes = ", ".join(places[p] for p in producers)
    raise NoAnswer(f"cannot be read: none of its nodes answers ({nodes}){why}", name=stream)


def producers_of(cluster: Cluster, diagram: Diagram, stream: str) -> tuple[str, ...]:
    """The machines that have a stream's log."""
    if stream in cluster.sources:
        return (stream,)
    home = {plan.output: f.name for f in cut(diagram) for plan in f.plans}
    if stream not in home:
        known = [*cluster.sources, *home]
        close = nearest(stream, known)
        hint = f"did you mean '{close}'?" if close else f"logged streams: {', '.join(known)}"
        raise UserError(f"has no log ({hint})", name=stream, place=diagram.place)
    return cluster.machines[home[stream]]


def load_nodes(path: Path | str) -> tuple[Cluster, Path]:
    """A cluster file alone, and the directory its paths are relative to.

    It is enough to stop nodes or to disturb them, whatever has become of the diagram.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError("there is no such file", place=Place(str(path))) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read: {error}", place=Place(str(path))) from None
    return load_text(text, str(path)), path.parent


def load_cluster(path: Path | str, *, needs_epoch: bool = True) -> tuple[Cluster, Diagram, Path]:
    """A cluster file with its diagram, and the directory its paths are relative to."""
    cluster, base = load_nodes(path)
    diagram = load_diagram(base / cluster.diagram_path)
    check(cluster, diagram)
    dpc_options(cluster, diagram)
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


def connect(path: Path | str, *, identity: str | None = None) -> Connection:
    """A connection to the cluster of this file.

    With TLS a client shows its own certificate, or that of `identity`.
    """
    cluster, diagram, base = load_cluster(path)
    return Connection(cluster, diagram, base, identity)
