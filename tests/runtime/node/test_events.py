"""The events of a node: what a line says, what is left out, and that the file stays small."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from runtime.node.small_cluster import SmallCluster

from australis.kernel.errors import Stopped, UserError
from australis.runtime.node import events
from australis.runtime.node.events import FILE, THROTTLE_RESET_S, UNTHROTTLED_COUNT, WARNING, Events
from australis.runtime.node.json_lines import MAX_LINE_LENGTH
from australis.runtime.node.process import Node

BEFORE = "events.1.jsonl"


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> Events:
    made = Events(tmp_path, "a", clock)
    made.open()
    return made


def lines(directory: Path, file: str = FILE) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / file).read_text().splitlines()]


def test_what_a_line_says(log: Events, tmp_path: Path) -> None:
    log.tell("refused", level=WARNING, id="a.1.17", why='no "such"\nthing', peer="e1", size=3)
    log.tell("started")
    assert lines(tmp_path) == [
        {
            "time": "2023-11-14T22:13:20.000000+00:00",
            "level": "warning",
            "node": "a",
            "event": "refused",
            "id": "a.1.17",
            "why": 'no "such"\nthing',
            "peer": "e1",
            "size": 3,
        },
        {
            "time": "2023-11-14T22:13:20.000000+00:00",
            "level": "info",
            "node": "a",
            "event": "started",
        },
    ]


def test_a_flood_is_told_ever_more_rarely(log: Events, tmp_path: Path) -> None:
    for _ in range(100_000):
        log.tell("refused", kind="WireError")
    log.tell("refused", kind="ValueError")
    found = lines(tmp_path)
    assert [line.get("count") for line in found] == [
        *[None] * UNTHROTTLED_COUNT,
        *[2**n for n in range(4, 17)],
        None,
    ]


def test_after_a_quiet_while_a_kind_begins_anew(log: Events, tmp_path: Path, clock: Clock) -> None:
    for _ in range(15):
        log.tell("link_down")
    clock.now += THROTTLE_RESET_S + 1
    log.tell("link_down")
    assert len(lines(tmp_path)) == UNTHROTTLED_COUNT + 1


def test_there_are_only_so_many_kinds(log: Events) -> None:
    for i in range(10 * events.MAX_KINDS):
        log.tell("refused", kind=str(i))
    assert len(log._kinds) <= events.MAX_KINDS


def test_files_stay_small(
    log: Events, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log._file, "largest", 10_000)
    for i in range(500):
        clock.now += THROTTLE_RESET_S + 1
        log.tell("error", why="x" * 100, i=i)
    assert {path.name for path in tmp_path.iterdir()} == {FILE, BEFORE}
    assert all(path.stat().st_size <= 10_000 for path in tmp_path.iterdir())
    told = [line["i"] for line in [*lines(tmp_path, BEFORE), *lines(tmp_path)]]
    assert told == list(range(told[0], 500))
    again = Events(tmp_path, "a", clock)
    again.open()
    again.tell("started")
    assert lines(tmp_path)[-1]["event"] == "started"


def test_no_text_is_long(log: Events, tmp_path: Path) -> None:
    log.tell("error", trace="a" * 10**6 + "the end", odd="\udcff", path=tmp_path)
    (line,) = lines(tmp_path)
    assert len(line["trace"]) < MAX_LINE_LENGTH + 10
    assert line["trace"].endswith("the end")
    assert line["path"] == str(tmp_path)


def test_what_cannot_be_written_is_lost_and_counted(tmp_path: Path, clock: Clock) -> None:
    log = Events(tmp_path / "later", "a", clock)
    log.open()
    log.tell("one")
    assert log.lost == 1
    (tmp_path / "later").mkdir()
    log.tell("two")
    assert [line["event"] for line in lines(tmp_path / "later")] == ["two"]


def test_nothing_is_written_before_and_after(tmp_path: Path) -> None:
    log = Events(tmp_path, "a")
    log.tell("too early")
    log.open()
    log.tell("now")
    log.close()
    log.tell("too late")
    assert [line["event"] for line in lines(tmp_path)] == ["now"]


def test_threads_do_not_mix_lines(log: Events, tmp_path: Path) -> None:
    def tell(kind: str) -> None:
        for _ in range(1000):
            log.tell("refused", kind=kind, why=kind * 50)

    threads = [threading.Thread(target=tell, args=(str(i),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(tmp_path)) == 8 * (UNTHROTTLED_COUNT + 6)


# --- a node that tells ---------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_what_a_node_tells(tmp_path: Path) -> None:
    """Starts and stops, links that go and come back, turns of outputs, snapshots, errors."""
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        base = c.nodes["a"].base_bucket
        source: Any = c.nodes["e1"]._machines.hosts["s1"].machine
        c.until(lambda: source.trimmed_upto > base + 5)
        c.stop("a")
        before = lines(tmp_path / "state" / "a")
        shutil.rmtree(tmp_path / "state" / "a")
        c.until(lambda: not c.nodes["e1"]._network.links["a"].up)
        c.start("a")
        c.until(lambda: c.nodes["a"].output("counts").state.name == "STABLE")
        c.cut("a", "e1")
        c.heal("a", "e1")
        c.nodes["a"]._failed(Stopped("as a test"))
        assert [str(error) for error in c.errors] == ["as a test"]
        c.errors.clear()
        c.until(lambda: c.nodes["e1"]._network.links["a"].up)
    assert before[0]["event"] == "started"
    assert before[0]["machines"] == ["counts@a", "keeper@a", "proposer@a", "steward@a"]
    assert before[-1]["event"] == "stopped"
    turns = [(e["was"], e["now"]) for e in before if e["event"] == "phase"]
    assert turns[0][0] == "recovering"
    assert turns[-1][1] == "stable"
    after = {e["event"]: e for e in lines(tmp_path / "state" / "a")}
    assert after["snapshot_installed"]["peer"] == "counts@b"
    assert after["fault"]["peer"] == "e1"
    assert after["error"]["why"] == "as a test"
    assert after["error"]["level"] == "error"
    assert "Stopped: as a test" in after["error"]["trace"]
    links = [e["event"] for e in lines(tmp_path / "state" / "e1") if e.get("peer") == "a"]
    assert links[-3:] == ["link_up", "link_down", "link_up"]


def test_a_node_that_does_not_start_leaves_the_events_of_another_alone(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 1)
        told = (tmp_path / "state" / "a" / FILE).read_bytes()
        with pytest.raises(UserError, match="is in use by another run"):
            Node(c.cluster, c.diagram, "a", base=c.base).start()
        assert (tmp_path / "state" / "a" / FILE).read_bytes() == told
