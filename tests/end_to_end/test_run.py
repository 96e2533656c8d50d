"""`australis run` as people use it: results, mistakes, stops, and going on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DIAGRAM = """
diagram: shop
sources:
  orders:
    jsonl: orders.jsonl
    schema: at timestamp, shop string, amount double
    time: at
    speed: {speed}
operators:
  large: {{filter: orders, where: amount > {least}}}
sinks:
  lines: {{from: large, jsonl: large.jsonl}}
"""
LIMIT_S = 120


def prepare(directory: Path, *, speed: str = "max", rows: int = 100, least: int = 50) -> Path:
    lines = [
        json.dumps(
            {"at": f"2026-01-01T00:00:{i % 60:02d}.{i // 60:03d}Z", "shop": "a", "amount": i}
        )
        for i in sorted(range(rows), key=lambda i: (i % 60, i // 60))
    ]
    lines.insert(3, "{not json")
    lines.append(json.dumps({"at": "2026-01-01T00:00:01Z", "shop": "late", "amount": 99}))
    (directory / "orders.jsonl").write_text("\n".join(lines) + "\n")
    diagram = directory / "shop.yaml"
    diagram.write_text(DIAGRAM.format(speed=speed, least=least))
    return diagram


def launch(diagram: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "australis.cli.main", "run", str(diagram)]
    command += ["--state", str(diagram.parent / "state"), "--master", "local[2]", *options]
    command += ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(diagram: Path, *options: str) -> tuple[int, str, str]:
    process = launch(diagram, *options)
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


def one_sentence(err: str) -> str:
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("australis: ")
    return lines[0]


def test_results_then_a_changed_diagram_then_fresh(tmp_path: Path) -> None:
    diagram = prepare(tmp_path)
    code, out, err = run(diagram, "--json")
    assert code == 0, err
    assert err == ""
    summary = json.loads(out)
    assert summary["finished"]
    assert summary["sources"]["orders"] == {"rows": 100, "rejected": 1, "late": 1}
    assert summary["results"] == {"large": 49}
    amounts = [json.loads(line)["amount"] for line in (tmp_path / "large.jsonl").open()]
    assert sorted(amounts) == list(range(51, 100))
    (rejected,) = (tmp_path / "state" / "rejected" / "orders.jsonl").read_text().splitlines()
    assert json.loads(rejected)["line"] == 4
    (late,) = (tmp_path / "state" / "late" / "orders.jsonl").read_text().splitlines()
    assert json.loads(late)["shop"] == "late"

    prepare(tmp_path, least=70)
    code, out, err = run(diagram)
    assert code == 2
    assert "shop.yaml:10: 'large' has changed since the state" in one_sentence(err)
    assert "--fresh" in err

    code, out, err = run(diagram, "--fresh", "--json")
    assert code == 0, err
    assert json.loads(out)["results"] == {"large": 29}
    assert len((tmp_path / "large.jsonl").read_text().splitlines()) == 29


def wait_for_rows(path: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not (path.exists() and path.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)


def test_interrupt_says_how_to_go_on_and_goes_on(tmp_path: Path) -> None:
    diagram = tmp_path / "shop.yaml"
    process = begin(tmp_path)
    second = run(diagram)
    assert second[0] == 2
    assert f"in use by another run (pid {process.pid})" in one_sentence(second[2])
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, err
    assert "run again to go on" in out
    assert "Traceback" not in err
    before = len((tmp_path / "large.jsonl").read_text().splitlines())
    assert 0 < before < 5949
    code, out, err = go_on(diagram, "--json")
    assert code == 0, err
    amounts = [json.loads(line)["amount"] for line in (tmp_path / "large.jsonl").open()]
    assert sorted(amounts) == list(range(51, 6000))


def everything_arrived(directory: Path) -> None:
    amounts = [json.loads(line)["amount"] for line in (directory / "large.jsonl").open()]
    assert sorted(amounts) == list(range(51, 6000))


def begin(directory: Path) -> subprocess.Popen[str]:
    """A run that has written its first results and has most of a minute's rows to come."""
    process = launch(prepare(directory, speed="1", rows=6000))
    wait_for_rows(directory / "large.jsonl")
    return process


def go_on(diagram: Path, *options: str) -> tuple[int, str, str]:
    """The same diagram again, in a hurry."""
    diagram.write_text(diagram.read_text().replace("speed: 1", "speed: max"))
    return run(diagram, *options)


@pytest.mark.long
def test_a_full_disk_stops_with_the_reason_and_loses_nothing(tmp_path: Path) -> None:
    process = begin(tmp_path)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    diagram, log = tmp_path / "shop.yaml", tmp_path / "state" / "logs" / "large"
    size = sum(path.stat().st_size // 4096 + 1 for path in log.iterdir()) + 1
    before = log.rename(tmp_path / "before")
    log.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size * 4}k", "tmpfs", str(log)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        shutil.copytree(before, log, dirs_exist_ok=True)
        code, _, err = go_on(diagram)
        assert code == 1
        assert "stopped: cannot write" in one_sentence(err)
        assert "No space left on device" in err
        after = shutil.copytree(log, tmp_path / "after")
    finally:
        subprocess.run(["umount", str(log)], check=True)
    shutil.copytree(after, log, dirs_exist_ok=True)
    code, _, err = go_on(diagram)
    assert code == 0, err
    everything_arrived(tmp_path)


@pytest.mark.long
def test_a_vanished_directory_stops_with_the_reason_and_loses_nothing(tmp_path: Path) -> None:
    process = begin(tmp_path)
    os.rename(tmp_path / "state" / "logs", tmp_path / "gone")
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, out
    assert "stopped: cannot" in one_sentence(err)
    shutil.rmtree(tmp_path / "state" / "logs", ignore_errors=True)
    os.rename(tmp_path / "gone", tmp_path / "state" / "logs")
    code, _, err = go_on(tmp_path / "shop.yaml")
    assert code == 0, err
    everything_arrived(tmp_path)


def test_a_lost_checkpoint_is_noticed(tmp_path: Path) -> None:
    process = begin(tmp_path)
    # A single micro-batch without its checkpoint is as good as new.
    while len([*tmp_path.glob("state/checkpoints/large/commits/[0-9]*")]) < 3:
        assert process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.communicate(timeout=LIMIT_S)
    shutil.rmtree(tmp_path / "state" / "checkpoints")
    code, _, err = run(tmp_path / "shop.yaml")
    assert code == 1
    assert "the checkpoint does not fit the log" in one_sentence(err)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("amount > 50", "amont > 50"), "shop.yaml:10: 'large' is refused by Spark"),
        (("orders.jsonl", "nothere.jsonl"), "'orders'"),
        (("speed: max", "speed: fast"), "'orders'"),
        (("filter: orders", "filter: order"), "did you mean 'orders'"),
    ],
)
def test_mistakes_are_told_in_one_sentence(
    tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    diagram = prepare(tmp_path)
    diagram.write_text(diagram.read_text().replace(*change))
    code, out, err = run(diagram)
    assert code == 2
    assert out == ""
    assert said in one_sentence(err)


JOINED = """
diagram: joined
sources:
  orders:
    jsonl: orders.jsonl
    schema: at timestamp, shop string, amount double
    time: at
operators:
  counts: {aggregate: orders, window: 1 s, by: [shop], compute: {n: count(*)}}
  most: {aggregate: orders, window: 1 s, by: [shop], compute: {top: max(amount)}}
  both:
    join: [counts, most]
    within: 0 s
    on: left.shop = right.shop
    select: {n: left.n, top: right.top}
sinks:
  lines: {from: both, jsonl: both.jsonl}
"""


def test_a_lane_that_reads_its_stream_twice_runs_in_a_session_of_its_own(tmp_path: Path) -> None:
    prepare(tmp_path, rows=600)
    diagram = tmp_path / "joined.yaml"
    diagram.write_text(JOINED)
    code, _, err = run(diagram)
    assert code == 0, err
    rows = [json.loads(line) for line in (tmp_path / "both.jsonl").open()]
    # Ten rows a second: those of second s are s, s + 60, ..., s + 540.
    assert sorted((row["n"], row["top"]) for row in rows) == [(10, 540 + s) for s in range(60)]
