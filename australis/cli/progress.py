"""What a long run shows: rate, delay and position; nothing when not on a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from australis.streams.buckets import END_OF_STREAM_US


class Progress:
    """A live table on standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True)
        self._on = self._console.is_terminal and not quiet
        self._live = Live(
            console=self._console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._rates: dict[str, tuple[float, int, float]] = {}

    def __enter__(self) -> Progress:
        if self._on:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._on:
            self._live.stop()

    def step(self, what: str) -> None:
        """Say what is being done now."""
        if self._on:
            self._live.update(Text(f"{what} ..."), refresh=True)

    def show(self, running: Any) -> None:
        """Show where every stream is."""
        if not self._on:
            return
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading, side in (
            ("stream", "left"),
            ("tuples", "right"),
            ("per s", "right"),
            ("up to", "left"),
            ("behind", "right"),
        ):
            table.add_column(heading, justify=side)  # type: ignore[arg-type]
        logs = running.datapath.logs
        newest = max(
            (log.boundary_us for log in logs.values() if log.boundary_us < END_OF_STREAM_US),
            default=0,
        )
        for name, log in logs.items():
            proxy = running.sources.get(name)
            rows = proxy.stats.rows if proxy is not None else log.appended_rows
            table.add_row(
                name,
                f"{rows:,}",
                f"{self._rate(name, rows):,.0f}",
                _position(log.boundary_us),
                _behind(log.boundary_us, newest),
            )
        self._live.update(table)

    def _rate(self, name: str, rows: int) -> float:
        now = time.monotonic()
        at, before, rate = self._rates.get(name, (now, rows, 0.0))
        if now - at < 1.0:
            self._rates.setdefault(name, (at, before, rate))
            return rate
        rate = (rows - before) / (now - at)
        self._rates[name] = (now, rows, rate)
        return rate


def _position(boundary_us: int) -> str:
    if boundary_us >= END_OF_STREAM_US:
        return "complete"
    if boundary_us == 0:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(boundary_us / 1e6))


def _behind(boundary_us: int, newest_us: int) -> str:
    if boundary_us >= END_OF_STREAM_US or boundary_us == 0:
        return ""
    return f"{(newest_us - boundary_us) / 1e6:.1f} s"
