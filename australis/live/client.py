"""Reading a stream of a cluster from Python.

    with connect("cluster.yaml") as cluster:
        for change in cluster.subscribe("alerts", client="dashboard"):
            print(change)

A subscription follows all replicas of its stream at once and hands over one sequence:
stable tuples in order, each once; tentative ones while an input is missing; what takes
them back; and the corrections. A replica that dies goes unnoticed.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.flight as fl

from australis.catalog.check import check
from australis.catalog.cluster import Cluster
from australis.catalog.text import load as load_text
from australis.diagram.model import Diagram
from australis.kernel.errors import Place, Stopped, UserError
from australis.kernel.machine import Message, MessageReceived
from australis.live.certs import Credentials
from australis.live.certs import load as load_credentials
from australis.live.load import load as load_diagram
from australis.live.node import wire
from australis.live.node.driver import Driver
from australis.live.node.hosts import ClientHost
from australis.live.node.links import Link
from australis.live.node.process import connect as connect_to
from australis.live.node.process import dpc_options, node_of
from australis.live.node.server import ask
from australis.protocols.dpc.effects import LaneRestored, Started
from australis.protocols.dpc.proxies import (
    ClientMachine,
    Insertions,
    RecDone,
    Skipped,
    Tentatives,
    Undo,
)
from australis.protocols.dpc.topology import deploy
from australis.streams.schema import Schema, parse_schema

WAITING_CHANGES = 10_000
"""An application that does not read holds its subscription up once so many changes wait."""
AGAIN_S = 0.1
PATIENCE_S = 60.0
"""How long a new subscription waits for the first node that answers."""


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
        self, stream: str, client: str | None = None, *, after: int | None = None
    ) -> Subscription:
        """Follow a stream as one of the clients of the cluster file, behind a bucket."""
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
        made = Subscription(self, stream, named[0].name, after, self._credentials(named[0].name))
        self._open.append(made)
        return made

    def _credentials(self, name: str) -> Credentials | None:
        tls = self.cluster.tls
        if tls is None:
            return None
        return load_credentials(
            self._base / tls.certificates, self._base / tls.ca, self._identity or name
        )

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


class Subscription:
    """One stream, followed at all its replicas."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        client: str,
        after: int | None,
        credentials: Credentials | None,
    ) -> None:
        cluster, diagram = connection.cluster, connection.diagram
        self.stream = stream
        self.client = client
        self._cluster = cluster
        self._credentials = credentials
        topology = deploy(diagram, cluster.machines, cluster.readers)
        config = next(c for c in topology.clients if c.name == client)
        options = dpc_options(cluster, diagram)
        self._places = node_of(cluster)
        self._schemas = {stream: self._find_schema(config.producers)}
        self._changes: queue.Queue[Change | None] = queue.Queue()
        self._error: BaseException | None = None
        self._closed = threading.Event()
        machine = ClientMachine(client, stream, config.producers, options)
        self._links = {
            node: Link(node, self._connector(node))
            for node in {self._places[p] for p in config.producers}
        }
        self._driver = Driver(self._failed)
        if after is None:
            assert cluster.epoch_us is not None
            after = diagram.buckets.closed_by(cluster.epoch_us)
        host = ClientHost(machine, self._say, self._deliver)
        self._readers = [
            threading.Thread(target=self._read, args=(node,), name=f"from {node}", daemon=True)
            for node in self._links
        ]
        for reader in self._readers:
            reader.start()
        life = time.time_ns() // 1_000_000 - 1_600_000_000_000
        restored = LaneRestored(stream, after, after, after)
        self._driver.start({client: host}, {client: Started(life, (restored,))})

    def _find_schema(self, producers: tuple[str, ...]) -> Schema:
        """What a replica that answers says of the stream."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for producer in producers:
                with suppress(fl.FlightError):
                    node = self._connector(self._places[producer])()
                    schema = ask(node, "status", timeout_s=2)["schemas"].get(self.stream)
                    node.close()
                    if schema is not None:
                        return parse_schema(schema)
            time.sleep(AGAIN_S)
        nodes = ", ".join(self._places[p] for p in producers)
        raise UserError(f"cannot be read: none of its nodes answers ({nodes})", name=self.stream)

    def _connector(self, node: str) -> Callable[[], fl.FlightClient]:
        return lambda: connect_to(self._cluster, node, self._credentials)

    def _say(self, to: str, message: Message) -> None:
        data = wire.encode(self._cluster.name, self.client, to, message)
        self._links[self._places[to]].send(data)

    def _read(self, node: str) -> None:
        """Fetch what a node has for this client, again and again."""
        ticket = fl.Ticket(msgspec.msgpack.encode(self.client))
        while not self._closed.is_set():
            with suppress(fl.FlightError, OSError, pa.ArrowException):
                client = self._connector(node)()
                for chunk in client.do_get(ticket):
                    for message in chunk.data.column(0).to_pylist():
                        self._take(message)
                    if self._closed.is_set():
                        return
            self._closed.wait(AGAIN_S)

    def _take(self, data: bytes) -> None:
        with suppress(wire.WireError):
            envelope = wire.decode(data, self._cluster.name, self._schemas)
            self._driver.post(self.client, MessageReceived(envelope.sender, envelope.message))

    def _deliver(self, what: Any) -> None:
        while self._changes.qsize() >= WAITING_CHANGES and not self._closed.is_set():
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
        self._changes.put(change)

    def _failed(self, error: BaseException) -> None:
        self._error = error
        self._changes.put(None)

    def next(self, timeout_s: float | None = None) -> Change | None:
        """The next change; None if none came in time, or the subscription is closed."""
        try:
            change = self._changes.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if self._error is not None:
            raise self._error
        return change

    def __iter__(self) -> Iterator[Change]:
        while (change := self.next()) is not None:
            yield change

    def close(self) -> None:
        """Stop following the stream."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._driver.stop()
        for link in self._links.values():
            link.close()
        self._changes.put(None)


def load_cluster(path: Path | str) -> tuple[Cluster, Diagram, Path]:
    """A cluster file with its diagram, and the directory its paths are relative to."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError("there is no such file", place=Place(str(path))) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read: {error}", place=Place(str(path))) from None
    cluster = load_text(text, str(path))
    diagram = load_diagram(path.parent / cluster.diagram_path)
    check(cluster, diagram)
    return cluster, diagram, path.parent


def connect(path: Path | str, *, identity: str | None = None) -> Connection:
    """A connection to the cluster of this file.

    With TLS a client shows its own certificate, or that of `identity`.
    """
    cluster, diagram, base = load_cluster(path)
    return Connection(cluster, diagram, base, identity)
