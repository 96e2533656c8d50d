"""`australis fsck` over the state of a small cluster: what is damaged is found, told and repaired."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from runtime.node.small_cluster import SmallCluster

from australis.cli.main import cli
from australis.diagram.model import Sink
from australis.kernel.errors import UserError
from australis.kernel.ids import RANK_BITS
from australis.protocols.dpc.source_pair import SourceView, Standing
from australis.runtime.client import load_cluster
from australis.runtime.files import DirectoryLock, FileDisk
from australis.runtime.fsck import check, find_nodes
from australis.runtime.node.manifest import Manifest
from australis.runtime.node.paired import STANDING, WITNESS, new_standing, write_standing
from australis.runtime.node.process import Node
from australis.runtime.sealed import own
from australis.runtime.sinks import open_sink
from australis.runtime.sinks.base import Position, kept_in_state
from australis.runtime.state import Claim, StateDirectory
from australis.streams.buckets import Buckets
from australis.streams.log import StableLog
from australis.streams.schema import TIMESTAMP, parse_schema

NOT_READ_BACK = ("events.jsonl", "run.lock", "pid", "log.txt")


def fsck(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["fsck", *map(str, arguments)])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a cluster that has worked; each test takes a copy."""
    base = tmp_path_factory.mktemp("written")
    with SmallCluster(base) as cluster:
        cluster.until(lambda: len(cluster.stable()) > 5)
        cluster.settle()
    return base


@pytest.fixture
def base(written: Path, tmp_path: Path) -> Path:
    shutil.copytree(written, tmp_path / "copy")
    return tmp_path / "copy"


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << at % 8
    path.write_bytes(data)


def stored(state: Path) -> list[Path]:
    """The files that a node reads back."""
    found = (path for path in sorted(state.rglob("*")) if path.is_file())
    return [path for path in found if path.name not in NOT_READ_BACK and path.stat().st_size]


def test_a_whole_state_is_clean(base: Path) -> None:
    before = {path: path.read_bytes() for path in stored(base / "state")}
    for state in (base / "state", base / "cluster.yaml"):
        found = fsck(state)
        assert found.exit_code == 0, found.output
        assert "nothing damaged; checked 4 logs, 2 checkpoints, 2 journals and" in found.output
    assert {path: path.read_bytes() for path in stored(base / "state")} == before


def test_a_flip_in_any_file_is_found(base: Path) -> None:
    state = base / "state"
    files = stored(state)
    assert {"commits", "owner", "synced", "state", "began", "incarnation"} <= {
        f.name for f in files
    }
    for path in files:
        whole = path.read_bytes()
        for at in {0, len(whole) // 2, len(whole) - 1}:
            flip(path, at)
            found = check(state, find_nodes(state)).findings
            if path.name not in ("synced", "acknowledged"):  # a mark too few is less certainty
                assert [one for one in found if one.file == path], (path, at)
            path.write_bytes(whole)


def test_what_is_found_is_said_with_its_place_and_what_repairs_it(base: Path) -> None:
    state = base / "state"
    (segment,) = (state / "a" / "counts@a" / "logs" / "counts").glob("*.seg")
    flip(segment, segment.stat().st_size - 3)
    found = fsck(state)
    assert found.exit_code == 1
    assert re.search(
        rf"{segment}, byte \d+: is damaged \(stream counts: tuples after b", found.output
    )
    assert "  repair: set aside: node b gives it back at the next start" in found.output
    assert "1 damaged; checked" in found.output
    told = json.loads(fsck(state, "--json").stdout)
    assert (told["ok"], len(told["findings"])) == (False, 1)
    assert told["findings"][0]["repairable"]


def log_of(base: Path, node: str) -> dict[str, bytes]:
    return {
        p.name: p.read_bytes()
        for p in (base / f"state/{node}/counts@{node}/logs/counts").glob("*.seg")
    }


def test_a_replica_that_was_set_aside_gets_its_state_back(base: Path) -> None:
    (segment,) = (base / "state" / "a" / "counts@a" / "logs" / "counts").glob("*.seg")
    flip(segment, 40)
    assert fsck(base / "state", "--repair").exit_code == 0
    assert (base / "state/a/counts@a/damaged/counts/logs" / segment.name).exists()
    assert fsck(base / "state").exit_code == 0
    cluster, diagram, _ = load_cluster(base / "cluster.yaml")
    nodes = [Node(cluster, diagram, name, base=base).start() for name in ("a", "b", "e1", "e2")]
    try:
        logs = [node.engines[f"counts@{node.name}"].log("counts") for node in nodes[:2]]
        wanted = logs[1].closed
        deadline = time.monotonic() + 30
        while logs[0].closed < wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        assert logs[0].digest(wanted) == logs[1].digest(wanted)
    finally:
        for node in nodes:
            node.stop()


REPAIRABLE: dict[str, Callable[[Path], Path]] = {
    "what belongs to a node": lambda state: state / "b" / "diagram.json",
    "incarnation": lambda state: state / "b" / "incarnation",
    "owner": lambda state: state / "e1" / "sources" / "s1" / "owner",
    "when it began": lambda state: state / "began",
    "checkpoint": lambda state: state / "b" / "counts@b" / "checkpoints" / "counts" / "state",
}


@pytest.mark.parametrize("what", REPAIRABLE)
def test_what_another_file_gives_back_is_repaired(base: Path, what: str) -> None:
    state = base / "state"
    path = REPAIRABLE[what](state)
    before = path.read_bytes()
    flip(path, len(before) - 2)
    assert fsck(state).exit_code == 1
    assert fsck(base / "cluster.yaml", "--repair").exit_code == 0
    assert fsck(state).exit_code == 0
    if path.exists():
        assert path.read_bytes() == before
    cluster, diagram, _ = load_cluster(base / "cluster.yaml")
    for name in ("b", "e1"):
        Node(cluster, diagram, name, base=base).start().stop()


def test_a_lost_diagram_is_taken_from_another_node(base: Path) -> None:
    path = base / "state" / "a" / "diagram.json"
    before = path.read_bytes()
    path.unlink()
    assert "is missing (node a)" in fsck(base / "state").output
    assert fsck(base / "state", "--repair").exit_code == 0
    assert path.read_bytes() == before


def test_what_nothing_gives_back_is_left(base: Path) -> None:
    state = base / "state"
    (segment,) = (state / "e1" / "sources" / "s1" / "log").glob("*.seg")
    flip(segment, 40)
    found = fsck(state, "--repair")
    assert found.exit_code == 1
    assert "nothing gives it back: begin anew from the sources" in found.output
    assert segment.exists()


def test_replicas_that_are_both_damaged_are_left(base: Path) -> None:
    for node in ("a", "b"):
        (segment,) = (base / f"state/{node}/counts@{node}/logs/counts").glob("*.seg")
        flip(segment, 40)
    found = fsck(base / "state", "--repair")
    assert found.exit_code == 1
    assert "no whole log of the same stream is here" in found.output


def test_nodes_that_are_swapped_are_found(base: Path) -> None:
    state = base / "state"
    (state / "a").rename(state / "kept")
    (state / "b").rename(state / "a")
    (state / "kept").rename(state / "b")
    found = fsck(state)
    assert found.exit_code == 1
    assert "holds the state of node 'b' of cluster 'small'" in found.output


def test_a_state_that_is_used_is_left_alone(base: Path) -> None:
    with DirectoryLock(base / "state" / "a" / "run.lock"):
        found = fsck(base / "state")
    assert isinstance(found.exception, UserError)
    assert re.search(r"state/a' is in use by another run \(pid \d+\)", str(found.exception))


def test_what_is_no_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for path, says in (
        (tmp_path / "notes", "is not a state directory of Australis"),
        (tmp_path / "nowhere", "is neither a state directory nor a cluster file"),
    ):
        assert says in str(fsck(path).exception)


def test_help_teaches_with_examples() -> None:
    said = fsck("--help").output
    assert "australis fsck examples/cluster.yaml --repair" in said


# --- a run ---------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The state of a run, whose lane is on Spark, as far as it is written without Spark."""
    root, buckets = tmp_path / "state", Buckets(500_000)
    about = {"sources": {"s": {}}, "operators": {}, "functions": {}}
    root.mkdir()
    StateDirectory(root).save_claim(Claim("local", "local", 0, None, about))
    for stream in ("s", "out"):
        log = StableLog(FileDisk(root / "logs" / stream), parse_schema("n int"), buckets)
        log.append([], 1_000_000)
    checkpoint = root / "checkpoints" / "out"
    for name in ("metadata", "offsets/0", "state/0/0/1.changelog", "commits/0"):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(name)
    Manifest(checkpoint).add_new()
    (root / "sinks").mkdir()
    kept_in_state(root / "sinks" / "shown.position").save(Position(7))
    return root


def test_the_state_of_a_run_is_checked_too(run: Path) -> None:
    found = fsck(run)
    assert found.exit_code == 0, found.output
    assert "checked 2 logs, 1 checkpoint, 0 journals and 2 other files of 1 node" in found.output
    flip(run / "checkpoints" / "out" / "state" / "0" / "0" / "1.changelog", 3)
    flip(run / "sinks" / "shown.position", 3)
    found = fsck(run, "--repair")
    assert found.exit_code == 1
    assert "1.changelog: is damaged (stream out: the state of its lane)" in found.output
    assert "repaired: set aside: the sink gets again what logs still hold" in found.output
    assert (run / "damaged" / "sinks" / "shown.position").exists()


# --- what a sink has written --------------------------------------------------------------------


def test_the_position_of_a_sink_is_taken_from_its_output(base: Path) -> None:
    diagram, file = base / "diagram.yaml", base / "cluster.yaml"
    diagram.write_text(diagram.read_text() + "sinks:\n  kept: {from: counts, jsonl: kept.jsonl}\n")
    shutil.rmtree(base / "state")
    output = base / "kept.jsonl"
    sink = Sink(name="kept", stream="counts", kind="jsonl", options={"path": str(output)})
    schema = parse_schema("n int")
    StateDirectory(base / "state" / "a").open()
    about = {"sources": {}, "operators": {}, "functions": {}}
    StateDirectory(base / "state" / "a").save_claim(Claim("small", "a", 0, None, about))
    (base / "state" / "a" / "sources").mkdir()
    writer = open_sink(sink, schema, base / "state" / "a", base)
    writer.write(
        pa.record_batch({"_id": [7, 8], "_stime": pa.array([1, 2], TIMESTAMP), "n": [1, 2]})
    )
    writer.close()
    position = base / "kept.jsonl.position"
    before = position.read_bytes()
    flip(position, len(before) - 4)
    assert f"repair: taken from the last whole line of {output}" in fsck(file).output
    assert fsck(file, "--repair").exit_code == 0
    assert position.read_bytes() == before


# --- a source with a standby ----------------------------------------------------------------------


def log_of_source(state: Path, node: str) -> StableLog:
    """The log of a proxy."""
    disk = FileDisk(state / node / "sources" / "s" / "log")
    return StableLog(disk, parse_schema("n int"), Buckets(500_000))


def bucket_of(number: int) -> tuple[int, pa.RecordBatch]:
    """A bucket with one tuple."""
    schema = parse_schema("n int").arrow
    values = [0, number << RANK_BITS, number * 500_000 + 1, number]
    columns = [pa.array([v]).cast(f.type) for v, f in zip(values, schema, strict=True)]
    return number, pa.record_batch(columns, schema=schema)


@pytest.fixture
def paired(tmp_path: Path) -> Path:
    """Two proxies and a witness of a source, as far as they have decided anything."""
    state, about = tmp_path / "state", {"sources": {}, "operators": {}, "functions": {}}
    files = {"a": STANDING, "b": STANDING, "w": WITNESS}
    for epoch, (node, name) in enumerate(files.items(), 1):
        home = state / node / "sources" / "s"
        StateDirectory(state / node).open()
        StateDirectory(state / node).save_claim(Claim("c", node, 0, None, about))
        first = {name: new_standing(home / name)}
        own(home, f"source s of node {node} of cluster c", first)
        write_standing(home / name, Standing(SourceView(epoch, f"s@{node}")))
        if name == STANDING:
            log_of_source(state, node).append([bucket_of(1)], 1_000_000)
    write_standing(state / "w" / "sources" / "s" / WITNESS, Standing(SourceView(2, "s@b")))
    return state


def test_a_witness_is_taken_from_the_two_proxies(paired: Path) -> None:
    assert fsck(paired).exit_code == 0
    path = paired / "w" / "sources" / "s" / WITNESS
    before = path.read_bytes()
    flip(path, 40)
    assert "repair: taken from its two proxies" in fsck(paired).output
    assert fsck(paired, "--repair").exit_code == 0
    assert path.read_bytes() == before
    flip(path, 40)
    flip(paired / "a" / "sources" / "s" / STANDING, 40)
    assert fsck(paired, "--repair").exit_code == 1, "one of the two proxies does not say its view"


def test_a_proxy_that_does_not_know_what_it_is_is_copied_anew(paired: Path) -> None:
    home = paired / "a" / "sources" / "s"
    flip(home / STANDING, 40)
    assert "set aside: the source is copied from node b at the next start" in fsck(paired).output
    assert fsck(paired, "--repair").exit_code == 0
    assert not home.exists()
    assert (paired / "a" / "damaged" / "sources" / "s" / STANDING).exists()


@pytest.mark.parametrize("lacks", ["bucket", "view"])
def test_a_proxy_that_has_less_gives_nothing_back(paired: Path, lacks: str) -> None:
    if lacks == "bucket":
        log_of_source(paired, "a").append([bucket_of(2)], 1_500_000)
        flip(paired / "a" / "sources" / "s" / STANDING, 40)
    else:
        write_standing(paired / "b" / "sources" / "s" / STANDING, Standing(SourceView(2, "s@a")))
        flip(paired / "a" / "sources" / "s" / STANDING, 40)
    found = fsck(paired, "--repair")
    assert found.exit_code == 1
    assert "copied from node b" not in found.output
    assert (paired / "a" / "sources" / "s" / "log").exists()


def test_two_proxies_that_are_both_damaged_are_left(paired: Path) -> None:
    flip(paired / "a" / "sources" / "s" / STANDING, 40)
    (paired / "b" / "sources" / "s" / "log" / "commits").unlink()
    assert fsck(paired, "--repair").exit_code == 1
    for node in ("a", "b"):
        assert (paired / node / "sources" / "s" / "log").exists()
