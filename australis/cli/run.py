"""`australis run`: run a diagram until its sources end or it is stopped."""

from __future__ import annotations

import json
import sys
import time
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from australis.cli.interrupts import asked_to_stop, owns_process
from australis.cli.kinds import FileKind, expect
from australis.cli.options import Duration
from australis.kernel.errors import UserError

if TYPE_CHECKING:
    from australis.runtime.run import Running


def _settings(
    _ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> dict[str, str]:
    for setting in value:
        if "=" not in setting:
            raise UserError(f"is not KEY=VALUE: {setting!r}", name=param.opts[0])
    return dict(setting.split("=", 1) for setting in value)  # type: ignore[misc]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="Where logs and checkpoints live.  [default: .australis/DIAGRAM]",
)
@click.option("--fresh", is_flag=True, help="Forget the state of earlier runs and begin anew.")
@click.option(
    "--drop-written",
    is_flag=True,
    help="Drop results from their logs once every sink has written them, for endless runs.",
)
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    help="Spark master, for example local[2] or spark://host:7077.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address of this machine that Spark's workers can reach.",
)
@click.option("--for", "for_s", type=Duration(), help="Stop after this long, e.g. '60 s'.")
@click.option(
    "--rows-per-batch",
    type=click.IntRange(min=1),
    default=1 << 20,
    show_default=True,
    help="Largest micro-batch, in tuples.",
)
@click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_settings,
    help="Further settings for Spark.",
)
@click.option("--quiet", is_flag=True, help="No progress, only the summary.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def run(
    file: Path,
    state: Path | None,
    fresh: bool,
    drop_written: bool,
    master: str,
    host: str,
    for_s: float | None,
    rows_per_batch: int,
    conf: dict[str, str],
    quiet: bool,
    as_json: bool,
) -> None:
    """Run a diagram.

    It ends when all its sources have ended. Stop it with Ctrl-C (or kill it) and
    run the same command again: it goes on where it was, with nothing lost and
    nothing twice.

    \b
    Examples:
      australis run examples/network_monitoring.yaml
      australis run examples/network_monitoring.yaml --fresh --for '60 s' --json
    """
    from australis.cli.progress import Progress
    from australis.runtime import ending
    from australis.runtime.load import load
    from australis.runtime.run import Running

    expect(file, FileKind.DIAGRAM)
    diagram = load(file)
    root = state if state is not None else Path(".australis") / diagram.name
    progress = Progress(quiet=quiet or as_json)
    running = Running(
        diagram,
        root,
        master=master,
        base=file.parent,
        host=host,
        fresh=fresh,
        drop_written=drop_written,
        rows_per_batch=rows_per_batch,
        spark_settings=conf,
        on_step=progress.step,
    )
    began = time.monotonic()
    interrupted = False
    # Standard output is for the JSON object alone; a console sink writes to standard error.
    aside = redirect_stdout(sys.stderr) if as_json else nullcontext()
    with aside, asked_to_stop(interrupts=True), progress, running:
        try:
            running.start()
            began = time.monotonic()
            while not running.wait(0.25):
                progress.show(running)
                if for_s is not None and time.monotonic() - began > for_s:
                    break
        except KeyboardInterrupt:
            interrupted = True
            progress.step("stopping")
            if owns_process():
                ending.begin()
    summary = _summary(running, time.monotonic() - began, interrupted)
    click.echo(json.dumps(summary) if as_json else _say(summary))
    if interrupted:
        sys.exit(130)


def _summary(running: Running, seconds: float, interrupted: bool) -> dict[str, Any]:
    from australis.runtime.progress import progress_of

    sources = {
        name: {"rows": p.stats.rows, "rejected": p.stats.rejected, "late": p.stats.late}
        for name, p in running.sources.items()
    }
    rows = sum(s["rows"] for s in sources.values())
    return {
        "diagram": running.diagram.name,
        "finished": running.finished,
        "interrupted": interrupted,
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / seconds) if seconds else 0,
        "sources": sources,
        "results": {
            s: running.logs[s].appended_rows for s in running.diagram.results if s in running.logs
        },
        "streams": {name: one.as_json() for name, one in progress_of(running).items()},
        "state": str(running.state.root),
    }


def _say(summary: dict[str, Any]) -> str:
    sources = summary["sources"].values()
    rows = sum(s["rows"] for s in sources)
    how = "complete" if summary["finished"] else "stopped; run again to go on"
    lines = [
        f"{summary['diagram']}: {how}. {rows:,} tuples in {summary['seconds']:.1f} s"
        f" ({summary['rows_per_second']:,}/s)"
    ]
    lines += [f"  {name}: {count:,} tuples" for name, count in summary["results"].items()]
    for kind in ("rejected", "late"):
        for name, source in summary["sources"].items():
            if source[kind]:
                where = Path(summary["state"]) / kind / f"{name}.jsonl"
                lines.append(f"  {name}: {source[kind]:,} {kind}, see {where}")
    return "\n".join(lines)
