"""Small files with a checksum: each flipped byte is noticed, and so is each misplaced file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.diagram import diagram_file
from australis.diagram.model import Sink
from australis.kernel.errors import Damaged, UserError
from australis.protocols.dpc.source_pair import SourceView, Standing
from australis.runtime.epoch import began_us, keep_epoch, read_epoch, write_epoch
from australis.runtime.node.paired import read_standing, write_standing
from australis.runtime.sealed import own, read_sealed, seal, unseal, write_sealed
from australis.runtime.sinks.base import Position, kept_in_state, run_mark
from australis.runtime.sinks.jsonl import position_file
from australis.runtime.state import Claim, StateDirectory
from australis.streams.schema import parse_schema

pytestmark = pytest.mark.unit

EPOCH_US = 1_800_000_000_000_000
SINK = Sink(name="out", stream="o", kind="jsonl", options={})


def claim(root: Path) -> None:
    StateDirectory(root).save_claim(Claim("c", "a", EPOCH_US, None, {"sources": {}}))


CASES: dict[str, tuple[str, Callable[[Path], object], Callable[[Path], object]]] = {
    "epoch": ("epoch", lambda d: write_epoch(d, EPOCH_US), read_epoch),
    "began": ("began", lambda d: began_us(d, EPOCH_US), lambda d: began_us(d, EPOCH_US + 1)),
    "standing": (
        "standing",
        lambda d: write_standing(d / "standing", Standing(SourceView(3, "s@a"), 1, True, 7)),
        lambda d: read_standing(d / "standing"),
    ),
    "witness": (
        "witness",
        lambda d: write_standing(d / "witness", Standing(SourceView(3, "s@a"))),
        lambda d: read_standing(d / "witness"),
    ),
    "diagram": ("diagram.json", claim, lambda d: StateDirectory(d).claimed),
    "schemas": (
        "schemas.json",
        lambda d: StateDirectory(d).save_schemas({"s": parse_schema("k int")}),
        lambda d: StateDirectory(d).load_schemas(),
    ),
    "position in the state": (
        "out.position",
        lambda d: kept_in_state(d / "out.position").save(Position(1 << 40)),
        lambda d: kept_in_state(d / "out.position").load(),
    ),
    "position beside the output": (
        "out.jsonl.position",
        lambda d: position_file(d / "out.jsonl").save(Position(1 << 40, 77, "run o")),
        lambda d: position_file(d / "out.jsonl").load(),
    ),
    "mark": (
        "sinks/out.run",
        lambda d: run_mark(d, SINK),
        lambda d: run_mark(d, SINK),
    ),
    "owner": ("owner", lambda d: own(d, "x", {"f": b"1"}), lambda d: own(d, "x", {"f": b"1"})),
}


@pytest.mark.parametrize("case", CASES)
def test_a_flip_of_any_byte_is_damage_that_names_the_file(tmp_path: Path, case: str) -> None:
    name, write, read = CASES[case]
    write(tmp_path)
    path = tmp_path / name
    whole = path.read_bytes()
    before = read(tmp_path)
    assert path.read_bytes() == whole
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        path.write_bytes(flipped)
        with pytest.raises(Damaged, match=f"{path} is damaged"):
            read(tmp_path)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(Damaged, match=f"{path} is damaged"):
            read(tmp_path)
    path.write_bytes(whole)
    assert read(tmp_path) == before


@given(st.binary(), st.binary(), st.sampled_from(["a", "b"]))
def test_nothing_but_a_seal_is_taken_for_one(payload: bytes, other: bytes, what: str) -> None:
    assert unseal(what, seal(what, payload)) == payload
    assert unseal("c", seal(what, payload)) is None
    assert unseal(what, other) is None
    assert unseal(what, seal(what, payload) + b"\0") is None


def test_a_file_in_the_place_of_another_is_damage(tmp_path: Path) -> None:
    kept_in_state(tmp_path / "one.position").save(Position(7))
    shutil.copy(tmp_path / "one.position", tmp_path / "two.position")
    with pytest.raises(Damaged, match=r"two\.position is damaged, it is not the 'position of two'"):
        kept_in_state(tmp_path / "two.position").load()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write_sealed(tmp_path / "precious", "x", b"1")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(UserError, match="link' is a symbolic link"):
        read_sealed(tmp_path / "link", "x", "")
    write_sealed(tmp_path / "link", "x", b"2")
    assert not (tmp_path / "link").is_symlink()
    assert read_sealed(tmp_path / "precious", "x", "") == b"1"


# --- whose directory it is -----------------------------------------------------------------


def test_a_directory_of_another_owner_is_refused(tmp_path: Path) -> None:
    own(tmp_path / "one", "replica f@a")
    own(tmp_path / "one", "replica f@a")
    with pytest.raises(UserError, match=r"one' holds the state of replica f@a, not of replica f@b"):
        own(tmp_path / "one", "replica f@b")
    (tmp_path / "one" / "owner").unlink()
    (tmp_path / "one" / "logs").mkdir()
    with pytest.raises(Damaged, match=r"one/owner, which says whose directory that is, is missing"):
        own(tmp_path / "one", "replica f@a")


def test_a_file_that_was_there_from_the_beginning_must_be_there(tmp_path: Path) -> None:
    own(tmp_path, "source s")
    own(tmp_path, "source s", {"standing": b"new"})  # it has got a standby since
    (tmp_path / "standing").write_bytes(b"changed")
    own(tmp_path, "source s", {"standing": b"new"})
    assert (tmp_path / "standing").read_bytes() == b"changed"
    (tmp_path / "standing").unlink()
    with pytest.raises(Damaged, match="standing is missing"):
        own(tmp_path, "source s", {"standing": b"new"})


# --- the epoch -----------------------------------------------------------------------------


def test_an_epoch_that_was_lost_is_taken_from_the_state_of_a_node(tmp_path: Path) -> None:
    from australis.deployment.cluster import Cluster, NodePlace

    diagram = diagram_file.load(
        "diagram: d\nsources:\n  p: {push: true, schema: 'k int'}\n"
        "operators:\n  q: {filter: p, where: k > 0}\n",
        "d.yaml",
    )
    cluster = Cluster(
        name="c",
        diagram_path="",
        state="state",
        nodes={"a": NodePlace("a", "127.0.0.1", 1)},
        replicas={"q": ("a",)},
        sources={"p": "a"},
    )
    (tmp_path / "state" / "a").mkdir(parents=True)
    claim(tmp_path / "state" / "a")
    keep_epoch(cluster, diagram, tmp_path)
    assert read_epoch(tmp_path / "state") == EPOCH_US
    write_epoch(tmp_path / "state", EPOCH_US + 1_000_000)
    with pytest.raises(UserError, match=r"'c' has the epoch .*:01\+00:00, but its state begins at"):
        keep_epoch(cluster, diagram, tmp_path)
