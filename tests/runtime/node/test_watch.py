"""A node that makes no progress ends, so that it is started again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from runtime.node.small_cluster import SmallCluster

from australis.runtime.files import stopping, under_way
from australis.runtime.node import watch
from australis.runtime.node.process import Node

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallCluster:
    monkeypatch.setattr(watch, "LOOK_S", 0.05)
    monkeypatch.setattr(watch, "STUCK_LOOKS", 20)
    return SmallCluster(tmp_path)


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def failed(node: Node) -> str:
    """Why a node has failed, once it has."""
    until(lambda: bool(node.errors))
    return str(node.errors[0])


def test_a_driver_thread_that_hangs_ends_its_node(
    small: SmallCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    with small, suppress(Exception):
        node = small.nodes["e1"]
        handle = node._machines.handle

        def hangs(*about: Any) -> Any:
            held.wait(30)
            return handle(*about)

        monkeypatch.setattr(node._machines, "handle", hangs)
        try:
            assert failed(node).startswith("the driver thread has not returned from ")
        finally:
            held.set()
        assert '"event": "stuck"' in events_of(small, "e1")
        assert not small.nodes["a"].errors, "the others wait for it, and go on"


def test_a_write_that_hangs_ends_its_node(small: SmallCluster) -> None:
    """All nodes are one process here: each notices it."""
    hangs = threading.Event()

    def write() -> None:
        with stopping("write", Path("/disk/s1/1.log")):
            hangs.wait(30)

    with small:
        threading.Thread(target=write, daemon=True).start()
        try:
            said = failed(small.nodes["e1"])
        finally:
            hangs.set()
        assert said == "the disk has not returned for 1 s from: write /disk/s1/1.log"
    until(lambda: not under_way())


def test_a_look_that_fails_does_not_end_a_node(
    small: SmallCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()

    def fails() -> None:
        failed.set()
        raise RuntimeError("dictionary changed size during iteration")

    with small:
        monkeypatch.setattr(small.nodes["a"]._home._waits, "look", lambda *about: fails())
        until(failed.is_set)
        until(lambda: "while it looked" in events_of(small, "a"))
        assert not small.nodes["a"].errors


def events_of(small: SmallCluster, node: str) -> str:
    return (small.base / "state" / node / "events.jsonl").read_text()


def test_a_node_that_waits_for_its_inputs_is_not_stuck(small: SmallCluster) -> None:
    with small:
        until(lambda: len(small.stable()) > 3)
        for source in ("e1", "e2"):
            small.stop(source)
        time.sleep(2.5)
        assert not small.nodes["a"].errors
