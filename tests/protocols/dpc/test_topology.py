"""Who reads from whom, and what can be set."""

from __future__ import annotations

from typing import Any

import pytest
from protocols.dpc.hand import options
from protocols.dpc.story import SCHEMA, chain, joined

from australis.deployment.cluster import Cluster, Engine, NodePlace
from australis.diagram.build import DiagramBuilder
from australis.diagram.fragments import cut
from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import UserError
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.topology import dpc_options, node_of, replicate, span_buckets


def test_one_node_per_source_replica_and_client() -> None:
    topology = replicate(chain(2), {"merge": 3})
    assert list(topology.sources) == ["s1", "s2", "s3"]
    assert [r.name for r in topology.replicas] == [
        "merge/1",
        "merge/2",
        "merge/3",
        "step2/1",
        "step2/2",
    ]
    assert [(c.name, c.stream) for c in topology.clients] == [("client of step2_out", "step2_out")]


def test_every_replica_of_a_consumer_reads_every_stream() -> None:
    topology = replicate(chain(2), {})
    assert topology.sources["s1"] == ("merge/1", "merge/2")
    (output,) = topology.replicas[0].outputs
    assert output.consumers == ("step2/1", "step2/2")
    assert topology.replicas[0].peers == ("merge/2",)


def test_readers_prefer_different_replicas() -> None:
    replicas = {r.name: r for r in replicate(chain(2), {}).replicas}
    assert replicas["step2/1"].producers["merged"] == ("merge/1", "merge/2")
    assert replicas["step2/2"].producers["merged"] == ("merge/2", "merge/1")


def test_hops_are_counted_to_the_furthest_client() -> None:
    topology = replicate(chain(3), {}, default=1)
    assert {r.name: r.outputs[0].hops_ahead for r in topology.replicas} == {
        "merge/1": 3,
        "step2/1": 2,
        "step3/1": 1,
    }


def test_each_output_of_a_node_reads_for_itself() -> None:
    consumers = replicate(joined(), {}, default=1).sources["s1"]
    assert consumers == ("join/1 for both", "join/1 for past")
    assert {node_of(c) for c in consumers} == {"join/1"}


def span(**aggregate: Any) -> int | None:
    """How far back the state of an aggregate reaches, in buckets of a second."""
    d = DiagramBuilder("one", bucket="1 s", fragments={"f": ["out"]})
    source = d.source("s", push=True, schema=SCHEMA)
    if aggregate:
        d.aggregate("out", source, compute={"n": "count(*)"}, **aggregate)
    else:
        d.filter("out", source, "v > 0")
    ((plan,),) = (f.plans for f in cut(d.done()))
    return span_buckets(plan, SECOND)


def test_windows_of_time_are_forgotten_and_windows_of_tuples_may_not_be() -> None:
    assert span() == 0
    assert span(window="5 s") == 6
    assert span(window="2500 ms") == 4
    assert span(window="100 tuples") is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_delay_us": SECOND}, "too short for the heartbeats"),
        ({"long_failure_us": SECOND}, "must not be shorter than the accepted delay"),
        ({"input_window": 8, "batch_buckets": 16}, "must hold a micro-batch"),
    ],
)
def test_settings_that_do_not_fit_together(changes: dict[str, int], why: str) -> None:
    with pytest.raises(UserError, match=why):
        options(**changes)


def cluster(engine: Engine, max_delay_us: int, hop_us: int | None = None) -> Cluster:
    return Cluster(
        name="c",
        diagram_path="d.yaml",
        state="state",
        max_delay_us=max_delay_us,
        hop_us=hop_us,
        nodes={"n": NodePlace("n", "localhost", 1, engine=engine)},
        replicas={"merge": ("n",)},
        sources={},
    )


@pytest.mark.parametrize(
    ("engine", "max_delay_ms", "hop_ms", "allowed_ms"),
    [
        pytest.param("reference", 8000, None, 100, id="the reference engine is quick"),
        pytest.param("spark", 8000, None, 500, id="Spark needs two micro-batches"),
        pytest.param("spark", 2000, None, 250, id="half of the delay for four hops"),
        pytest.param("spark", 8000, 700, 700, id="as the cluster file says"),
        pytest.param("reference", 8000, 1000, 1000, id="just not too long"),
    ],
)
def test_what_is_allowed_for_a_hop(
    engine: Engine, max_delay_ms: int, hop_ms: int | None, allowed_ms: int
) -> None:
    hop_us = None if hop_ms is None else hop_ms * MILLISECOND
    given = cluster(engine, max_delay_ms * MILLISECOND, hop_us)
    assert dpc_options(given, chain(4)).hop_us == allowed_ms * MILLISECOND


def test_hops_that_leave_too_little_of_the_delay() -> None:
    given = cluster("spark", 8 * SECOND, 1001 * MILLISECOND)
    with pytest.raises(UserError, match=r"'hop' is too long: .* so here 1 s each"):
        dpc_options(given, chain(4))


def test_the_defaults_fit_together() -> None:
    defaults = DpcOptions()
    assert defaults.stall_us == 400 * MILLISECOND
    assert defaults.lag_buckets >= 1
