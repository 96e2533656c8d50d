"""Neither the grouping of buckets into steps, nor snapshots, nor forks show in a log."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.runs import Batches, between, ipc, plans, run_diagram, source_log
from spark.operator_cases import AGGREGATES, A, B, table_a, table_b
from spark.test_equal_logs import STREAMS, everything

import australis as au
from australis.diagram.model import Diagram
from australis.kernel.errors import Stopped
from australis.reference import ReferenceEngine

SECONDS = 6
FIRST = 1_760_000_000_000_000 // 500_000 - 1
BUCKETS = range(FIRST, FIRST + 2 * SECONDS + 12)


def chained() -> Diagram:
    """Windows over windows, a join of windows, first and last over several inputs."""
    d = au.diagram("chained")
    a = d.source("a", push=True, schema=A, time="t")
    b = d.source("b", push=True, schema=B, time="t")
    short = d.map("short", a, {"k": "k", "w": "v"})
    merged = d.union("merged", short, d.map("short_b", b, {"w": "w", "k": "k"}))
    edges = d.aggregate(
        "edges", merged, window="1500 ms", slide="1 s", by=["k"],
        compute={"f": "first(w)", "l": "last(w)", "dw": "count(distinct w, k)"},
    )  # fmt: skip
    counts = d.aggregate("counts", merged, window="1 s", by=["k"], compute={"n": "count(*)"})
    sums = d.aggregate("sums", counts, window="3 s", slide="1 s", compute={"n": "sum(n)"})
    tops = d.aggregate("tops", a, window="1 s", by=["k"], compute=AGGREGATES)
    both = d.join(
        "both", counts, tops, within="2 s", on="left.k = right.k and left.n > right.nv",
        select={"k": "left.k", "n": "left.n", "x": "right.sx"},
    )  # fmt: skip
    parts = d.split("parts", a, by=["k", "v"], into=3)
    d.output(edges, sums, both, *(parts[i] for i in range(3)))
    return d.done()


DIAGRAMS = {"everything": everything, "chained": chained}
OUTPUTS = {
    "everything": STREAMS,
    "chained": ("edges", "sums", "both", "parts.0", "parts.1", "parts.2"),
}


def data(seed: int, n: int) -> dict[str, pa.Table]:
    return {"a": table_a(seed, n, SECONDS), "b": table_b(seed, n // 2, SECONDS)}


def written(log: Batches) -> list[tuple[int, bytes]]:
    return [(bucket, ipc(batch)) for bucket, batch in log]


@pytest.mark.parametrize("name", DIAGRAMS)
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([0, 5, 60, 300]),
    stops=st.sets(st.sampled_from(BUCKETS), max_size=12),
    save=st.booleans(),
)
def test_grouping_does_not_show(name: str, seed: int, n: int, stops: set[int], save: bool) -> None:
    diagram, rows = DIAGRAMS[name](), data(seed, n)
    once, _ = run_diagram(diagram, rows)
    each, _ = run_diagram(diagram, rows, list(BUCKETS), save=save)
    some, _ = run_diagram(diagram, rows, sorted(stops), save=save)
    assert set(OUTPUTS[name]) <= set(once)
    for stream, log in once.items():
        assert [bucket for bucket, _ in log] == sorted({bucket for bucket, _ in log})
        assert written(log) == written(each[stream]) == written(some[stream]), stream


@pytest.mark.parametrize("name", DIAGRAMS)
def test_many_rows_in_one_run_leave_no_stream_empty(name: str) -> None:
    logs, _ = run_diagram(DIAGRAMS[name](), data(3, 600))
    assert all(logs[stream] for stream in OUTPUTS[name])


def steps(diagram: Diagram, rows: dict[str, pa.Table]) -> Any:
    """Each plan's engine with the batches of each bucket."""
    logs, schemas = run_diagram(diagram, rows)
    for source in diagram.sources:
        assert written(logs[source.name]) == written(
            source_log(rows[source.name], source.schema, diagram.buckets)
        )
    for plan in plans(diagram):
        engine = ReferenceEngine(plan, schemas, diagram.buckets)
        inputs = [logs[stream] for stream in plan.inputs]
        yield engine, [[between(i, b - 1, b) for i in inputs] for b in BUCKETS], plan


@pytest.mark.parametrize("name", DIAGRAMS)
def test_a_fork_leaves_the_state_as_it_was(name: str) -> None:
    for engine, inputs, plan in steps(DIAGRAMS[name](), data(11, 200)):
        state = engine.initial
        for bucket, batches in zip(BUCKETS, inputs, strict=True):
            before = engine.encode(state)
            nothing = [[] for _ in plan.inputs]
            forked, _ = engine.step(state, nothing, bucket + 20)  # it goes another way
            engine.step(forked, nothing, bucket + 40)
            again = engine.step(engine.decode(before), batches, bucket)
            after, found = engine.step(state, batches, bucket)
            assert engine.encode(state) == before
            assert engine.encode(after) == engine.encode(again[0])
            assert written(found) == written(again[1])
            state = after


def test_states_begin_before_the_first_bucket_and_cannot_be_changed() -> None:
    engine, _, _ = next(steps(chained(), data(1, 10)))
    assert engine.initial.upto == -1
    with pytest.raises(AttributeError):
        engine.initial.upto = 3


def test_a_snapshot_of_another_version_is_refused() -> None:
    engine, _, _ = next(steps(chained(), data(1, 10)))
    saved = bytearray(engine.encode(engine.initial))
    assert saved[1] == 1, "the version stands first"
    saved[1] = 99
    with pytest.raises(Stopped, match="version 99"):
        engine.decode(bytes(saved))
