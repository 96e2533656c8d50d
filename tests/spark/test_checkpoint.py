"""Clones of checkpoints, in the form in which Spark writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from australis.kernel.errors import Stopped
from australis.spark.checkpoint import clone, last_commit

pytestmark = pytest.mark.unit


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint after the micro-batches 0 to 3, with one state store."""
    store = tmp_path / "checkpoint" / "state" / "0" / "0"
    store.mkdir(parents=True)
    for log in ("commits", "offsets"):
        (tmp_path / "checkpoint" / log).mkdir()
    for batch in range(4):
        (store / f"{batch + 1}.delta").write_bytes(b"delta")
        for log in ("commits", "offsets"):
            (tmp_path / "checkpoint" / log / str(batch)).write_text("v1")
    (tmp_path / "checkpoint" / "metadata").write_text(json.dumps({"id": "query"}))
    return tmp_path / "checkpoint"


def files_of(directory: Path) -> set[str]:
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}


def test_it_has_all_files_up_to_the_micro_batch_and_an_id_of_its_own(
    checkpoint: Path, tmp_path: Path
) -> None:
    clone(checkpoint, tmp_path / "clone", 2)
    assert files_of(tmp_path / "clone") == files_of(checkpoint) - {"commits/3", "offsets/3"}
    assert json.loads((tmp_path / "clone" / "metadata").read_text())["id"] != "query"


@pytest.mark.parametrize("links", [True, False])
def test_spark_may_remove_old_files_meanwhile(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    link, old = os.link, {"0", "1.delta"}

    def link_late(path: Path, to: Path) -> None:
        if path.name in old:
            path.unlink()
        if not links and path.exists():
            raise PermissionError(1, "no links here")
        link(path, to)

    monkeypatch.setattr(os, "link", link_late)
    before = files_of(checkpoint)
    clone(checkpoint, tmp_path / "clone", 3)
    assert before - files_of(tmp_path / "clone") == {"commits/0", "offsets/0", "state/0/0/1.delta"}
    assert last_commit(tmp_path / "clone") == 3


def test_the_micro_batch_itself_must_be_there(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "commits" / "3").unlink()
    with pytest.raises(Stopped, match="lacks micro-batch 3"):
        clone(checkpoint, tmp_path / "clone", 3)
