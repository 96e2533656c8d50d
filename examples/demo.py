"""`make demo`: a query that two replicas run; one is killed, then a site is cut off.

Three sites report connections; among ordinary hosts some scan many ports and some
flood one. The query finds the sources that make many connections and touch many
ports at the same time. Two nodes run it on Spark, each in a process of its own. At
the end all that the client was told is compared with DuckDB's answer over the same
tuples.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from australis.runtime.client import ChangeKind
from australis.runtime.sources import open_reader
from australis.runtime.testbed import Comparison, Testbed, free_ports, judge, rows_of

REPLICAS = ("a", "b")
ACCEPTED_S = 8
CUT_S = 20
WINDOW_S, SLIDE_S = 20, 5

SITE = (
    "{{generate: connections, site: {site}, rate: 100, duration: 900 s, speed: 1, seed: 7,"
    ' scans: 4, floods: 1, start: "{start}"}}'
)
DIAGRAM = f"""
diagram: network-monitoring
bucket: 1 s
sources:
{{sites}}
operators:
  connections: {{{{union: [site0, site1, site2]}}}}
  per_source:
    aggregate: connections
    window: {WINDOW_S} s
    slide: {SLIDE_S} s
    by: [src]
    compute: {{{{connections: count(*), ports: count(distinct port)}}}}
  suspects:
    filter: per_source
    where: connections > 100 and ports > 10
"""
CLUSTER = f"""
cluster: demo
diagram: diagram.yaml
state: state
max_delay: {ACCEPTED_S} s
nodes:
{{nodes}}
replicas: {{{{suspects: [a, b]}}}}
sources: {{{{site0: edge0, site1: edge1, site2: edge2}}}}
clients: {{{{dashboard: {{{{stream: suspects}}}}}}}}
faults: allowed
"""
BATCH_QUERY = f"""
with seen as (
    select src, port, unnest(range(
        epoch_us(time) // {SLIDE_S}000000 * {SLIDE_S}000000 - {WINDOW_S - SLIDE_S}000000,
        epoch_us(time) // {SLIDE_S}000000 * {SLIDE_S}000000 + 1, {SLIDE_S}000000)) as start_us
    from connections)
select make_timestamptz(start_us + {WINDOW_S}000000 - 1) as _stime, src,
       count(*) as connections, count(distinct port) as ports
from seen where start_us + {WINDOW_S}000000 <= $1
group by start_us, src having count(*) > 100 and count(distinct port) > 10
order by all
"""


def write_files(directory: Path) -> Path:
    """The diagram and the cluster, on ports that are free."""
    start = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    sites = "\n".join(f"  site{n}: {SITE.format(site=n, start=start)}" for n in range(3))
    (directory / "diagram.yaml").write_text(DIAGRAM.format(sites=sites))
    ports = iter(free_ports(5))
    nodes = [f'  {n}: {{address: "127.0.0.1:{next(ports)}"}}' for n in REPLICAS]
    nodes += [
        f'  edge{n}: {{address: "127.0.0.1:{next(ports)}", engine: reference}}' for n in range(3)
    ]
    path = directory / "cluster.yaml"
    path.write_text(CLUSTER.format(nodes="\n".join(nodes)))
    return path


@dataclass
class Act:
    """A part of the demo, and what the client heard meanwhile."""

    title: str
    gap_s: float
    tentative: int
    corrected: int


class Stage:
    """Tells what happens, and what the client hears."""

    def __init__(self, console: Console, trial: Testbed) -> None:
        self.trial = trial
        self.acts: list[Act] = []
        self._console = console
        self._began = time.monotonic()
        self._seen: set[tuple[str, Any]] = set()
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def say(self, what: str) -> None:
        """One line with the time."""
        seconds = int(time.monotonic() - self._began)
        self._console.print(f"[dim]{seconds // 60}:{seconds % 60:02}[/]  {what}")

    @contextmanager
    def act(self, title: str) -> Iterator[None]:
        """A part of the demo."""
        began = time.monotonic()
        yield
        trial, now = self.trial, time.monotonic()
        told = trial.tentative(began)
        upto = trial.stable_upto
        self.acts.append(
            Act(
                title,
                trial.silence(began, now),
                sum(h.change.rows for h in told),
                sum(h.change.rows for h in told if h.change.bucket <= upto),
            )
        )

    def _watch(self) -> None:
        at, done = 0, False
        while not self._ended.wait(0.1):
            heard = self.trial.heard[at:]
            at += len(heard)
            for h in heard:
                done = self._show(h.change.kind, h.change.batch, done)

    def _show(self, kind: ChangeKind, batch: pa.RecordBatch | None, tentative: bool) -> bool:
        """Print a change; whether something tentative has not been corrected yet."""
        if kind is ChangeKind.REC_DONE and tentative:
            self.say("[green]corrected[/]: what was tentative has been taken back and told again")
            return False
        for row in [] if batch is None else batch.to_pylist():
            if kind is ChangeKind.INSERTION and (kind, row["src"]) in self._seen:
                continue
            self._seen.add((kind, row["src"]))
            ends = row["_stime"] + timedelta(microseconds=1)
            colour = "bold red" if kind is ChangeKind.INSERTION else "yellow"
            self.say(
                f"  {kind.value:<9} {ends:%H:%M:%S} [{colour}]{row['src']:<14}[/]"
                f" {row['connections']:>4} connections to {row['ports']:>3} ports"
            )
        return tentative or kind is ChangeKind.TENTATIVE

    def close(self) -> None:
        """Say no more."""
        self._ended.set()


def play(stage: Stage) -> None:
    """What happens, in order."""
    trial = stage.trial
    stage.say("five nodes start: three sites, and two replicas of the query on Spark ...")
    trial.wait_until_stable()
    with stage.act("nothing"):
        stage.say("[bold]both replicas run[/]; each source is shown once when it is found")
        trial.wait(20)
    followed = trial.followed()
    with stage.act(f"kill -9 of the replica in use ({followed})"):
        stage.say(f"[bold]kill -9[/] of replica {followed}, which the client reads from")
        trial.kill(followed)
        trial.wait(15)
    stage.say(f"the client reads from {trial.followed()}; {followed} starts again from its disk")
    trial.start(followed)
    trial.until(lambda: set(trial.states().values()) == {"STABLE"}, "it did not recover", 120)
    with stage.act(f"site2 cut off for {CUT_S} s (accepted delay {ACCEPTED_S} s)"):
        stage.say(f"[bold]the network to site2 is cut[/]; results may wait {ACCEPTED_S} s for it")
        trial.cut(REPLICAS, "edge2")
        trial.wait(CUT_S)
        stage.say("[bold]the network is back[/]")
        trial.heal(REPLICAS, "edge2")
        trial.until(lambda: not trial.uncorrected, "nothing was corrected", 120)
        trial.wait(6)


def compared(trial: Testbed) -> Comparison:
    """All stable tuples, compared with DuckDB's answer over the same connections."""
    stable = [h.change for h in trial.heard if h.change.kind is ChangeKind.INSERTION]
    upto_us = trial.diagram.buckets.end(stable[-1].bucket)
    tables = []
    for source in trial.diagram.sources:
        reader = open_reader(source, trial.base)
        assert reader is not None
        chunks = [chunk.rows for chunk in reader.chunks(0)]
        tables.append(pa.Table.from_batches(chunks, source.schema.attributes))
    session = duckdb.connect()
    session.execute("set timezone = 'UTC'")
    session.register("connections", pa.concat_tables(tables))
    batch = session.sql(BATCH_QUERY, params=[upto_us]).to_arrow_table().to_pylist()
    ours = [
        {k: row[k] for k in ("_stime", "src", "connections", "ports")} for row in rows_of(stable)
    ]
    return judge(_keyed(batch), _keyed(sorted(ours, key=lambda r: (r["_stime"], r["src"]))))


def _keyed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With an id that tells a window of a source from all others."""
    return [row | {"_id": (row["_stime"], row["src"])} for row in rows]


def summary(console: Console, stage: Stage, verdict: Comparison) -> bool:
    """What happened; whether all of it is as promised."""
    table = Table(title="What happened, as the client saw it")
    table.add_column("what")
    for title in ("longest gap", "tentative", "corrected"):
        table.add_column(title, justify="right")
    for act in stage.acts:
        table.add_row(act.title, f"{act.gap_s:.1f} s", str(act.tentative), str(act.corrected))
    console.print(table)
    same = "[green]equal[/]" if verdict.equal else "[red]DIFFERENT[/]"
    console.print(
        f"{verdict.got} alerts; lost {verdict.lost}, duplicated {verdict.duplicated};"
        f" compared with DuckDB over all connections at once: {same}"
    )
    corrected = all(act.tentative == act.corrected for act in stage.acts)
    return verdict.equal and corrected


def main() -> int:
    """Run the demo."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        "[bold]Australis[/]: who scans our network? Two replicas, three sites, two faults."
    )
    with tempfile.TemporaryDirectory(prefix="australis-demo-") as scratch:
        with Testbed(write_files(Path(scratch)), "suspects") as trial:
            stage = Stage(console, trial)
            play(stage)
            stage.close()
        return 0 if summary(console, stage, compared(trial)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
