"""What a lane on Spark reads back from its checkpoint is what was written there."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from australis.kernel.errors import Damaged
from australis.runtime.node.manifest import FILE, Manifest
from australis.spark.checkpoint import clone

pytestmark = pytest.mark.unit

SNAPSHOT = 2
"""The version of the state of which there is a snapshot."""
FOLDED = {f"state/0/{part}/{n}.changelog" for part in (0, 1) for n in range(1, SNAPSHOT + 1)}
"""The files that no query reads any more, since the snapshot holds what they said."""


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Checkpoint:
    """A directory as Spark writes it, batch by batch, and its manifest."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.manifest = Manifest(root)
        put(root / "metadata", '{"id":"x"}')
        put(root / ".metadata.crc", "crc")

    def begin(self, batch: int, run: str = "") -> None:
        put(self.root / f"offsets/{batch}", f'v1\n{{"batchWatermarkMs":{batch}}}\n{{"bucket": 1}}')
        for part in (0, 1):
            store = self.root / f"state/0/{part}"
            put(store / f"{batch + 1}.changelog", f"changes of {batch}{run}")
            if batch + 1 == SNAPSHOT:
                put(store / "SSTs/000001-a.sst", "sorted")
                named = {"localFileName": "000001.sst", "dfsSstFileName": "000001-a.sst"}
                with zipfile.ZipFile(store / f"{SNAPSHOT}.zip", "w") as archive:
                    archive.writestr(
                        "metadata",
                        "v1\n" + json.dumps({"sstFiles": [named]}, separators=(",", ":")),
                    )

    def end(self, batch: int) -> None:
        self.manifest.add_new()
        put(self.root / f"commits/{batch}", f'v1\n{{"nextBatchWatermarkMs":{batch}}}')
        self.manifest.add_commit(batch)

    def verify(self) -> None:
        Manifest(self.root).verify()

    @property
    def files(self) -> dict[str, bytes]:
        found = (p for p in self.root.rglob("*") if p.is_file() and p.name != FILE)
        return {p.relative_to(self.root).as_posix(): p.read_bytes() for p in found}


@pytest.fixture
def one(tmp_path: Path) -> Checkpoint:
    found = Checkpoint(tmp_path / "checkpoint")
    for batch in range(4):
        found.begin(batch)
        found.end(batch)
    return found


def test_a_flip_of_any_byte_that_is_read_back_is_damage(one: Checkpoint) -> None:
    one.verify()
    for name, data in one.files.items():
        path = one.root / name
        for at in range(len(data)):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
            found = Manifest(one.root).damages()
            assert [error.file for error in found] == ([] if name in FOLDED else [str(path)])
        path.write_bytes(data)
    one.verify()


def test_a_missing_file_that_is_read_back_is_damage(one: Checkpoint) -> None:
    gone = {f"{log}/{n}" for log in ("offsets", "commits") for n in (0, 1)} | FOLDED
    for name, data in one.files.items():
        (one.root / name).unlink()
        if name in gone:
            one.verify()
        else:
            with pytest.raises(Damaged, match=f"{name} is missing"):
                one.verify()
        (one.root / name).write_bytes(data)


def test_a_lost_list_is_damage_and_a_flipped_one_hides_nothing_that_is_read(
    one: Checkpoint,
) -> None:
    path = one.root / FILE
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        Manifest(one.root).damages()  # without an exception
    path.unlink()
    with pytest.raises(Damaged, match="manifest is missing"):
        one.verify()


@pytest.mark.parametrize("listed", [True, False], ids=["after its list", "before its list"])
def test_a_batch_that_is_repeated_may_write_other_bytes(one: Checkpoint, listed: bool) -> None:
    one.begin(4, " the first time")
    one.manifest.add_new()  # killed before the commit
    one.manifest = Manifest(one.root)
    one.manifest.verify()
    one.begin(4, " the second time")
    if listed:
        one.end(4)
    one.verify()
    if listed:
        put(one.root / "state/0/1/5.changelog", "changes of 4 the first time")
        with pytest.raises(Damaged, match=r"5\.changelog is damaged"):
            one.verify()


def test_a_batch_repeated_by_a_query_that_was_restarted_is_listed_again(one: Checkpoint) -> None:
    one.begin(4, " the first time")
    one.manifest.add_new()
    one.begin(4, " the second time")
    one.end(4)
    one.verify()


def test_a_new_checkpoint_has_no_list(tmp_path: Path) -> None:
    Manifest(tmp_path / "none").verify()
    found = Checkpoint(tmp_path / "new")
    found.begin(0)
    found.verify()


def test_a_clone_is_checked_by_what_was_written_first(one: Checkpoint, tmp_path: Path) -> None:
    clone(one.root, tmp_path / "good", 3)
    one.manifest.copy_to(tmp_path / "good")
    Manifest(tmp_path / "good").verify()
    path = one.root / "state/0/0/4.changelog"
    put(path, "changes of 9")
    clone(one.root, tmp_path / "bad", 3)
    one.manifest.copy_to(tmp_path / "bad")
    with pytest.raises(Damaged, match=r"bad/state/0/0/4\.changelog is damaged"):
        Manifest(tmp_path / "bad").verify()


def test_a_list_from_elsewhere_reads_no_file_outside(one: Checkpoint, tmp_path: Path) -> None:
    from australis.runtime.node.manifest import Entry

    one.manifest._entries = {n: Entry(n, 1, 1) for n in ("../../etc", "/dev/zero", "metadata")}
    one.manifest.save()
    assert [error.file for error in Manifest(one.root).damages()] == [str(one.root / "metadata")]
