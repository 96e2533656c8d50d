"""Every kind of operator on a node of a cluster, on Spark: the output is the computed one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from australis.diagram import diagram_file
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram, Filter, Spark
from australis.runtime.client import OLDEST, Change, Connection, load_cluster
from australis.runtime.epoch import keep_epoch
from australis.runtime.supervise import Supervisor
from australis.runtime.testbed import computed, judge, rows_of
from research.bench import clusters

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

LIMIT_S = 400
BUCKETS = 24
OPERATORS = """\
  shares: {split: s1, by: [dst], into: 2}
  kinds:
    filter: s2
    where: {web: port = 443, tcp: "protocol = 'tcp'"}
    rest: others
  large: {filter: shares.1, where: bytes > 300}
  both: {union: [large, kinds.tcp]}
  ordered: {bsort: both}
  short: {map: ordered, select: {src: src, dst: dst, kb: bytes / 1000.0}}
  counted:
    aggregate: short
    window: 5 tuples
    slide: 2 tuples
    by: [src]
    compute: {n: count(*), kb: sum(kb)}
  per_second:
    aggregate: kinds.others
    window: 1 s
    by: [port]
    compute: {n: count(*), total: sum(bytes)}
  sliding:
    aggregate: per_second
    window: 3 s
    slide: 1 s
    compute: {ports: count(*), n: sum(n), total: max(total)}
  pairs:
    join: [kinds.web, shares.0]
    within: 200 ms
    on: left.port = right.port
    select: {port: left.port, one: left.src, other: right.src}
  own: {spark: s2, function: "own.py:big"}
"""
"""Every kind in few results: each is a query of its own, with a warm one behind it."""
FUNCTION = """
def big(frame):
    return frame.where("bytes > 100")
"""


def written(directory: Path) -> Path:
    """A cluster with all of it on one Spark node, and a client for each result."""

    def write(fragments: list[str]) -> Path:
        return clusters.write(
            directory,
            operators=OPERATORS,
            nodes={"a": "spark", "e": "reference"},
            replicas={fragment: ["a"] for fragment in fragments},
            sources={"s1": "e", "s2": "e"},
            stream="pairs",
            rate=40,
            bucket="500 ms",
            max_delay="120 s",
        )

    (directory / "own.py").write_text(FUNCTION)
    path = write([])
    diagram = diagram_file.load((directory / "diagram.yaml").read_text(), "diagram.yaml")
    write([fragment.name for fragment in cut(diagram)])
    clients = [f"  of_{i}: {{stream: {stream}}}\n" for i, stream in enumerate(diagram.results)]
    path.write_text(path.read_text() + "".join(clients))
    return path


def comparable(diagram: Diagram) -> Diagram:
    """The same with a filter in place of the function, which the reference engine cannot call."""
    operators = tuple(
        Filter(name=o.name, inputs=o.inputs, where=(("", "bytes > 100"),))
        if isinstance(o, Spark)
        else o
        for o in diagram.operators
    )
    return replace(diagram, operators=operators)


def test_every_result_of_every_operator(tmp_path: Path) -> None:
    path = written(tmp_path)
    cluster, diagram, base = load_cluster(path, needs_epoch=False)
    keep_epoch(cluster, diagram, base)
    cluster, diagram, base = load_cluster(path)
    assert cluster.epoch_us is not None
    upto = diagram.buckets.closed_by(cluster.epoch_us) + BUCKETS
    assert set(diagram.results) == {"counted", "sliding", "pairs", "own"}
    heard: dict[str, list[Change]] = {stream: [] for stream in diagram.results}
    supervisor = Supervisor(path, cluster, base, lambda sentence, **about: None)
    try:
        look_until(supervisor, lambda: supervisor.ready)
        with Connection(cluster, diagram, base, None) as connection:
            readers = [
                threading.Thread(target=read, args=(connection, stream, changes, upto))
                for stream, changes in heard.items()
            ]
            for reader in readers:
                reader.start()
            look_until(supervisor, lambda: not any(reader.is_alive() for reader in readers))
    finally:
        supervisor.stop()
    wanted = computed(comparable(diagram), base, upto).logs
    for stream, changes in heard.items():
        expected = [row for _, batch in sorted(wanted[stream].items()) for row in batch.to_pylist()]
        assert judge(expected, rows_of(changes)).equal, stream
        assert len(expected) > 3, f"{stream} shows nothing"


def look_until(supervisor: Supervisor, done: Callable[[], bool]) -> None:
    """Keep the nodes running meanwhile: Spark on a busy machine may need more than one start."""
    deadline = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < deadline
        supervisor.look()
        time.sleep(0.1)


def read(connection: Connection, stream: str, changes: list[Change], upto: int) -> None:
    """The stable buckets of a stream up to this one; less if the connection is closed."""
    for change in connection.subscribe(stream, after=OLDEST, stable_only=True):
        if change.bucket <= upto:
            changes.append(change)
        if change.bucket >= upto:
            return
