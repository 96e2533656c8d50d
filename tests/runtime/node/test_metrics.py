"""What a node tells Prometheus: over HTTP, to its own machine, made when somebody asks."""

from __future__ import annotations

import gzip
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from runtime.node.small_cluster import SmallCluster, free_ports

from australis.kernel.errors import UserError
from australis.runtime.node.metrics import NO_PROCESS, MetricsServer, metrics
from australis.runtime.node.process import Node
from australis.streams.buckets import Buckets


class Scrape:
    """The samples of one answer."""

    def __init__(self, text: str) -> None:
        self.families = {f.name: f for f in text_string_to_metric_families(text)}
        self.samples = {
            (s.name, frozenset(s.labels.items())): s.value
            for f in self.families.values()
            for s in f.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self.samples[name, frozenset(labels.items())]

    def ones(self, name: str, label: str) -> list[str]:
        """The label's values where the sample is 1."""
        return [
            dict(labels)[label]
            for (found, labels), value in self.samples.items()
            if found == name and value == 1
        ]


def scrape(c: SmallCluster, node: str) -> Scrape:
    url = f"http://127.0.0.1:{c.cluster.nodes[node].metrics}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return Scrape(answer.read().decode())


# --- over a running cluster ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    with SmallCluster(tmp_path_factory.mktemp("metrics"), metrics=True) as c:
        c.until(lambda: len(c.stable()) > 5)
        yield c


def test_what_moves_while_all_is_well(cluster: SmallCluster) -> None:
    c = cluster
    before, source = scrape(c, "a"), scrape(c, "e1")
    upto = c.stable_upto
    c.until(lambda: c.stable_upto > upto + 10)
    after, later = scrape(c, "a"), scrape(c, "e1")
    for name in (
        "australis_output_stable_bucket",
        "australis_output_input_bucket",
        "australis_output_micro_batches_total",
        "australis_output_stable_lane_seconds_total",
    ):
        assert after(name, output="counts") > before(name, output="counts") >= 0, name
    for stream in ("s1", "s2"):
        labels = {"output": "counts", "input": stream}
        name = "australis_input_stable_bucket"
        assert after(name, **labels) > before(name, **labels) > 0
    assert after("australis_output_behind_seconds", output="counts") < 5
    assert after("australis_output_log_bytes", output="counts") > 0
    assert after("australis_handled_events_total") > before("australis_handled_events_total")
    assert after("process_resident_memory_bytes") > 10_000_000
    for name in ("australis_source_rows_total", "australis_source_stable_bucket"):
        assert later(name, source="s1") > source(name, source="s1")
    assert later("australis_source_late_rows_total", source="s1") == 0
    for name in ("australis_link_messages_total", "australis_link_sent_bytes_total"):
        assert later(name, peer="a") > source(name, peer="a") > 0
    assert later("australis_link_up", peer="a") == 1
    peers = {s.labels["peer"] for s in later.families["australis_link_up"].samples}
    assert {"a", "b"} <= peers <= {"a", "b", "e2"}, "stewards may have talked to any node"
    assert later("australis_link_waiting_bytes", peer="a") >= 0


def test_every_node_tells_of_itself_alone(cluster: SmallCluster) -> None:
    for name in cluster.nodes:
        told = scrape(cluster, name)
        assert told("australis_node_info", cluster="small", node=name) == 1
        outputs = told.families["australis_output_state"].samples
        assert bool(outputs) == (name in ("a", "b"))
        peers = {s.labels["peer"] for s in told.families["australis_link_messages"].samples}
        assert peers == set(cluster.nodes) - {name}
        assert not [f for f in told.families if f.startswith("australis_spark")]


def test_names_are_as_prometheus_wants_them(cluster: SmallCluster) -> None:
    for family in scrape(cluster, "a").families.values():
        assert family.documentation, family.name
        if family.type == "counter":
            assert all(s.name.endswith("_total") for s in family.samples), family.name
        else:
            assert not family.name.endswith("_total"), family.name


def test_refused_messages_are_told_by_reason(cluster: SmallCluster) -> None:
    node = cluster.nodes["b"]
    assert node._server is not None
    node._server.refused["WireError"] += 3
    assert scrape(cluster, "b")("australis_refused_messages_total", reason="WireError") >= 3


def test_only_this_machine_can_ask(cluster: SmallCluster) -> None:
    server: Any = cluster.nodes["a"]._metrics
    assert server.listener.address[0] == "127.0.0.1"


def test_many_who_ask_and_one_who_says_nothing(cluster: SmallCluster) -> None:
    port = cluster.cluster.nodes["a"].metrics
    with socket.create_connection(("127.0.0.1", port)):
        for _ in range(5):
            scrape(cluster, "a")
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
    assert b"australis_output_state" in gzip.decompress(connection.getresponse().read())
    connection.request("POST", "/metrics", body=b"x")
    assert connection.getresponse().status == 405
    connection.close()


@pytest.mark.timeout(120)
def test_a_failure_shows_and_goes_away(tmp_path: Path) -> None:
    """A source that is out of reach: UP_FAILURE, a fork, tentative tuples; then all is well."""
    state, phases = "australis_output_state", "australis_output_phase_seconds_total"
    with SmallCluster(tmp_path, metrics=True) as c:
        c.until(lambda: len(c.stable()) > 5)
        c.until(lambda: scrape(c, "a").ones(state, "state") == ["STABLE"])
        well = scrape(c, "a")
        reads = {"output": "counts", "input": "s2", "replica": "s2"}
        assert well("australis_input_replica", **reads) == 1
        c.cut("a", "e2")
        c.cut("b", "e2")
        c.until(lambda: c.tentative > 20)
        c.until(lambda: scrape(c, "a").ones(state, "state") == ["UP_FAILURE"])
        cut = scrape(c, "a")
        both = [cut, scrape(c, "b")]
        forks = "australis_output_forks_total"
        assert cut(forks, output="counts") > well(forks, output="counts")
        for told in both:
            assert told("australis_output_tentative_buckets_total", output="counts") > 2
        tuples = [s("australis_output_tentative_tuples_total", output="counts") for s in both]
        assert max(tuples) > 10
        assert cut("australis_link_dropped_messages_total", peer="e2") > 0
        assert cut("australis_output_behind_seconds", output="counts") > 0.5
        c.heal("a", "e2")
        c.heal("b", "e2")
        c.settle()
        c.until(lambda: scrape(c, "a").ones(state, "state") == ["STABLE"])
        healed = scrape(c, "a")
        failed = [s(phases, output="counts", phase="UP_FAILURE") for s in (well, cut, healed)]
        assert failed[0] < failed[1] <= failed[2]
        end = "australis_output_stable_bucket"
        assert healed(end, output="counts") > cut(end, output="counts")
        assert c.stable() == c.expected()


# --- the server ----------------------------------------------------------------------------------


def test_the_port_is_free_after_a_node_has_stopped(tmp_path: Path) -> None:
    with SmallCluster(tmp_path, metrics=True) as c:
        before = scrape(c, "a")
        c.stop("a")
        with pytest.raises(OSError, match="refused"):
            scrape(c, "a")
        c.start("a")
        name = "australis_handled_events_total"
        assert scrape(c, "a")(name) < before(name) + 1000


def test_a_port_that_is_taken_is_told_in_one_sentence(tmp_path: Path) -> None:
    c = SmallCluster(tmp_path, metrics=True)
    port = c.cluster.nodes["a"].metrics
    with socket.create_server(("127.0.0.1", port)):
        node = Node(c.cluster, c.diagram, "a", base=c.base)
        with pytest.raises(UserError) as caught:
            node.start()
    said = str(caught.value)
    assert f"'a' cannot serve metrics at 127.0.0.1:{port}: Address already in use" in said
    assert said.startswith(str(c.path)), said
    Node(c.cluster, c.diagram, "a", base=c.base).start().stop()


def test_without_a_port_nothing_is_loaded_or_served(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        assert all(node._metrics is None for node in c.nodes.values())
    loaded = "import sys, australis.runtime.node.process; print('prometheus_client' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_the_memory_of_spark_is_told_once_it_runs() -> None:
    (port,) = free_ports(1)
    pids: list[int | str] = [NO_PROCESS]
    server = MetricsServer(port, lambda: iter(()), lambda: pids[-1])
    url = f"http://127.0.0.1:{port}/metrics"
    name = "australis_spark_process_resident_memory_bytes"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert name not in answer.read().decode()
        pids.append(1)
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert Scrape(answer.read().decode())(name) > 0
    finally:
        server.stop()


# --- from a status -------------------------------------------------------------------------------


def test_a_status_as_metrics() -> None:
    """An output that has not begun is not behind; odd names are quoted as they should be."""
    output = {
        "state": "FAILURE", "phase": "UP_FAILURE", "phases_s": {"RECOVERING": 1.5}, "upto": -1, "end": -1, "trimmed_upto": -1,
        "waits_for": {"stream": 'x "y"', "waits_s": 3.0, "behind_s": 0.0, "stands": True, "long": True},
        "checkpointed": -1, "micro_batches": 0, "stable_s": 0.0, "forks": 0,
        "tentative_buckets": 0, "tentative_tuples": 0, "rejected": 0, "log_bytes": 0, "full": True,
        "differs": [], "share": None, "inputs": {"s": {"have": 7, "heard": True, "from": "f@b", "replicas": ["f@a", "f@b"]}},
    }  # fmt: skip
    status = {
        "cluster": 'my "c"', "node": "a", "guests": 2, "handled": 9, "connections": 3, "clock_jumped_s": 0.0,
        "over_budget": {"guest": 4}, "refused_connections": {"full": 5}, "events_lost": 0, "refused": {}, "outputs": {"new": output}, "links": {}, "clients": {},
        "clocks": {"b": {"offset_s": -2.5, "error_s": 0.25}},
        "sources": {
            "s": {
                "trimmed_upto": 4, "end": 9, "rows": 5, "rejected": 1, "late": 2, "idle": False, "ahead_s": 0.0, "leads": None,
                "refused_connections": 6,
                "log_bytes": 8, "full": False,
            },
        },
    }  # fmt: skip
    told = scraped(status)
    assert told("australis_node_info", cluster='my "c"', node="a") == 1
    assert told("australis_overflowed_messages_total", rank="guest") == 4
    assert told("australis_refused_connections_total", reason="full") == 5
    assert told("australis_source_refused_connections_total", source="s") == 6
    assert told.ones("australis_output_state", "state") == ["FAILURE"]
    assert told.ones("australis_input_replica", "replica") == ["f@b"]
    assert not told.families["australis_output_behind_seconds"].samples
    assert told("australis_source_behind_seconds", source="s") == pytest.approx(0.3)
    assert told("australis_source_log_buckets", source="s") == 5
    assert told("australis_output_log_full", output="new") == 1
    assert told("australis_source_log_full", source="s") == 0
    assert told("australis_clock_offset_seconds", peer="b") == -2.5
    assert told("australis_clock_error_seconds", peer="b") == 0.25
    assert told("australis_source_rejected_rows_total", source="s") == 1
    starting: dict[str, Any] = output | {"phase": "RECOVERING"}
    for changes, state in (
        ({}, "STARTING"),
        ({"micro_batches": 1}, "CATCHING_UP"),
        ({"micro_batches": 1, "phase": "UP_FAILURE"}, "FAILURE"),
    ):
        told = scraped(status | {"outputs": {"new": starting | changes}})
        assert told.ones("australis_output_state", "state") == [state]


def scraped(status: Mapping[str, Any]) -> Scrape:
    """What Prometheus gets for a status."""

    class Once(Collector):
        def collect(self) -> Any:
            return metrics(status, 1_300_000, Buckets(100_000))

    registry = CollectorRegistry()
    registry.register(Once())
    return Scrape(generate_latest(registry).decode())
