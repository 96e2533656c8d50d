"""The epoch that is chosen where a cluster file names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from australis.diagram import diagram_file
from australis.kernel.durations import SECOND
from australis.kernel.errors import Stopped
from australis.runtime.epoch import began_us, choose_epoch, read_epoch, write_epoch
from australis.runtime.sources.attacks import START_US

pytestmark = pytest.mark.unit

NOW_US = 1_800_000_000 * SECOND + 123_456


def chosen(source: str, base: Path) -> int:
    diagram = diagram_file.load(
        f"diagram: d\nsources:\n  s: {source}\n  p: {{push: true, schema: 'k int'}}\n"
        "operators:\n  o: {filter: s, where: k > 0}\n  q: {filter: p, where: k > 0}\n",
        "d.yaml",
    )
    return choose_epoch(diagram, base, NOW_US)


def test_now_where_tuples_are_stamped_on_arrival(tmp_path: Path) -> None:
    assert chosen("{tcp: '127.0.0.1:0', schema: 'k int'}", tmp_path) == 1_800_000_000 * SECOND


def test_before_the_first_tuple_of_a_file_or_a_generator(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("t,k\n2026-01-02T00:00:05.5Z,1\n2026-01-02T00:00:05Z,2\n")
    file = "{csv: f.csv, time: t, schema: 't timestamp, k int'"
    day_us = START_US + 86_400 * SECOND
    assert chosen(f"{file}}}", tmp_path) == day_us + 4 * SECOND
    assert chosen(f"{file}, slack: 2500 ms}}", tmp_path) == day_us + 2 * SECOND
    diagram = diagram_file.load(
        "diagram: d\nsources:\n  s: {generate: connections}\n"
        "operators:\n  o: {filter: s, where: port > 0}\n",
        "d.yaml",
    )
    found = choose_epoch(diagram, tmp_path, NOW_US)
    assert found % SECOND == 0
    assert START_US - SECOND <= found <= START_US


def test_it_is_kept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert read_epoch(state) is None
    write_epoch(state, 1_800_000_000 * SECOND)
    assert read_epoch(state) == 1_800_000_000 * SECOND
    assert (state / "epoch").read_text().endswith(" epoch\n2027-01-15T08:00:00+00:00\n")
    (state / "epoch").write_text("soon")
    with pytest.raises(Stopped, match="epoch is damaged"):
        read_epoch(state)


def test_the_first_node_says_when_the_cluster_began(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert began_us(state, NOW_US) == NOW_US
    assert began_us(state, NOW_US + 5 * SECOND) == NOW_US, "later ones follow"
    assert [path.name for path in state.iterdir()] == ["began"]
    (state / "began").write_text("once")
    with pytest.raises(Stopped, match="began is damaged"):
        began_us(state, NOW_US)
