"""The progress of a long run: rate, position and remaining input; silent without a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from australis.runtime.progress import StreamProgress, progress_of


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
        """Show the present step."""
        if self._on:
            self._live.update(Text(f"{what} ..."), refresh=True)

    def show(self, running: Any) -> None:
        """Show the position of every stream."""
        if not self._on:
            return
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading, side in (
            ("stream", "left"),
            ("tuples", "right"),
            ("per s", "right"),
            ("up to", "left"),
            ("still to read", "left"),
        ):
            table.add_column(heading, justify=side)  # type: ignore[arg-type]
        for name, one in progress_of(running).items():
            table.add_row(
                name,
                f"{one.tuples:,}",
                f"{self._rate(name, one.tuples):,.0f}",
                _position(one),
                _ahead(one, name in running.sources),
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


def _position(one: StreamProgress) -> str:
    if one.complete:
        return "complete"
    if one.upto_us == 0:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(one.upto_us / 1e6))


def _ahead(one: StreamProgress, is_source: bool) -> str:
    """The remaining input of a stream, if it is known."""
    if one.complete:
        return ""
    if is_source:
        return "reading" if one.share is None else f"reading, {one.share:.0%} read"
    if one.waits_for is not None:
        return f"waits for {one.waits_for} since {one.since}"
    if not one.unread_tuples:
        return ""
    return f"{one.unread_tuples:,} tuples, {span(one.behind_us)} of stream time"


def span(us: int) -> str:
    """A duration in the format of a clock.

    >>> span(12_000_000), span(3_723_000_000), span(200_000_000_000), span(400_000)
    ('00:12', '1:02:03', '2 days 7:33:20', '0.4 s')
    """
    if us < 1_000_000:
        return f"{us / 1e6:.1f} s"
    minutes, seconds = divmod(us // 1_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    clock = f"{hours}:{minutes:02}:{seconds:02}" if hours or days else f"{minutes:02}:{seconds:02}"
    return f"{days} day{'s' if days > 1 else ''} {clock}" if days else clock
