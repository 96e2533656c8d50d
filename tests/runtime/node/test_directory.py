"""Whose state a directory is: other nodes' directories, other epochs and links are refused."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from runtime.node.small_cluster import write_cluster

from australis.kernel.errors import AustralisError, Damaged, UserError
from australis.runtime.client import load_cluster
from australis.runtime.node.process import Node


def start_and_stop(file: Path, *names: str) -> None:
    """Each node works for a moment, one after the other."""
    cluster, diagram, base = load_cluster(file)
    for name in names or tuple(cluster.nodes):
        Node(cluster, diagram, name, base=base).start().stop()


def content(state: Path) -> dict[str, bytes]:
    """All that is stored but what is written about a start."""
    said = ("events.jsonl", "run.lock", "incarnation")
    files = (path for path in state.rglob("*") if path.is_file() and path.name not in said)
    return {str(path.relative_to(state)): path.read_bytes() for path in files}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = write_cluster(tmp_path)
    start_and_stop(path)
    return path


def refused(file: Path, name: str, says: str, kind: type[AustralisError] = UserError) -> None:
    state = file.parent / "state"
    before = content(state)
    with pytest.raises(kind, match=says):
        start_and_stop(file, name)
    assert content(state) == before, "nothing is touched"


def swap(one: Path, other: Path) -> None:
    kept = one.with_name("kept")
    one.rename(kept)
    other.rename(one)
    kept.rename(other)


def test_swapped_nodes_are_refused(file: Path) -> None:
    state = file.parent / "state"
    swap(state / "a", state / "b")
    says = "holds the state of node 'b' of cluster 'small', not that of node 'a' of 'small'"
    refused(file, "a", says)
    swap(state / "a", state / "b")
    start_and_stop(file, "a")


def test_swapped_replicas_and_sources_are_refused(file: Path) -> None:
    state = file.parent / "state"
    swap(state / "a" / "counts@a", state / "b" / "counts@b")
    says = "holds the state of replica counts@b of node b of cluster small, not of replica counts@a"
    refused(file, "a", says)
    swap(state / "e1" / "sources" / "s1", state / "e2" / "sources" / "s2")
    refused(
        file, "e2", "holds the state of source s1 of node e1 of cluster small, not of source s2"
    )


def test_the_directory_of_another_cluster_is_refused(file: Path) -> None:
    file.write_text(file.read_text().replace("cluster: small", "cluster: large"))
    refused(
        file, "a", "holds the state of node 'a' of cluster 'small', not that of node 'a' of 'la"
    )


@pytest.mark.parametrize("year", ["2025", "2090"])
def test_another_epoch_is_refused(file: Path, year: str) -> None:
    text = file.read_text()
    file.write_text(re.sub(r"epoch: \d{4}", f"epoch: {year}", text))
    for name in ("a", "e1"):
        refused(file, name, rf"'small' has the epoch {year}-.*, but its state begins at")
    file.write_text(text)
    start_and_stop(file)


def test_links_are_refused(file: Path) -> None:
    precious = file.parent / "precious"
    precious.write_bytes(b"1")
    log = file.parent / "state" / "e1" / "sources" / "s1" / "log" / "commits"
    log.unlink()
    log.symlink_to(precious)
    refused(file, "e1", "commits' is a symbolic link")
    assert precious.read_bytes() == b"1"


def test_only_the_owner_can_read_a_state_directory(file: Path) -> None:
    state = file.parent / "state"
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (state, *state.rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    os.chmod(state / "a", 0o755)
    start_and_stop(file, "a")
    assert stat.S_IMODE((state / "a").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("node", "name"),
    [("e1", "incarnation"), ("e1", "diagram.json"), ("e1", "sources/s1/owner"), ("e1", "../began")],
)
def test_damage_is_a_sentence_that_names_the_file(
    file: Path, node: str, name: str, edit: Callable[[Path], None]
) -> None:
    path = file.parent / "state" / node / name
    edit(path)
    refused(file, node, f"{path.name} is damaged", Damaged)


def test_a_state_that_does_not_say_whose_it_is_is_refused(file: Path) -> None:
    (file.parent / "state" / "a" / "diagram.json").unlink()
    refused(file, "a", "which says whose state this is, is missing", Damaged)


@pytest.fixture
def edit() -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[-2] ^= 1
        path.write_bytes(data)

    return flip


def test_when_a_cluster_began_is_not_forgotten(file: Path) -> None:
    began = file.parent / "state" / "began"
    before = began.read_bytes()
    began.unlink()
    start_and_stop(file, "e1")
    assert began.read_bytes() == before
