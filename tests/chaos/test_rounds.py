"""Some rounds of `australis chaos`, the same ones each time; on Spark one of each shape."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from australis.scenarios import drawn, real
from australis.scenarios.rounds import Rounds, summary
from australis.scenarios.scenario_file import read

pytestmark = pytest.mark.timeout(900)

FIRST_SEED = 1000


def test_some_rounds(tmp_path: Path) -> None:
    opened = Rounds.open(tmp_path, "reference", FIRST_SEED)
    finished = list(opened.run(6, lambda number, said: None))
    assert [one.misses for one in finished] == [()] * 6
    # The results of the last one are suspended: nothing is promised in time.
    assert [one.unjudged for one in finished] == [()] * 5 + [("no delay",)]
    judged = summary(finished)["judged"]
    assert judged["delays"] > 200
    assert judged["in_failures"] > 60
    assert judged["compared"] > 50
    assert judged["precise"] > 20


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_node_outlives_an_interrupted_command(stop: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C goes to all processes of a terminal, other signals to the command only."""
    command = [sys.executable, "-m", "australis.cli.main", "chaos", "--jobs", "2"]
    process = subprocess.Popen([*command, "--resume", tmp_path], start_new_session=True)
    until(lambda: len(nodes_below(tmp_path)) >= 4)
    if stop is signal.SIGINT:
        os.killpg(process.pid, stop)
    else:
        process.send_signal(stop)
    assert process.wait(60) == (-9 if stop is signal.SIGKILL else 130)
    if stop is signal.SIGKILL:
        until(lambda: not nodes_below(tmp_path))
    assert not nodes_below(tmp_path)
    assert stop is signal.SIGKILL or not list(tmp_path.glob("round-*"))


def nodes_below(directory: Path) -> list[str]:
    """The commands of all processes that name a file below a directory."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            commands.append(path.read_text().replace("\0", " "))
    return [one for one in commands if f" --cluster {directory}/" in one]


def until(what: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def timely(text: str) -> bool:
    """Whether a scenario promises results in time, so that there is something to judge."""
    return "suspend" not in text and "never" not in text


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("shape", drawn.SHAPES)
def test_a_round_on_spark(shape: str, tmp_path: Path) -> None:
    texts = (drawn.text(seed, "spark") for seed in count(FIRST_SEED))
    text = next(text for text in texts if text.startswith(f"scenario: {shape}_") and timely(text))
    verdict = real.run(read(text, "drawn.yaml"), "spark", directory=tmp_path)
    assert verdict.misses == (), verdict.story
    judged = verdict.facts.judged
    assert judged is not None
    assert judged.delays > 0
    assert judged.masked_s > 0
    assert not judged.incomplete
