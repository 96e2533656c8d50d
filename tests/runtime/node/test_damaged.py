"""A disk that gives back what was not written: nothing of it is served, and the node goes on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from runtime.node.small_cluster import SmallCluster
from runtime.node.test_loss import events
from runtime.node.test_reference_lanes import BASE, DIAGRAM, Lanes

from australis.diagram import diagram_file
from australis.diagram.fragments import cut
from australis.kernel.errors import Damaged
from australis.protocols.dpc.effects import Checkpoint, Checkpointed, RememberSources, RestoredLog
from australis.protocols.dpc.messages import LogDigest
from australis.runtime.files import FileDisk
from australis.runtime.logs import SharedLog, encode_state
from australis.runtime.node.lanes import LaneSettings
from australis.runtime.node.manifest import Manifest
from australis.runtime.node.remembered import load_read, write_read
from australis.runtime.node.spark_lanes import SparkLanes
from australis.runtime.overview import troubles
from australis.runtime.testbed import computed
from australis.streams.commits import COMMITS, MARK
from australis.streams.frames import scan_frames
from australis.streams.soutput import OutputState, SOutput

pytestmark = pytest.mark.timeout(120)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def segments(log: Path) -> list[Path]:
    return sorted(log.glob("*.seg"))


class Stored:
    """The files of an output that has a checkpoint, whose replica was stopped."""

    def __init__(self, directory: Path) -> None:
        diagram = diagram_file.load(DIAGRAM, "lanes.yaml")
        self.lanes = Lanes(diagram, computed(diagram, Path(), BASE + 60), directory)
        self.log = directory / "logs" / "counts"
        self.found: list[tuple[str, str, Path, Path | None]] = []
        self.lanes.open(on_damaged=lambda s, e, d, to: self.found.append((s, e.file, d, to)))
        self.lanes.run(BASE, BASE + 10, BASE)
        self.lanes.lanes.checkpoint(Checkpoint("counts"))
        self.lanes.until(Checkpointed)
        self.lanes.lanes.close()

    def reopened(self) -> RestoredLog:
        restored = self.lanes.open(
            on_damaged=lambda s, e, d, to: self.found.append((s, e.file, d, to))
        )
        self.lanes.lanes.close()
        return restored


def lose_log(log: Path) -> None:
    for path in log.iterdir():
        path.unlink()


def cut_commits(log: Path) -> None:
    first = next(scan_frames(FileDisk(log), COMMITS))
    (log / COMMITS).write_bytes((log / COMMITS).read_bytes()[: 2 * (len(first[1]) + 12)])


def cut_commits_and_mark(log: Path) -> None:
    cut_commits(log)
    (log / MARK).unlink()


DAMAGES = {
    "a head in a segment": lambda log: flip(segments(log)[0], 14),
    "a lost segment": lambda log: segments(log)[0].unlink(),
    "a lost log": lose_log,
    "a lost commit file": lambda log: (log / COMMITS).unlink(),
    "a commit file that was cut": cut_commits,
    "a checkpoint newer than its log": cut_commits_and_mark,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_set_aside_and_begins_as_new(tmp_path: Path, damage: str) -> None:
    """It would otherwise lack buckets in the middle, or stop the node at every start."""
    one = Stored(tmp_path)
    DAMAGES[damage](one.log)
    there = {path.name for path in one.log.iterdir()}
    if damage == "a checkpoint newer than its log":  # to the log alone its last append is torn
        there = {COMMITS}
    restored = one.reopened()
    assert (restored.upto, restored.trimmed_upto, restored.end) == (BASE, BASE, BASE)
    ((stream, _, directory, to),) = one.found
    assert (stream, directory) == ("counts", one.log)
    assert to == tmp_path / "damaged" / "counts"
    assert {path.name for path in (to / "logs").iterdir()} == there
    assert (to / "checkpoints").is_dir()
    assert one.reopened().end == BASE
    assert len(one.found) == 1, "the next start finds nothing damaged"


def test_two_copies_of_what_is_damaged_are_kept(tmp_path: Path) -> None:
    one = Stored(tmp_path)
    for at in (14, 15, 16):
        flip(segments(one.log)[0], at)
        one.reopened()
        one.lanes.open()
        one.lanes.run(BASE, BASE + 10, BASE)
        one.lanes.lanes.close()
    kept = sorted(path.name for path in (tmp_path / "damaged").iterdir())
    assert kept == ["counts", "counts.earlier"]


def test_one_flipped_bit_in_the_last_commit_changes_nothing(tmp_path: Path) -> None:
    one = Stored(tmp_path)
    wanted = one.reopened()
    flip(one.log / COMMITS, (one.log / COMMITS).stat().st_size - 9)
    assert one.reopened() == wanted
    assert one.found == []


def test_a_replica_with_a_damaged_log_is_rebuilt_from_its_peer(tmp_path: Path) -> None:
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        c.until(lambda: len(c.stable()) > 20)
        c.stop("a")
        log = tmp_path / "state" / "a" / "counts@a" / "logs" / "counts"
        flip(segments(log)[0], 14)
        c.start("a")
        (event,) = events(c, "a", "state_damaged")
        assert event["file"] == str(segments(Path(event["set_aside"]) / "logs")[0]).replace(
            event["set_aside"] + "/logs", str(log)
        )
        assert event["byte"] == 0
        c.until(lambda: c.nodes["a"].output("counts").state.name == "STABLE")
        status = c.nodes["a"].status()
        assert status["outputs"]["counts"]["damaged"]["file"] == event["file"]
        assert any(text.startswith("counts was damaged: ") for text in troubles(status))
        c.settle()
        assert c.stable() == c.expected()
        assert not c.errors
        assert equal_logs(c)


def equal_logs(c: SmallCluster) -> bool:
    logs = [c.nodes[n].engines[f"counts@{n}"].log("counts") for n in "ab"]
    upto = min(log.closed for log in logs)
    return len({log.digest(upto).value for log in logs}) == 1


def test_an_old_copy_of_a_source_is_not_read_and_both_sides_say_why(tmp_path: Path) -> None:
    """All nodes are restarted, so that no process remembers what it has read."""
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        source = tmp_path / "state" / "e1" / "sources" / "s1"
        c.until(lambda: c.stable_upto > 0)
        c.stop("e1")
        shutil.copytree(source, tmp_path / "copy")
        c.start("e1")
        before = c.stable_upto
        c.until(lambda: c.stable_upto > before + 20)
        for node in ("a", "b", "e1"):
            c.stop(node)
        shutil.rmtree(source)
        (tmp_path / "copy").rename(source)
        for node in ("e1", "a", "b"):
            c.start(node)
        c.until(lambda: all(events(c, node, "source_went_back") for node in ("a", "b", "e1")))
        (at_source, *_) = events(c, "e1", "source_went_back")
        assert at_source["why"].startswith("the log of source 's1' ")
        assert "put the log back as it was" in at_source["why"]
        assert at_source["why"] in troubles(c.nodes["e1"].status())
        inputs = c.nodes["a"].status()["outputs"]["counts"]["inputs"]
        assert inputs["s1"]["went_back"] is not None
        assert inputs["s2"]["went_back"] is None
        assert equal_logs(c)


def test_a_damaged_log_of_a_source_stops_its_node_with_the_file_and_the_remedy(
    tmp_path: Path,
) -> None:
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        c.until(lambda: c.pushed["s1"] > 20)
        c.stop("e1")
        log = tmp_path / "state" / "e1" / "sources" / "s1" / "log"
        flip(segments(log)[0], 14)
        with pytest.raises(Damaged, match="put it back as it was") as error:
            c.start("e1")
        assert str(log) in str(error.value)
        (event,) = events(c, "e1", "state_damaged")
        assert (event["stream"], event["file"]) == ("s1", str(segments(log)[0]))
        assert event["set_aside"] is None


def test_a_checkpoint_of_spark_newer_than_its_log_begins_as_new(tmp_path: Path) -> None:
    """Spark would go on behind the missing micro-batches, and nobody would notice the hole."""
    diagram = diagram_file.load(DIAGRAM, "lanes.yaml")
    known = computed(diagram, Path(), BASE + 60)
    ((plan,),) = (fragment.plans for fragment in cut(diagram))
    found: list[str] = []

    def opened() -> RestoredLog:
        settings = LaneSettings(on_damaged=lambda s, e, d, to: found.append(str(e)))
        nothing: Any = None
        lanes = SparkLanes(
            *({"counts": plan}, known.schemas, diagram.buckets, tmp_path, nothing),
            *(Path(), nothing, nothing, settings),
        )
        restored = lanes.restore("counts", BASE)
        lanes.close()
        return restored

    opened()
    schema = known.schemas["counts"]
    log = SharedLog(FileDisk(tmp_path / "logs" / "counts"), schema, diagram.buckets)
    empty = SOutput(schema, diagram.buckets).row_schema.empty_table()
    end_us = diagram.buckets.end(BASE + 6)
    log.append([], end_us, encode_state(OutputState(4, end_us, empty, BASE + 5, BASE + 6)))
    checkpoint = tmp_path / "checkpoints" / "counts"
    for batch in (4, 5):
        for name in ("offsets", "commits"):
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
            offsets = f'v1\n{{"batchWatermarkMs": 0}}\n{{"bucket": {BASE + batch + 2}}}'
            (checkpoint / name / str(batch)).write_text(offsets)
        Manifest(checkpoint).add_new()
        if batch == 4:
            assert opened().upto == BASE + 6
            assert not found
    restored = opened()
    assert (restored.upto, restored.end) == (BASE, BASE)
    assert found == [
        "the log of 'counts' ends with micro-batch 4, before its checkpoint, which has 5"
    ]
    assert (tmp_path / "damaged" / "counts" / "checkpoints" / "commits" / "5").exists()


def test_what_was_read_of_sources_is_kept_and_a_damaged_file_says_nothing(tmp_path: Path) -> None:
    read = (("s1", LogDigest(3, 9, 77)), ("s2", LogDigest(3, 9, 78)))
    assert load_read(tmp_path, "counts") == ()
    for told in ((("s1", LogDigest(3, 7, 50)),), read):
        write_read(tmp_path, RememberSources("counts", told))
    assert load_read(tmp_path, "counts") == read
    assert load_read(tmp_path, "others") == ()
    path = tmp_path / "read" / "counts"
    for at in range(path.stat().st_size):
        flip(path, at)
        assert load_read(tmp_path, "counts") == ()
        flip(path, at)
    path.write_bytes(b"")
    assert load_read(tmp_path, "counts") == ()
