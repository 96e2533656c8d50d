"""Clocks that are off or jump are told, with what follows and what to do."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from runtime.node.small_cluster import SmallCluster

from australis.cli.main import cli
from australis.runtime.admin import AdminClient
from australis.runtime.node.clocks import WallWatch
from australis.runtime.node.driver import SHIFT
from australis.runtime.overview import overview

pytestmark = pytest.mark.timeout(180)

SECOND_NS = 1_000_000_000


class Machine:
    """The clocks of a machine, and what is told of them."""

    def __init__(self, sources: tuple[str, ...] = ("s1",)) -> None:
        self.wall = 1_800_000_000 * SECOND_NS
        self.steady = 50 * SECOND_NS
        self.told: list[dict[str, Any]] = []
        self.watch = WallWatch(self._tell, sources, lambda: self.wall, lambda: self.steady)

    def _tell(self, event: str, **about: Any) -> None:
        self.told.append({"event": event} | about)

    def passes(self, wall_s: float, steady_s: float) -> None:
        self.wall += int(wall_s * SECOND_NS)
        self.steady += int(steady_s * SECOND_NS)
        self.watch.look()


def test_a_clock_that_was_set_back_is_told_once() -> None:
    one = Machine()
    one.passes(1, 1)
    one.passes(-3599, 1)
    one.passes(1, 1)
    (told,) = one.told
    assert (told["event"], told["by_s"]) == ("clock_jumped", -3600.0)
    assert told["why"] == (
        "the wall clock of this machine jumped 3,600.0 s back: the node counts on by the clock as"
        " it was, so that s1 may now be 3,600.0 s ahead of the clock of other nodes; once the clock"
        " is right, start the node again"
    )
    assert one.watch.jumped_s == -3600.0


def test_a_suspended_machine_has_a_clock_that_jumped_ahead() -> None:
    one = Machine(sources=())
    one.passes(61, 1)
    (told,) = one.told
    assert told["by_s"] == 60.0
    assert "jumped 60.0 s ahead (it was set, or the machine was suspended)" in told["why"]
    assert "so that" not in told["why"]


def test_a_clock_that_is_slewed_is_no_jump_however_long_one_has_not_looked() -> None:
    one = Machine()
    one.passes(1.0005, 1)
    one.passes(7203.5, 7200)
    assert one.told == []
    assert one.watch.jumped_s == pytest.approx(3.5, abs=0.01)


def test_a_source_ahead_of_its_clock_is_told_once_until_it_is_caught_up_with() -> None:
    one = Machine()
    for ahead_us in (3_600_000_000, 3_599_000_000, 500_000, 0, 2_000_000):
        one.watch.look_at("s1", ahead_us)
    assert [told["ahead_s"] for told in one.told] == [3600.0, 2.0]
    assert "goes on from there at half the clock's speed" in one.told[0]["why"]


# --- in a cluster --------------------------------------------------------------------------------


def nodes_of(small: SmallCluster) -> dict[str, Any]:
    nodes: dict[str, Any] = overview(AdminClient(small.cluster, small.base), small.diagram)["nodes"]
    return nodes


def events(small: SmallCluster, node: str, name: str) -> list[dict[str, Any]]:
    lines = (small.base / "state" / node / "events.jsonl").read_text().splitlines()
    return [told for line in lines if (told := json.loads(line))["event"] == name]


def until(small: SmallCluster, what: Any, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, json.dumps(nodes_of(small), indent=1)
        time.sleep(0.05)


def restart(small: SmallCluster, node: str, shift_s: float, shifted: pytest.MonkeyPatch) -> None:
    """Start a node again, with its clock this much ahead."""
    small.stop(node)
    shifted.setenv(SHIFT, str(shift_s))
    small.start(node)
    shifted.delenv(SHIFT)


def test_a_source_whose_clock_is_behind_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SmallCluster(tmp_path) as small:
        until(small, lambda: len(small.stable()) > 3)
        # Ahead of the others by 5 s, which is as if those were behind.
        restart(small, "e1", 5.0, monkeypatch)

        def waits() -> dict[str, Any]:
            found: dict[str, Any] = nodes_of(small)["a"]["outputs"]["counts"]["waits_for"]
            return found

        until(small, lambda: waits()["behind_s"] > 4 and waits()["source"] == "s2")
        assert waits()["long"]
        until(small, lambda: bool(events(small, "a", "output_waits")))
        (told, *_) = events(small, "a", "output_waits")
        assert told["why"].startswith("counts waits for s2, which is ")
        (off, *_) = events(small, "a", "clock_off")
        assert abs(off["offset_s"] - 5) <= off["error_s"] + 0.1
        assert "s ahead of this node's: s1 waits for the others that much longer" in off["why"]
        node = nodes_of(small)["e1"]
        assert node["clock_s"] == pytest.approx(5.0, abs=1.0)
        shown = " ".join(CliRunner().invoke(cli, ["status", str(small.path)]).output.split())
        assert "waits for s2, which is" in shown.replace("│", "")


def test_a_stream_that_stands_still_is_not_called_stable(tmp_path: Path) -> None:
    """A result that accepts no tentative tuples only waits."""
    with SmallCluster(tmp_path, extra="results: {counts: {tentative: never}}\n") as small:
        until(small, lambda: len(small.stable()) > 3)
        until(small, lambda: nodes_of(small)["a"]["outputs"]["counts"]["state"] == "STABLE")
        small.stop("e2")

        def output() -> dict[str, Any]:
            found: dict[str, Any] = nodes_of(small)["a"]["outputs"]["counts"]
            return found

        until(small, lambda: output()["waits_for"]["long"] and output()["behind_s"] > 2)
        assert output()["state"] != "STABLE"
        assert output()["waits_for"]["source"] in ("s2", None)
        small.start("e2")
        until(small, lambda: output()["state"] == "STABLE" and output()["behind_s"] < 2)


def test_a_source_goes_on_after_a_restart_an_hour_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SmallCluster(tmp_path) as small:
        until(small, lambda: len(small.stable()) > 3)
        before = small.nodes["e1"].sources["s1"].closed
        restart(small, "e1", -3600.0, monkeypatch)
        until(small, lambda: small.nodes["e1"].sources["s1"].closed > before + 20)
        source = nodes_of(small)["e1"]["sources"]["s1"]
        assert 3500 < source["ahead_s"] < 3700
        until(small, lambda: bool(events(small, "e1", "source_ahead")))
        shown = " ".join(CliRunner().invoke(cli, ["status", str(small.path)]).output.split())
        assert "ahead of its clock" in shown
