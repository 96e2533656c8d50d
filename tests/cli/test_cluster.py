"""The commands that run a cluster, on nodes that run in this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from runtime.node.small_cluster import SmallCluster, write_cluster

from australis.cli.main import cli
from australis.cli.status import clocks, duration, in_force, table
from australis.cli.tail import _lines, _said
from australis.kernel.errors import UserError
from australis.runtime.admin import AdminClient, NoAnswer
from australis.runtime.certs import issue
from australis.runtime.client import Change, ChangeKind
from australis.runtime.overview import state_of
from australis.runtime.processes import PidFile
from australis.streams.buckets import Buckets

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


def invoke(*arguments: str | Path) -> Result:
    command = [str(a) for a in arguments]
    return CliRunner().invoke(cli, command, prog_name="australis", env={"COLUMNS": "160"})


def said(*arguments: str | Path) -> str:
    """The one sentence of a command that fails for the user's fault."""
    error = invoke(*arguments).exception
    assert isinstance(error, UserError), error
    return str(error)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    with SmallCluster(tmp_path_factory.mktemp("small")) as cluster:
        cluster.until(lambda: len(cluster.stable()) > 5, 100)
        yield cluster


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a cluster that does not run."""
    return write_cluster(tmp_path)


def without(file: Path, section: str) -> Path:
    """The same cluster without a line."""
    lines = [line for line in file.read_text().splitlines() if not line.startswith(section)]
    file.write_text("\n".join(lines))
    return file


# --- status ------------------------------------------------------------------------------------


def test_status_as_a_table(small: SmallCluster) -> None:
    result = invoke("status", small.path)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[0][:4] == ["node", "up", "since", "runs"]
    assert [line[0] for line in lines[1:5]] == ["a", "b", "e1", "e2"]
    assert [line[:4] for line in lines[6:]] == [["clocks", "seen", "from", f"{n}:"] for n in "ab"]
    assert result.output.splitlines()[5] == (
        "max_delay 1 s; up_failure process, stabilization delay"
    )
    assert lines[1][3] == "counts"
    assert lines[3][3:5] == ["source", "s1"]
    assert "s1, s2" in result.output


def test_status_as_json(small: SmallCluster) -> None:
    result = invoke("status", small.path, "--json")
    assert result.exit_code == 0
    assert result.output.count("\n") == 1
    found = json.loads(result.output)
    assert list(found) == ["cluster", "at_us", "nodes"]
    counts = found["nodes"]["a"]["outputs"]["counts"]
    assert counts["replica"] == "counts@a"
    assert (counts["state"], counts["advertised"]) == ("STABLE", "STABLE")
    assert counts["reads"] == {"s1": "s1", "s2": "s2"}
    assert 0 <= counts["behind_s"] < 60
    assert found["nodes"]["e1"]["sources"]["s1"]["rows"] > 0
    assert found["nodes"]["b"]["choices"] == {
        "max_delay_s": 1.0,
        "results": {},
        "up_failure": "process",
        "stabilization": "delay",
        "staggered": False,
        "hedged": False,
    }


def test_a_node_has_started_once(small: SmallCluster) -> None:
    found = [json.loads(invoke("status", small.path, "--json").output) for _ in range(3)]
    assert len({one["nodes"]["a"]["started_at"] for one in found}) == 1


def test_what_has_not_begun_has_not_failed() -> None:
    output = {
        "state": "FAILURE",
        "phase": "RECOVERING",
        "micro_batches": 0,
        "inputs": {"x": {"heard": True}, "y": {"heard": False}},
    }
    assert state_of(output) == "STARTING"
    output["inputs"] = {"x": {"heard": True}, "y": {"heard": True}}
    assert state_of(output) == "STARTING"
    assert state_of(output | {"micro_batches": 1}) == "CATCHING_UP"
    assert state_of(output | {"phase": "UP_FAILURE"}) == "FAILURE"


def test_status_of_nodes_that_do_not_answer(file: Path) -> None:
    result = invoke("status", file)
    assert result.exit_code == 1
    assert result.output.count("does not answer at 127.0.0.1:") == 4
    result = invoke("status", without(file, "epoch"), "--json")
    assert result.exit_code == 1
    assert not any(node["answers"] for node in json.loads(result.output)["nodes"].values())


def interrupted(what: Callable[[], Result], after_s: float, number: int = signal.SIGINT) -> Result:
    """A command that is interrupted after a while."""
    timer = threading.Timer(after_s, lambda: os.kill(os.getpid(), number))
    timer.start()
    try:
        return what()
    finally:
        timer.cancel()


def test_status_again_and_again(small: SmallCluster) -> None:
    watch = ("status", small.path, "--watch", "--json")
    result = interrupted(lambda: invoke(*watch), 8, signal.SIGINT)
    assert result.exit_code == 0
    assert len({json.loads(line)["at_us"] for line in result.output.splitlines()}) >= 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_status_until_told_to_end(small: SmallCluster, number: int) -> None:
    result = interrupted(lambda: invoke("status", small.path, "--watch"), 3, number)
    assert result.exit_code == 0


def told(**changes: Any) -> dict[str, Any]:
    """What a node says of itself."""
    quiet = {"sent": 9, "dropped": 0, "cut": False, "deaf": False}
    node = {
        "answers": True,
        "address": "127.0.0.1:1",
        "started_at": "2026-01-01T00:00:00.500000Z",
        "outputs": {},
        "sources": {},
        "links": {"b": quiet | {"slow_s": 0.0}},
        "clients": {"reader": quiet},
        "refused": {},
        "refused_ago_s": None,
        "clocks": {},
        "overflowed": 0,
    }
    return node | changes


def cells(node: dict[str, Any]) -> list[list[str]]:
    shown = table({"nodes": {"a": node}, "at_us": 1_800_000_000_000_000})
    return [[str(cell) for cell in column.cells] for column in shown.columns]


def test_nodes_with_different_choices_are_named() -> None:
    choices = {"max_delay_s": 3.0, "results": {"bill": None, "watch": 0.5}, "up_failure": "delay"}
    choices |= {"stabilization": "suspend", "staggered": False, "hedged": False}
    said = (
        "max_delay 3 s, bill never tentative, watch 0.5 s; up_failure delay, stabilization suspend"
    )
    one, other = told(choices=choices), told(choices=choices | {"hedged": True})
    silent = {"answers": False, "address": "127.0.0.1:3"}
    assert in_force({"nodes": {"a": one, "b": one, "c": silent}}) == [said]
    assert in_force({"nodes": {"a": one, "b": other}}) == [f"a: {said}", f"b: {said}, hedged"]


def test_the_table_shows_what_is_wrong() -> None:
    assert cells(told())[2] == ["nothing"]
    assert cells(told())[-1] == [""]
    link = told()["links"]["b"]
    trouble = {
        "cut off from b": link | {"cut": True, "deaf": True},
        "not heard by b": link | {"cut": True},
        "deaf to b": link | {"deaf": True},
        "slow to b (0.5 s)": link | {"slow_s": 0.5},
        "cannot reach b": link | {"up": False},
    }
    for words, one in trouble.items():
        assert cells(told(links={"b": one}))[-1] == [words]
    node = told(refused={"WireError": 2}, refused_ago_s=5.0, overflowed=3)
    assert cells(node)[-1] == ["2 refused (WireError); 3 messages too many"]
    assert cells(told(refused={"WireError": 2}, refused_ago_s=3600.0))[-1] == [""]


def test_a_clock_that_is_off_is_shown() -> None:
    seen = {"offset_s": -2.5, "error_s": 0.001, "beyond": True, "sources": ["s1"]}
    node = told(clocks={"b": seen})
    assert cells(node)[-1] == ["b's clock (source s1) is 2.5 s behind this one's"]
    assert list(clocks({"nodes": {"a": node}})) == ["clocks seen from a: b -2.500 s ± 0.001 s"]
    assert cells(told(clocks={"b": seen | {"beyond": False}}))[-1] == [""]


def test_the_table_shows_every_output() -> None:
    output = {
        "replica": "join@a",
        "state": "UP_FAILURE",
        "behind_s": 1.26,
        "tentative_upto": 7,
        "reads": {"x": "x@b", "s": "s"},
    }
    shown = cells(told(outputs={"past": output}, sources={"s": {"rows": 1234, "behind_s": 0.5}}))
    assert shown[0] == ["a", ""]
    assert shown[2:7] == [
        ["past (of join)", "source s"],
        ["UP_FAILURE", "1,234 rows"],
        ["1.3 s", "0.5 s"],
        ["yes", ""],
        ["x@b, s", ""],
    ]
    assert duration(90_000 * 3) == "3 days"


def test_the_table_shows_an_output_that_makes_no_progress() -> None:
    output = {
        "replica": "counts@a",
        "state": "FAILURE",
        "behind_s": 40.0,
        "tentative_upto": None,
        "reads": {},
        "stalled_s": 33.2,
    }
    assert cells(told(outputs={"counts": output}))[-1] == ["counts makes no progress (33 s)"]


# --- tail --------------------------------------------------------------------------------------


def test_tail(small: SmallCluster) -> None:
    result = invoke("tail", small.path, "counts", "--rows", "3", "--stable")
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if not line.startswith("SKIPPED")]
    assert len(lines) == 3
    assert lines[0].startswith("INSERTION  20")
    assert " k=" in lines[0]


def test_tail_as_json(small: SmallCluster) -> None:
    result = invoke("tail", small.path, "s1", "--rows", "4", "--oldest", "--json")
    rows = [json.loads(line) for line in result.output.splitlines()]
    assert [row["_type"] for row in rows] == ["INSERTION"] * 4
    assert list(rows[0]) == ["_type", "_id", "_stime", "k", "v"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_tail_ends_when_it_is_told_to(small: SmallCluster, number: int) -> None:
    result = interrupted(lambda: invoke("tail", small.path, "counts"), 2, number)
    assert result.exit_code == 0, result.exception


def test_what_is_said_between_tuples() -> None:
    empty = [Change(ChangeKind.TENTATIVE, 3), Change(ChangeKind.INSERTION, 2)]
    between = [
        Change(ChangeKind.UNDO, 9),
        Change(ChangeKind.REC_DONE, -1),
        Change(ChangeKind.SKIPPED, 19),
    ]
    buckets = Buckets(100_000)
    lines = list(_lines([between[2], *empty, *between], buckets, stable=False))
    assert lines == [
        {"_type": "UNDO", "_stime": "1970-01-01T00:00:01.000000Z"},
        {"_type": "REC_DONE"},
        {"_type": "SKIPPED", "_stime": "1970-01-01T00:00:02.000000Z"},
    ]
    assert "after 1970-01-01T00:00:01.000000Z are taken back" in _said(lines[0])
    assert list(_lines([*empty, *between], buckets, stable=True)) == lines[2:]


def test_tail_of_what_is_not_there(small: SmallCluster, file: Path) -> None:
    assert "'count' has no log (did you mean 'counts'?)" in said("tail", small.path, "count")
    assert said("tail", file, "counts") == (
        "'counts' cannot be read: none of its nodes answers (a, b); `australis up` starts them"
    )
    sentence = said("tail", without(file, "epoch"), "counts")
    assert sentence.startswith(f"{file}: 'small' has no 'epoch'")
    assert "`australis up` chooses one" in sentence


# --- fault -------------------------------------------------------------------------------------


def troubles(small: SmallCluster) -> dict[str, list[str]]:
    """Which links of each node are disturbed, and how."""
    found = {}
    for name, node in small.nodes.items():
        told = node.status()
        links = told["links"] | told["clients"]
        found[name] = [
            f"{how} {other}"
            for other, link in links.items()
            for how in ("cut", "deaf", "slow_s")
            if link.get(how)
        ]
    return {name: links for name, links in found.items() if links}


def test_the_network_is_cut_and_healed(small: SmallCluster) -> None:
    result = invoke("fault", "cut", small.path, "a", "e2")
    assert result.exit_code == 0, result.exception
    assert result.output == (
        f"a is cut off from e2; `australis fault heal {small.path} a e2` ends it\n"
    )
    assert troubles(small) == {"a": ["cut e2", "deaf e2"], "e2": ["cut a", "deaf a"]}
    invoke("fault", "cut", small.path, "b", "e1", "--one-way")
    invoke("fault", "cut", small.path, "b", "reader")
    assert troubles(small)["b"] == ["deaf e1", "cut reader", "deaf reader"]
    invoke("fault", "heal", small.path, "b")
    assert invoke("fault", "heal", small.path, "a", "e2").output == "healed a and e2\n"
    assert troubles(small) == {}


def test_the_network_is_cut_at_both_ends_or_at_none(
    small: SmallCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = AdminClient.ask

    def deaf(self: AdminClient, node: str, kind: str, *what: Any, **how: Any) -> Any:
        if node == "e1" and kind == "fault":
            raise NoAnswer("does not answer", name=node)
        return ask(self, node, kind, *what, **how)

    monkeypatch.setattr(AdminClient, "ask", deaf)
    assert "'e1' does not answer" in said("fault", "cut", small.path, "a", "e1")
    link = small.nodes["a"].status()["links"]["e1"]
    assert not link["cut"]
    assert not link["deaf"]


def test_the_network_is_slowed(small: SmallCluster) -> None:
    invoke("fault", "slow", small.path, "a", "e2", "--seconds", "0.01")
    assert troubles(small) == {"a": ["slow_s e2"], "e2": ["slow_s a"]}
    assert invoke("fault", "heal", small.path, "a").output == "healed a and all others\n"
    invoke("fault", "slow", small.path, "a", "e2", "--seconds", "0.01", "--one-way")
    assert troubles(small) == {"e2": ["slow_s a"]}, "what a hears is late"
    invoke("fault", "heal", small.path, "e2")
    assert troubles(small) == {}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["kill", "z"], "'z' is not a node of this cluster (nodes: a, b, e1, e2)"),
        (["kill", "a"], "'a' does not run on this machine"),
        (["cut", "z", "a"], "'z' is not a node of this cluster (nodes: a, b, e1, e2)"),
        (
            ["cut", "a", "z"],
            "'z' is neither a node nor a client of this cluster (known: a, b, e1, e2, r",
        ),
        (["cut", "a", "a"], "'a' is one node: name two"),
        (["slow", "a", "reader"], "'reader' is a client: its network can be cut, not slowed"),
        (["cut", "a", "b"], "'a' does not answer at 127.0.0.1:"),
        (["heal", "a", "b"], "'a b' cannot be healed whole: a, b did not answer"),
    ],
)
def test_faults_that_cannot_be_injected(file: Path, arguments: list[str], sentence: str) -> None:
    kind, *nodes = arguments
    assert said("fault", kind, file, *nodes).removeprefix(f"{file}: ").startswith(sentence)


@pytest.mark.parametrize("kind", ["kill", "pause", "resume", "cut", "slow", "heal"])
def test_faults_are_injected_only_where_that_is_allowed(file: Path, kind: str) -> None:
    other = ["b"] if kind in ("cut", "slow", "heal") else []
    sentence = said("fault", kind, without(file, "faults"), "a", *other)
    assert sentence == (
        f"{file}: 'small' does not allow injected faults: its file must say 'faults: allowed'"
    )


def test_with_certificates(tmp_path: Path) -> None:
    issue(tmp_path / "certs", dict.fromkeys(("a", "b", "e1", "e2", "reader"), ()))
    tls = "tls: {ca: certs/ca.pem, certificates: certs}\n"
    with SmallCluster(tmp_path, extra=tls) as c:
        assert invoke("status", c.path).exit_code == 0
        assert invoke("status", c.path, "--identity", "reader").exit_code == 0
        assert invoke("tail", c.path, "s1", "--rows", "2", "--stable").exit_code == 0
        sentence = "'a' refuses: 'a' may not ask for 'fault': it is not an operator of this cluster"
        assert said("fault", "cut", c.path, "a", "b") == sentence
        issue(tmp_path / "certs", {"operator": ()})
        assert invoke("fault", "cut", c.path, "a", "b").exit_code == 0
        assert "does not exist; see `australis certs" in said("status", c.path, "--identity", "z")
        (tmp_path / "certs").rename(tmp_path / "elsewhere")
        assert "certs' holds the certificate of no operator, node or client" in said(
            "status", c.path
        )


# --- node, up, down ------------------------------------------------------------------------------


def test_a_node_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    file = write_cluster(tmp_path)
    result = interrupted(lambda: invoke("node", "e1", "--cluster", file, "--json"), 3)
    assert result.exit_code == 0, result.exception
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert [line["event"] for line in lines] == ["listens", "stopped"]
    assert lines[0]["address"].startswith("127.0.0.1:")
    assert (tmp_path / "state" / "e1" / "pid").read_text() == ""


def test_a_node_that_runs_already(tmp_path: Path) -> None:
    file = write_cluster(tmp_path)
    with PidFile(tmp_path / "state" / "a" / "pid", "a"):
        sentence = said("node", "a", "--cluster", file)
    assert sentence == f"'a' runs already (pid {os.getpid()})"


def test_a_node_whose_port_is_taken(small: SmallCluster, tmp_path: Path) -> None:
    file = write_cluster(tmp_path)
    taken = small.cluster.nodes["a"].address
    mine = next(line for line in file.read_text().splitlines() if line.startswith("  e1:"))
    file.write_text(file.read_text().replace(mine, f'  e1: {{address: "{taken}"}}'))
    assert f"'e1' cannot listen at {taken}: the port is taken" in said(
        "node", "e1", "--cluster", file
    )


def test_clusters_and_nodes_that_are_none(file: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    for command in ("up", "down", "status"):
        assert said(command, missing) == f"{missing}: there is no such file"
    assert "'z' is not a node of this cluster" in said("node", "z", "--cluster", file)
    assert "has no 'epoch'" in said("node", "a", "--cluster", without(file, "epoch"))


def test_up_and_its_nodes_refuse_what_a_run_refuses(file: Path, tmp_path: Path) -> None:
    diagram = tmp_path / "diagram.yaml"
    written = diagram.read_text()
    missing = 'csv: none.csv, time: t, schema: "t timestamp, k int, v int"'
    pushed = 'push: true, time: arrival, schema: "k int, v int"'
    diagram.write_text(written.replace(pushed, missing, 1))
    sentence = said("run", diagram, "--quiet")
    assert "none.csv" in sentence
    assert said("up", file) == said("up", file, "--detach") == sentence
    assert said("check", file, "--no-types") == sentence
    assert said("node", "e1", "--cluster", file) == sentence, "the source is there"

    diagram.write_text(f"{written}outputs: {{counts: {{jsonl: x.jsonl, pth: y}}}}\n")
    sentence = said("run", diagram, "--quiet")
    assert "pth" in sentence
    assert said("up", file) == said("node", "a", "--cluster", file) == sentence
    assert not (tmp_path / "state" / "up.pid").exists()


def test_a_cluster_file_is_checked_with_its_diagram(file: Path) -> None:
    result = invoke("check", file, "--no-types")
    assert (result.exit_code, "1 fragment, results: counts" in result.output) == (0, True)
    file.write_text(file.read_text().replace("counts: [a, b]", "count: [a, b]"))
    assert "'count' is not a fragment of the diagram" in said("check", file, "--no-types")


def test_up_while_it_is_up(tmp_path: Path) -> None:
    file = write_cluster(tmp_path)
    with PidFile(tmp_path / "state" / "up.pid", "small"):
        for options in ([], ["--detach"]):
            assert said("up", file, *options) == f"'small' runs already (pid {os.getpid()})"


def test_down_whatever_has_become_of_the_diagram(file: Path) -> None:
    (file.parent / "diagram.yaml").write_text("no diagram")
    result = invoke("down", file)
    assert (result.exit_code, result.output) == (0, "small does not run on this machine\n")


def test_nobody_reads_on() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "australis.cli.main", "experiment", "list"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_down_where_nothing_runs(file: Path) -> None:
    assert invoke("down", file).output == "small does not run on this machine\n"
    result = invoke("down", file, "--json")
    assert json.loads(result.output) == {"cluster": "small", "supervisor": None, "stopped": {}}


def test_help_teaches_with_examples() -> None:
    for command in ("node", "up", "down", "status", "tail"):
        output = invoke(command, "--help").output
        assert f"australis {command} " in output.partition("Example")[2]
    for kind in ("kill", "pause", "resume", "cut", "slow", "heal"):
        output = invoke("fault", kind, "--help").output
        assert f"australis fault {kind} " in output.partition("Example")[2]
