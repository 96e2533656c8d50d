"""A node's metrics, for Prometheus to fetch.

    http://127.0.0.1:PORT/metrics      where the cluster file says `metrics: PORT`

They are served over plain HTTP without authentication, so only on the loopback address,
whatever the node's address. Each answer is computed from `Node.status` at that moment:
metrics cost nothing between two requests.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from australis.deployment.cluster import LOOPBACK
from australis.kernel.errors import UserError
from australis.node.admission import Limits
from australis.protocols.dpc.states import State
from australis.runtime.listener import IDENTIFY_TIMEOUT_S, Connection, Listener
from australis.runtime.node.events import Tell, tell_nobody
from australis.runtime.overview import CATCHING_UP, STARTING, WAITING, state_of
from australis.runtime.sockets import limit, send
from australis.streams.buckets import Buckets

MAX_CONNECTIONS = 16
"""The largest number of connections for metrics."""
MAX_REQUEST_BYTES = 1 << 14
"""The longest head of a request for metrics."""
WRITE_TIMEOUT_S = 10.0
"""The time in which an answer has to be taken."""
Told = Mapping[str, Mapping[str, Any]]
"""The status of all parts of one kind of a node, by name."""
SparkPid = Callable[[], int | str]
"""Gives the id of a node's Spark process, which has most of its memory; `NO_PROCESS` before it
runs."""
NO_PROCESS = "none"

_FULL = ("full", GaugeMetricFamily, "log_full", "1 while its log has no room for more")
_OUTPUT = (
    ("upto", GaugeMetricFamily, "input_bucket", "The last bucket its stable lane has processed"),
    ("end", GaugeMetricFamily, "stable_bucket", "The last bucket of its log"),
    ("checkpointed", GaugeMetricFamily, "checkpointed_bucket", "The last bucket of a checkpoint"),
    ("micro_batches", CounterMetricFamily, "micro_batches", "Micro-batches of its stable lane"),
    ("stable_s", CounterMetricFamily, "stable_lane_seconds", "Time its stable lane took for them"),
    (
        *("share", GaugeMetricFamily, "tentative_share"),
        "Part of its sources' buckets that its last tentative bucket rests on; none if stable",
    ),
    ("forks", CounterMetricFamily, "forks", "Tentative lanes that were begun"),
    (
        *("tentative_buckets", CounterMetricFamily, "tentative_buckets"),
        "Buckets its tentative lanes have put out",
    ),
    (
        *("tentative_tuples", CounterMetricFamily, "tentative_tuples"),
        "Tuples its tentative lanes have put out",
    ),
    (
        *("rejected", CounterMetricFamily, "left_out_rows"),
        "Rows it leaves out, since its functions raise on them",
    ),
    _FULL,
)
_SOURCE = (
    ("end", GaugeMetricFamily, "stable_bucket", "The last bucket of its log"),
    ("rows", CounterMetricFamily, "rows", "Rows that were taken in"),
    ("rejected", CounterMetricFamily, "rejected_rows", "Rows that were malformed"),
    ("late", CounterMetricFamily, "late_rows", "Rows older than their stream's boundary"),
    ("idle", GaugeMetricFamily, "idle", "1 while it gives no rows and follows the clock"),
    (
        *("refused_connections", CounterMetricFamily, "refused_connections"),
        "Connections of producers that were refused",
    ),
    ("ahead_s", GaugeMetricFamily, "ahead_seconds", "How far it is ahead of the clock it follows"),
    ("leads", GaugeMetricFamily, "leads", "1 on the node that leads it, if it has a standby"),
    _FULL,
)
_WAY = (
    ("sent", CounterMetricFamily, "messages", "Messages that were sent"),
    ("sent_bytes", CounterMetricFamily, "sent_bytes", "Bytes that were sent"),
    ("dropped", CounterMetricFamily, "dropped_messages", "Messages that were dropped"),
    ("waiting_bytes", GaugeMetricFamily, "waiting_bytes", "Bytes that wait to be sent"),
)
_LINK = (*_WAY, ("up", GaugeMetricFamily, "up", "Whether the last call got through"))
_CLOCK = (
    ("offset_s", GaugeMetricFamily, "offset_seconds", "How far its clock is ahead of this node's"),
    ("error_s", GaugeMetricFamily, "error_seconds", "The largest error of that estimate"),
)
_NODE = (
    ("guests", GaugeMetricFamily, "guests", "Guests who read along"),
    ("handled", CounterMetricFamily, "handled_events", "Events that its machines were handed"),
    (
        *("clock_jumped_s", GaugeMetricFamily, "clock_jumped_seconds"),
        "How far the wall clock has jumped since the node was started",
    ),
    ("connections", GaugeMetricFamily, "connections", "Connections to its port"),
    ("events_lost", CounterMetricFamily, "lost_event_lines", "Lines that could not be written"),
)
_COUNTS = (
    ("over_budget", "overflowed_messages", "rank", "Messages over the budget of their sender"),
    ("refused_connections", "refused_connections", "reason", "Connections that were refused"),
)
"""Counts of a status as (key, metric name, label, meaning)."""
_STATES = (*(state.name for state in State), STARTING, CATCHING_UP, WAITING)
"""The states of an output as `status` shows them."""
_Fields = tuple[tuple[str, type[Any], str, str], ...]
"""Fields of a status as (key, metric type, metric name, meaning)."""


def metrics(status: Mapping[str, Any], now_us: int, buckets: Buckets) -> Iterator[Metric]:
    """The status of a node (`Node.status`) as Prometheus metrics."""
    about = {"cluster": status["cluster"], "node": status["node"]}
    yield InfoMetricFamily("australis_node", "Which node this is", value=about)
    for key, kind, name, text in _NODE:
        yield kind(f"australis_{name}", text, value=status[key])
    refused = CounterMetricFamily(
        "australis_refused_messages", "Messages and calls that were refused", labels=["reason"]
    )
    for reason, count in status["refused"].items():
        refused.add_metric([reason], count)
    yield refused
    for key, name, label, text in _COUNTS:
        family = CounterMetricFamily(f"australis_{name}", text, labels=[label])
        for one, count in status[key].items():
            family.add_metric([one], count)
        yield family
    yield from _outputs(status["outputs"])
    yield from _inputs(status["outputs"])
    yield from _each("source", status["sources"], _SOURCE)
    for part in ("output", "source"):
        yield from _logs(part, status[f"{part}s"], now_us, buckets)
    yield from _each("link", status["links"], _LINK, label="peer")
    yield from _each("client", status["clients"], _WAY)
    yield from _each("clock", status["clocks"], _CLOCK, label="peer")


def _each(part: str, told: Told, fields: _Fields, label: str = "") -> Iterator[Metric]:
    for key, kind, name, text in fields:
        family = kind(f"australis_{part}_{name}", text, labels=[label or part])
        for one, values in told.items():
            if values[key] is not None:
                family.add_metric([one], values[key])
        yield family


def _outputs(outputs: Told) -> Iterator[Metric]:
    yield from _each("output", outputs, _OUTPUT)
    states = GaugeMetricFamily(
        "australis_output_state", "1 for the state it is in", labels=["output", "state"]
    )
    phases = CounterMetricFamily(
        "australis_output_phase_seconds", "Time it was in each phase", labels=["output", "phase"]
    )
    differ = GaugeMetricFamily(
        "australis_output_differing_replicas",
        "Replicas whose log differs from its own",
        labels=["output"],
    )
    for stream, output in outputs.items():
        differ.add_metric([stream], len(output["differs"]))
        for state in _STATES:
            states.add_metric([stream, state], state == state_of(output))
        for phase, seconds in output["phases_s"].items():
            phases.add_metric([stream, phase], seconds)
    yield from (states, phases, differ)


def _inputs(outputs: Told) -> Iterator[Metric]:
    read = GaugeMetricFamily(
        "australis_input_replica",
        "1 for the replica it is read from",
        labels=["output", "input", "replica"],
    )
    have = GaugeMetricFamily(
        "australis_input_stable_bucket",
        "The last stable bucket that has arrived",
        labels=["output", "input"],
    )
    waits = GaugeMetricFamily(
        "australis_output_waits_seconds",
        "Time since the input that holds it back has advanced, while that is long",
        labels=["output", "input"],
    )
    behind = GaugeMetricFamily(
        "australis_output_input_behind_seconds",
        "How far the input that holds it back lies behind another one",
        labels=["output", "input"],
    )
    for stream, output in outputs.items():
        wait = output["waits_for"]
        waits.add_metric([stream, wait["stream"]], wait["waits_s"] if wait["stands"] else 0.0)
        behind.add_metric([stream, wait["stream"]], wait["behind_s"])
        for name, one in output["inputs"].items():
            have.add_metric([stream, name], one["have"])
            for replica in one["replicas"]:
                read.add_metric([stream, name, replica], replica == one["from"])
    yield from (read, have, waits, behind)


def _logs(part: str, told: Told, now_us: int, buckets: Buckets) -> Iterator[Metric]:
    """The length of each log, and the age of its last bucket."""
    behind = GaugeMetricFamily(
        f"australis_{part}_behind_seconds", "Time since its last bucket ended", labels=[part]
    )
    length = GaugeMetricFamily(
        f"australis_{part}_log_buckets",
        "Buckets of its log that some reader may still need",
        labels=[part],
    )
    size = GaugeMetricFamily(
        f"australis_{part}_log_bytes", "Bytes the files of its log have", labels=[part]
    )
    for name, log in told.items():
        length.add_metric([name], log["end"] - log["trimmed_upto"])
        size.add_metric([name], log["log_bytes"])
        if log["end"] >= 0:
            behind.add_metric([name], (now_us - buckets.end(log["end"])) / 1e6)
    yield from (behind, length, size)


class _NodeCollector(Collector):
    """A collector that reads the node's status at each request."""

    def __init__(self, ask: Callable[[], Iterator[Metric]]) -> None:
        self._ask = ask

    def collect(self) -> Iterator[Metric]:
        return self._ask()

    def describe(self) -> Iterator[Metric]:
        """Describe no metrics in advance, since the node may not be ready yet."""
        return iter(())


class MetricsServer:
    """Serves the metrics of one node to its own machine."""

    def __init__(
        self,
        port: int,
        ask: Callable[[], Iterator[Metric]],
        spark_pid: SparkPid,
        tell: Tell = tell_nobody,
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_NodeCollector(ask))
        ProcessCollector(registry=self._registry)
        ProcessCollector(namespace="australis_spark", pid=spark_pid, registry=self._registry)
        limits = Limits(MAX_CONNECTIONS, MAX_CONNECTIONS)
        try:
            self.listener = Listener("metrics", LOOPBACK, port, self._serve, tell, limits)
        except OSError as error:
            why = error.strerror or error
            raise UserError(f"cannot serve metrics at {LOOPBACK}:{port}: {why}") from None
        self.listener.start()

    def stop(self) -> None:
        """Stop serving and free the port."""
        self.listener.stop()

    def _serve(self, connection: Connection) -> None:
        """Answer one request."""
        deadline = time.monotonic() + IDENTIFY_TIMEOUT_S
        head = b""
        while b"\r\n\r\n" not in head and len(head) <= MAX_REQUEST_BYTES:
            limit(connection.socket, deadline)
            data = connection.socket.recv(1 << 12)
            if not data:
                return
            head += data
        connection.identify()
        send(connection.socket, self._answer(head), time.monotonic() + WRITE_TIMEOUT_S)

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", b"only GET is answered\n", b"GET")
        if path not in (b"/", b"/metrics"):
            return _response("404 Not Found", b"the metrics are at /metrics\n", method)
        body, zipped = generate_latest(self._registry), _takes_gzip(head)
        return _response("200 OK", gzip.compress(body) if zipped else body, method, zipped=zipped)


def _takes_gzip(head: bytes) -> bool:
    headers = (line.lower() for line in head.split(b"\r\n"))
    return any(h.startswith(b"accept-encoding:") and b"gzip" in h for h in headers)


def _response(status: str, body: bytes, method: bytes, *, zipped: bool = False) -> bytes:
    encoding = "Content-Encoding: gzip\r\n" if zipped else ""
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE_LATEST}\r\n{encoding}"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
