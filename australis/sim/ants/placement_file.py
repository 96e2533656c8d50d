"""Placement files: YAML that describes servers, links and queries.

    servers:
      edge: {speed: 1}
      core: {speed: 4, bound: 0.8}
    links:
      edge - core: {latency: 2 ms, bandwidth: 100}
    queries:
      alarms:
        producers: {camera: {at: edge, rate: 30, bytes: 2000}}
        tasks:
          faces: {takes: camera, work: 10 ms, makes: 0.2, bytes: 500}
        consumers: {guard: {at: edge, takes: faces}}

`work` is the time a tuple takes on a server of speed 1, `makes` the number of output tuples per
input tuple, `rate` is in tuples per second, `bandwidth` in Mbit/s, the same both ways. Producers
with the same `stream` at one server have the same output, and so have tasks with the same `does`
and the same inputs: one of them serves several queries. `state` is the size of a task's state, in
MB.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import field

from australis.kernel.errors import UserError
from australis.kernel.names import meant
from australis.placement.check import check_ends, check_room
from australis.placement.network import Network, Server
from australis.placement.queries import Consumer, Producer, Query, Task
from australis.queueing.links import Wire
from australis.yamlfile.document import Document, parse
from australis.yamlfile.schema import Section, Settings, arguments, read
from australis.yamlfile.values import Duration, Name, OneOrMore, Part, Positive, several

BYTES_PER_MBIT = 125_000.0
BYTES_PER_MB = 1e6


@dataclass(frozen=True)
class PlacementFile:
    """A network, and the queries to place on it."""

    network: Network
    queries: tuple[Query, ...]


# --- sections and settings ----------------------------------------------------------------------


class ServerSettings(Settings, frozen=True):
    """One server."""

    speed: Positive = Server.speed
    bound: Part = Server.bound


class LinkSettings(Settings, frozen=True):
    """One link, the same both ways."""

    latency: Duration
    bandwidth: Positive = 1_000.0


class ProducerSettings(Settings, frozen=True):
    """A producer of tuples."""

    at: Name
    rate: Positive
    bytes: Positive = Producer.bytes
    stream: Name = Producer.stream


class TaskSettings(Settings, frozen=True):
    """A task to place."""

    inputs: OneOrMore = field(name="takes")
    work: Duration
    makes: Positive = Task.makes
    bytes: Positive = Task.bytes
    does: Name = Task.does
    state_bytes: Positive = field(default=0.0, name="state")


class ConsumerSettings(Settings, frozen=True):
    """A consumer of results."""

    at: Name
    input: Name = field(name="takes")


class QuerySettings(Settings, frozen=True):
    """One query."""

    producers: Section[ProducerSettings]
    tasks: Section[TaskSettings]
    consumers: Section[ConsumerSettings]


class PlacementSections(Settings, frozen=True):
    """The sections of a placement file."""

    servers: Section[ServerSettings]
    links: Section[LinkSettings]
    queries: Section[QuerySettings]


# --- reading ------------------------------------------------------------------------------------


def load(text: str, file: str) -> PlacementFile:
    """Read a placement file and check it."""
    document = parse(text, file)
    said = read(document, PlacementSections, "a placement file")
    servers = [Server(name, **arguments(one)) for name, one in said.servers.items()]
    links = {}
    for name, link in said.links.items():
        with document.blaming("links", name):
            wire = Wire(link.bandwidth * BYTES_PER_MBIT, link.latency.s)
            links[_ends(name, said.servers)] = wire
    queries = tuple(_query(document, name, one) for name, one in said.queries.items())
    with document.blaming_named("servers", "queries"):
        network = Network.both_ways(servers, links)
        for query in queries:
            check_ends(query, network)
            check_room(query, network)
    return PlacementFile(network, queries)


def _ends(name: str, servers: dict[str, ServerSettings]) -> tuple[str, str]:
    """The two servers of a link."""
    ends = [end.strip() for end in name.split(" - ")]
    if len(ends) != 2 or not all(ends):
        raise UserError("should be two servers: HERE - THERE", name=name)
    for end in ends:
        if end not in servers:
            hint = meant(end, servers)
            raise UserError(f"is at the end of a link but not a server{hint}", name=end)
    return ends[0], ends[1]


def _query(document: Document, name: str, said: QuerySettings) -> Query:
    with document.blaming("queries", name, "tasks"):
        return Query(
            name,
            tuple(Producer(one, **arguments(settings)) for one, settings in said.producers.items()),
            tuple(_task(one, settings) for one, settings in said.tasks.items()),
            tuple(Consumer(one, **arguments(settings)) for one, settings in said.consumers.items()),
        )


def _task(name: str, said: TaskSettings) -> Task:
    scaled = {"work": said.work.s, "state_bytes": said.state_bytes * BYTES_PER_MB}
    return Task(name, **arguments(said) | {"inputs": several(said.inputs)} | scaled)
