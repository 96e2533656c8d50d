"""`australis bench engine`: the engine against bare Structured Streaming.

*Throughput*: both sides run the same windowed count and approximate distinct per
source over the same stored Arrow rows, alternately, in one Spark session, until
every window has been emitted. Ours reads them from a stable log and writes its
results to one; the baseline reads Arrow files and throws its results away. One
row from the future behind the others makes the baseline close its last windows. A
third figure has our source proxy read and log the rows while the query runs.

*Delay*: at a fixed rate, from the end of a window to the delivery of its results to the client,
compared with the baseline's median micro-batch at the same rate.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from australis.diagram.build import DiagramBuilder, Stream
from australis.diagram.model import Diagram
from australis.kernel.errors import Stopped
from australis.runtime.files import FileDisk
from australis.runtime.run import Running
from australis.runtime.state import StateDirectory
from australis.spark.session import SparkSession, open_session, tasks
from australis.streams.log import StableLog
from australis.streams.schema import parse_schema
from australis.streams.source import SourceStream
from research.bench import bare, clusters
from research.bench.memory import PeakMemory

SOURCES = 1_000
EVENT_RATE = 10_000
"""Rows per second of event time in the stored data."""
FILE_ROWS = 62_500
ROWS_PER_BATCH = 1 << 20
DELAY_RATE = 3_000
WINDOW = "10 seconds"
WINDOW_US = 10_000_000
DELAY_WINDOW = "1 second"
LIMIT_S = 300
START_US = 1_760_000_000_000_000
SCHEMA = parse_schema("src string, port int")

Say = Callable[[str], None]


def measure(
    rows: int, rounds: int, seconds: int, scratch: Path | None = None, say: Say = print
) -> dict[str, Any]:
    """Run all parts; return the result as `--json` prints it."""
    with clusters.scratch_directory(scratch) as root:
        spark = open_session("local[*]", "australis bench", log=root / "spark.log")
        try:
            say(f"storing {rows:,} rows")
            expected = _store(rows, root)
            throughput = _throughput(spark, root, rows, rounds, expected, say)
            delays = _delay(spark, root, seconds, say)
        finally:
            spark.stop()
        say("memory, in a process of its own")
        memory = _memory(root)
    return _result(throughput, delays, memory, rows, rounds)


def _result(
    throughput: dict[str, list[float]],
    delays: dict[str, float],
    memory: dict[str, float],
    rows: int,
    rounds: int,
) -> dict[str, Any]:
    middle = {side: statistics.median(rates) for side, rates in throughput.items()}
    bound_ms = 500 + 1.5 * delays["bare_batch_ms"]
    ratios = {
        "throughput": _ratio(throughput["australis"], throughput["bare"]),
        "throughput_with_source_logging": _ratio(
            throughput["australis_logging"], throughput["bare"]
        ),
        "delay": delays["delay_ms"] / bound_ms,
    }
    targets: list[dict[str, Any]] = [
        {"name": "throughput", "min": 0.8, "value": ratios["throughput"]},
        {"name": "delay_ms", "max": bound_ms, "value": delays["delay_ms"]},
        {"name": "python_mb", "max": 600, "value": memory["python_mb"]},
    ]
    for target in targets:
        low, high = target.get("min", -np.inf), target.get("max", np.inf)
        target["ok"] = bool(low <= target["value"] <= high)
    return {
        "bench": "engine",
        "rows": rows,
        "rounds": rounds,
        "ours": {
            "rows_per_s": middle["australis"],
            "rows_per_s_with_source_logging": middle["australis_logging"],
            "all_rows_per_s": throughput["australis"],
            **{k: v for k, v in delays.items() if not k.startswith("bare")},
            **memory,
        },
        "baseline": {
            "rows_per_s": middle["bare"],
            "all_rows_per_s": throughput["bare"],
            "batch_ms": delays["bare_batch_ms"],
        },
        "ratios": ratios,
        "targets": targets,
    }


def _ratio(ours: list[float], theirs: list[float]) -> float:
    """The median over the rounds, since both sides of a round ran under similar load."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def table(result: dict[str, Any]) -> str:
    """The result as a table."""
    ours, theirs, ratios = result["ours"], result["baseline"], result["ratios"]
    lines = [
        f"windowed count and approximate distinct per source, {result['rows']:,} rows,"
        f" median of {result['rounds']}",
        f"  {'':34}{'Australis':>12}{'bare Spark':>12}{'ratio':>8}",
        f"  {'throughput, rows/s':34}{ours['rows_per_s']:>12,.0f}{theirs['rows_per_s']:>12,.0f}"
        f"{ratios['throughput']:>8.2f}",
        f"  {'  and the source logged meanwhile':34}"
        f"{ours['rows_per_s_with_source_logging']:>12,.0f}{'':>12}"
        f"{ratios['throughput_with_source_logging']:>8.2f}",
        f"at {DELAY_RATE:,} tuples/s",
        f"  {'median delay, window end to client':34}{ours['delay_ms']:>9,.0f} ms",
        f"  {'median micro-batch':34}{ours['batch_ms']:>9,.0f} ms{theirs['batch_ms']:>9,.0f} ms",
        f"peak memory of Australis: Python {ours['python_mb']:,.0f} MB,"
        f" JVM {ours['jvm_mb']:,.0f} MB",
    ]
    for target in result["targets"]:
        bound = f">= {target['min']}" if "min" in target else f"<= {target['max']:,.0f}"
        verdict = "ok" if target["ok"] else "MISSED"
        lines.append(f"  target {target['name']} {bound}: {target['value']:,.2f} {verdict}")
    return "\n".join(lines)


# --- throughput ----------------------------------------------------------------


def _store(rows: int, root: Path) -> int:
    """Store the rows three times: as Arrow files, as a stable log, and as Parquet for the proxy.

    Returns the number of windows in them.
    """
    files, log_dir = root / "files", root / "stored" / "logs" / "connections"
    for directory in (files, log_dir):
        directory.mkdir(parents=True)
    StateDirectory(root / "stored").lock.touch()
    diagram = _diagram(root / "rows.parquet")
    log = StableLog(FileDisk(log_dir), SCHEMA, diagram.buckets)
    stream = SourceStream(SCHEMA, diagram.buckets)
    names = ["time", "src", "port"]
    writer, windows = None, set[int]()
    for i, first in enumerate(range(0, rows, FILE_ROWS)):
        at = np.arange(first, min(rows, first + FILE_ROWS))
        stimes = pa.array(START_US + at * 1_000_000 // EVENT_RATE).cast(pa.timestamp("us", "UTC"))
        columns = [stimes, *bare.connection_columns(at, SOURCES)]
        batch = pa.RecordBatch.from_arrays(columns, names=names)
        windows.update(np.unique(_window_codes(stimes, columns[1])).tolist())
        after_all = [_from_the_future(batch)] if at[-1] == rows - 1 else []
        _write_arrow(files / f"{i:05d}.arrow", [batch, *after_all])
        writer = writer or pq.ParquetWriter(root / "rows.parquet", batch.schema)
        writer.write_batch(batch)
        stream.offer(pa.RecordBatch.from_arrays(columns, schema=stream.row_schema))
        step = stream.close(stream.due_boundary())
        if step is not None:
            log.append(step.buckets, step.boundary_us)
    assert writer is not None
    writer.close()
    step = stream.end()
    assert step is not None
    log.append(step.buckets, step.boundary_us)
    return len(windows)


def _window_codes(stimes: pa.Array, sources: pa.Array) -> npt.NDArray[np.int64]:
    """One number for each window and source."""
    which = sources.dictionary_encode()
    names = [
        int(n.split(".")[2]) * 256 + int(n.split(".")[3]) for n in which.dictionary.to_pylist()
    ]
    numbers = np.array(names)[which.indices.to_numpy()]
    codes: npt.NDArray[np.int64] = (
        stimes.cast(pa.int64()).to_numpy() // WINDOW_US * SOURCES + numbers
    )
    return codes


def _from_the_future(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A row whose time is past every window."""
    late = pa.array([START_US + 10**12], batch.schema.field("time").type)
    return batch.slice(0, 1).set_column(0, "time", late)


def _write_arrow(path: Path, batches: list[pa.RecordBatch]) -> None:
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, batches[0].schema) as file:
        for batch in batches:
            file.write_batch(batch)


def _diagram(parquet: Path) -> Diagram:
    d = DiagramBuilder("bench-engine")
    connections = d.source(
        "connections",
        parquet=str(parquet),
        schema="time timestamp, src string, port int",
        time="time",
    )
    _query(d, connections, WINDOW)
    return d.done()


def _query(d: DiagramBuilder, stream: Stream, window: str) -> Stream:
    return d.aggregate(
        "per_source",
        stream,
        window=window,
        by=["src"],
        compute={"n": "count(*)", "ports": "approx_count_distinct(port)"},
    )


def _stored_diagram() -> Diagram:
    d = DiagramBuilder("bench-engine")
    connections = d.source("connections", push=True, schema=str(SCHEMA))
    _query(d, connections, WINDOW)
    return d.done()


def _throughput(
    spark: SparkSession, root: Path, rows: int, rounds: int, expected: int, say: Say
) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {"bare": [], "australis": [], "australis_logging": []}
    for number in range(rounds + 1):
        for side, run in (
            ("bare", _bare_round),
            ("australis", _stored_round),
            ("australis_logging", _logging_round),
        ):
            seconds = run(spark, root, number, expected)
            if number == 0:
                say(f"warm-up, {side}: {rows / seconds:,.0f} rows/s")
                continue
            rates[side].append(rows / seconds)
            say(f"round {number}, {side}: {rows / seconds:,.0f} rows/s")
    return rates


def _bare_round(spark: SparkSession, root: Path, number: int, expected: int) -> float:
    options = {
        "path": str(root / "files"),
        "files_per_batch": str(ROWS_PER_BATCH // FILE_ROWS),
        "tasks": str(tasks(spark)),
    }
    began = time.monotonic()
    query = bare.start(spark, "bare-files", options, WINDOW, root / f"bare-{number}")
    emitted = 0
    while emitted < expected:
        emitted = _emitted(query.recentProgress)
        failure = query.exception()
        if failure is not None or time.monotonic() - began > LIMIT_S:
            raise Stopped(f"the baseline did not finish: {failure}")
        time.sleep(0.03)
    seconds = time.monotonic() - began
    query.stop()
    return seconds


def _emitted(progress: list[Any]) -> int:
    """The number of windows that the baseline has closed."""
    states = [state for one in progress for state in one["stateOperators"]]
    return sum(int(state["numRowsRemoved"]) for state in states)


def _stored_round(spark: SparkSession, root: Path, number: int, expected: int) -> float:
    state = root / f"stored-{number}"
    shutil.copytree(root / "stored", state)
    return _run_to_end(spark, _stored_diagram(), state, expected)


def _logging_round(spark: SparkSession, root: Path, number: int, expected: int) -> float:
    diagram = _diagram(root / "rows.parquet")
    return _run_to_end(spark, diagram, root / f"logging-{number}", expected)


def _run_to_end(spark: SparkSession, diagram: Diagram, state: Path, expected: int) -> float:
    with Running(diagram, state, spark=spark, rows_per_batch=ROWS_PER_BATCH) as running:
        running.start()
        if not running.wait(LIMIT_S, every_s=0.02):
            raise Stopped("the run did not finish")
        seconds = time.monotonic() - running.started_at
        emitted = running.logs["per_source"].rows
        if emitted != expected:
            raise Stopped(f"{emitted} windows came out, not {expected}")
    shutil.rmtree(state)
    return seconds


# --- memory ----------------------------------------------------------------------


def _memory(root: Path) -> dict[str, float]:
    """Peak memory of a run over the stored rows, with a Spark of its own."""
    command = [sys.executable, "-m", "research.bench.engine", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise Stopped(f"the memory run failed: {done.stderr.strip().splitlines()[-1]}")
    peak: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return peak


def _memory_run(root: Path) -> None:
    state = root / "memory"
    shutil.copytree(root / "stored", state)
    with (
        PeakMemory() as memory,
        Running(_stored_diagram(), state, rows_per_batch=ROWS_PER_BATCH) as running,
    ):
        running.start()
        if not running.wait(LIMIT_S):
            raise Stopped("the run did not finish")
    sys.stdout.write(json.dumps(memory.peak) + "\n")


# --- delay -----------------------------------------------------------------------


def _delay(spark: SparkSession, root: Path, seconds: int, say: Say) -> dict[str, float]:
    say(f"delay at {DELAY_RATE:,} tuples/s, {seconds} s each")
    bare_ms = _bare_delay(spark, root, seconds)
    say(f"bare Spark: median micro-batch {bare_ms:,.0f} ms")
    delay_ms, batch_ms = _our_delay(spark, root, seconds)
    say(f"Australis: median micro-batch {batch_ms:,.0f} ms, median delay {delay_ms:,.0f} ms")
    return {"delay_ms": delay_ms, "batch_ms": batch_ms, "bare_batch_ms": bare_ms}


def _median_batch_ms(progress: list[Any], since: float) -> float:
    recent = [p["durationMs"]["triggerExecution"] for p in progress if p["numInputRows"]]
    return statistics.median(recent[int(len(recent) * since) :])


def _bare_delay(spark: SparkSession, root: Path, seconds: int) -> float:
    options = {
        "rate": str(DELAY_RATE),
        "sources": str(SOURCES),
        "start_us": str(int(time.time() * 1e6)),
    }
    query = bare.start(spark, "bare-paced", options, DELAY_WINDOW, root / "bare-paced")
    time.sleep(seconds)
    progress = query.recentProgress
    query.stop()
    return _median_batch_ms(progress, 0.3)


def _our_delay(spark: SparkSession, root: Path, seconds: int) -> tuple[float, float]:
    seen: list[tuple[float, pa.RecordBatch]] = []
    d = DiagramBuilder("bench-delay")
    connections = d.source("connections", push=True, schema=str(SCHEMA))
    per_source = _query(d, connections, DELAY_WINDOW)
    d.sink(
        "client",
        per_source,
        callback=lambda batch: seen.append((time.time() * 1e6, batch)),
    )
    running = Running(d.done(), StateDirectory(root / "paced").root, spark=spark)
    with running:
        running.start()
        stop = threading.Event()
        feeder = threading.Thread(target=_feed, args=(running, stop), daemon=True)
        feeder.start()
        time.sleep(seconds)
        running.check()
        progress = running.lanes["per_source"].query.recentProgress
        stop.set()
        feeder.join()
    settled = [
        received - (batch.column("_stime")[0].value + 1)
        for received, batch in seen[int(len(seen) * 0.3) :]
    ]
    return statistics.median(settled) / 1000, _median_batch_ms(progress, 0.3)


def _feed(running: Running, stop: threading.Event) -> None:
    tick_s = 0.02
    began, sent = time.monotonic(), 0
    while not stop.wait(tick_s):
        due = int((time.monotonic() - began) * DELAY_RATE)
        columns = bare.connection_columns(np.arange(sent, due), SOURCES)
        running.push("connections", pa.RecordBatch.from_arrays(columns, names=["src", "port"]))
        sent = due


if __name__ == "__main__":
    _memory_run(Path(sys.argv[1]))
