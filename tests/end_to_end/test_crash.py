"""Killed with kill -9 at random moments, a run still writes what an undisturbed one writes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

CRASHES = int(os.environ.get("AUSTRALIS_CRASHES", "6"))
START_S = 1_760_000_000
ROWS, SECONDS = 12_000, 40

DIAGRAM = """
diagram: crash
sources:
  orders:
    csv: orders.csv
    schema: at timestamp, shop string, amount double
    time: at
    slack: 1 s
    speed: {speed}
operators:
  large: {{filter: orders, where: amount > 90}}
  per_shop:
    aggregate: orders
    window: 3 s
    slide: 1 s
    by: [shop]
    compute: {{n: count(*), total: sum(amount), last: last(amount)}}
  every_five:
    aggregate: large
    window: 5 tuples
    slide: 2 tuples
    by: [shop]
    compute: {{most: max(amount), n: count(*)}}
  rich:
    join: [large, per_shop]
    within: 2 s
    on: left.shop = right.shop and left.amount > 98
    select: {{shop: left.shop, amount: left.amount, n: right.n, last: right.last}}
outputs: [every_five, rich]
sinks:
  large_lines: {{from: large, jsonl: large.jsonl}}
  shops: {{from: per_shop, parquet: shops}}
"""


def write_orders(path: Path) -> None:
    """Orders out of order: most within the slack, some late, some malformed."""
    rng = random.Random(11)
    lines = ["at,shop,amount"]
    for i in range(ROWS):
        delay = rng.choice([0, 0, 0, 0.3, 0.8]) if rng.random() < 0.999 else 4.0
        at = START_S + i * SECONDS / ROWS - delay
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1e6):06d}Z"
        amount = "much" if rng.random() < 0.001 else f"{rng.uniform(0, 100):.2f}"
        lines.append(f"{stamp},shop{rng.randrange(20)},{amount}")
    path.write_text("\n".join(lines) + "\n")


def prepare(directory: Path, speed: str) -> Path:
    directory.mkdir()
    write_orders(directory / "orders.csv")
    (directory / "crash.yaml").write_text(DIAGRAM.format(speed=speed))
    return directory


def launch(directory: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "australis.cli.main", "run", str(directory / "crash.yaml")]
    command += ["--state", str(directory / "state"), "--json", "--master", "local[2]"]
    command += ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(directory: Path) -> dict[str, object]:
    process = launch(directory)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    summary: dict[str, object] = json.loads(out)
    assert summary["finished"]
    return summary


def commits(directory: Path) -> int:
    files = (directory / "state" / "logs").glob("*/commits")
    return sum(path.stat().st_size for path in files)


def kill_at_a_random_moment(directory: Path, rng: random.Random) -> bool:
    """Start a run and kill it; whether it had written something by then."""
    before = commits(directory)
    process = launch(directory)
    deadline = time.monotonic() + (rng.uniform(0.5, 8) if rng.random() < 0.25 else 60)
    while commits(directory) == before and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 2.5))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return commits(directory) > before


def everything(directory: Path) -> dict[str, object]:
    """All that a run leaves behind, as bytes where bytes are promised."""
    state = directory / "state"
    logs = {
        f"{path.parent.name}/{path.name}": path.read_bytes() for path in state.glob("logs/*/*.seg")
    }
    shops = pq.read_table(directory / "shops").sort_by("_id")
    rejected = (state / "rejected" / "orders.jsonl").read_text()
    late = [json.loads(line) for line in (state / "late" / "orders.jsonl").read_text().splitlines()]
    for row in late:
        del row["boundary"]  # which boundary it missed depends on when it was read
    lines = (directory / "large.jsonl").read_bytes()
    return {**logs, "shops": shops, "rejected": rejected, "late": late, "large": lines}


@pytest.mark.timeout(3600)
def test_nothing_is_lost_and_nothing_twice(tmp_path: Path) -> None:
    calm = prepare(tmp_path / "calm", "max")
    summary = finish(calm)
    source = summary["sources"]["orders"]  # type: ignore[index]
    assert source["late"] > 0
    assert source["rejected"] > 0
    assert source["rows"] + source["late"] + source["rejected"] == ROWS
    wild = prepare(tmp_path / "wild", str(SECONDS / (CRASHES * 2.0)))
    rng = random.Random(5)
    effective = sum(kill_at_a_random_moment(wild, rng) for _ in range(CRASHES))
    assert effective >= CRASHES // 2, "most kills should hit a run at work"
    finish(wild)
    one, other = everything(calm), everything(wild)
    assert {name.split("/")[0] for name in one} >= {"orders", "per_shop", "every_five", "rich"}
    assert one.keys() == other.keys()
    for name, content in one.items():
        assert content == other[name], f"{name} differs after {CRASHES} kills"
