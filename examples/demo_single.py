"""`make demo-single`: the network-monitoring query on one Spark, with results as they come.

Three sites report connections; among ordinary hosts some scan many ports and some
flood one. The query finds the sources that make many connections and touch many
ports within a minute. At the end the answer is compared with DuckDB's over the
same tuples.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from rich.console import Console

import australis as au
from australis.runtime.run import Running
from australis.runtime.sources.attacks import truth
from australis.runtime.sources.generate import read_options

DIAGRAM = Path(__file__).parent / "network_monitoring.yaml"
LIMIT_S = 600

BATCH_QUERY = """
with seen as (
    select src, port, unnest(range(
        (epoch_us(time) // 10000000) * 10000000 - 50000000,
        (epoch_us(time) // 10000000) * 10000000 + 1, 10000000)) as start_us
    from connections)
select make_timestamptz(start_us + 59999999) as _stime, src,
       count(*) as connections, count(distinct port) as ports
from seen group by start_us, src having count(*) > 100 and count(distinct port) > 10
order by all
"""


class Watcher:
    """Prints the results as they come."""

    def __init__(self, console: Console, running: Running) -> None:
        self._console = console
        self._running = running
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        for row in self._running.stream("suspects"):
            ends = row["_stime"] + timedelta(microseconds=1)
            self._console.print(
                f"  minute to {ends:%H:%M:%S}  [bold red]{row['src']:<14}[/]"
                f" {row['connections']:>5} connections to {row['ports']:>4} ports"
            )

    def join(self) -> None:
        """Wait for the last result."""
        self._thread.join(10)


def show(master: str = "local[*]", **options: Any) -> bool:
    """Run the demo; whether the answer is DuckDB's."""
    console = Console(highlight=False, soft_wrap=True)
    diagram = au.load(DIAGRAM)
    console.print("[bold]Australis[/]: who scans our network? Three sites, one query on Spark.")
    with tempfile.TemporaryDirectory(prefix="australis-demo-") as scratch:
        state = Path(scratch) / "state"
        diagram = _without_sinks(diagram)
        with Running(
            diagram, state, master=master, base=DIAGRAM.parent,
            on_step=lambda step: console.print(f"[dim]{step} ...[/]"), **options,
        ) as running:  # fmt: skip
            running.start()
            began = time.monotonic()
            watcher = Watcher(console, running)
            if not running.wait(LIMIT_S):
                console.print("[red]the query did not finish[/]")
                return False
            seconds = time.monotonic() - began
            watcher.join()
            batches = running.lanes["suspects"].query.recentProgress
            found = running.table("suspects")
            rows = {name: proxy.stats.rows for name, proxy in running.sources.items()}
        tuples = _connections(diagram)
    return _summary(console, diagram, found, tuples, rows, seconds, batches)


def _without_sinks(diagram: au.Diagram) -> au.Diagram:
    """The demo shows results itself and keeps no file."""
    return replace(diagram, sinks=(), outputs=("suspects",))


def _connections(diagram: au.Diagram) -> pa.Table:
    """All tuples of all sites, generated once more: the same seed gives the same."""
    from australis.runtime.sources import open_reader

    tables = []
    for source in diagram.sources:
        reader = open_reader(source, DIAGRAM.parent)
        assert reader is not None
        batches = [chunk.rows for chunk in reader.chunks(0)]
        tables.append(pa.Table.from_batches(batches, source.schema.attributes))
    return pa.concat_tables(tables)


def _summary(
    console: Console, diagram: au.Diagram, found: pa.Table, connections: pa.Table,
    rows: dict[str, int], seconds: float, batches: list[Any],
) -> bool:  # fmt: skip
    session = duckdb.connect()
    session.execute("set timezone = 'UTC'")
    session.register("connections", connections)
    batch = session.sql(BATCH_QUERY).to_arrow_table()
    ours = (
        found.drop_columns(["_type", "_id"])
        .cast(batch.schema)
        .sort_by([(name, "ascending") for name in batch.column_names])
    )
    equal = ours.to_pylist() == batch.to_pylist()
    planted = truth(read_options(diagram.sources[0]))
    suspects = sorted(set(found["src"].to_pylist()))
    scanners = sorted({attack.src for attack in planted["scan"]})
    took = [b["durationMs"]["triggerExecution"] for b in batches if b["numInputRows"]]
    total = sum(rows.values())
    console.print(
        f"\n[bold]Found[/] {found.num_rows} alerts on {len(suspects)} sources:"
        f" {', '.join(suspects)}"
    )
    console.print(
        f"  planted in the traffic: {len(scanners)} port scans ({', '.join(scanners)}),"
        f" {len(planted['flood'])} floods (many connections, but one port: no alert)"
    )
    console.print(
        f"  {total:,} tuples from {len(rows)} sites in {seconds:.1f} s ({total / seconds:,.0f}/s);"
        f" {len(took)} micro-batches, median {statistics.median(took):,.0f} ms"
    )
    verdict = "[green]equal[/]" if equal else "[red]DIFFERENT[/]"
    console.print(f"  compared with DuckDB over all tuples at once: {verdict}")
    return equal


if __name__ == "__main__":
    raise SystemExit(0 if show() else 1)
