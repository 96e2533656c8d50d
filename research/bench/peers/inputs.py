"""Inputs as files written several times a second; the last input can be held back."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path

KEYS = 4
KEEP_S = 120.0
"""The time for which files are kept, so that a directory does not grow without end."""

Cell = tuple[int, int]
"""The end of a window in milliseconds, and a key."""


class Inputs:
    """Writes files of rows, each with a key and its time, until it is closed."""

    def __init__(self, *directories: Path, rate: int, window_ms: int, step_s: float = 0.5) -> None:
        self.directories = directories
        self._window_ms = window_ms
        self._step_s = step_s
        self.expected: Counter[Cell] = Counter()
        """The number of rows of each window and key, with those held back."""
        self._rows = int(rate * step_s)
        self._held: list[tuple[Path, Path]] = []
        self._holds = False
        self._lock = threading.Lock()
        self._end = threading.Event()
        for one in self.directories:
            one.mkdir(parents=True)
        self._thread = threading.Thread(target=self._write, name="inputs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop writing rows."""
        self._end.set()
        self._thread.join()

    def cut(self) -> None:
        """Hold the last input back from now on."""
        with self._lock:
            self._holds = True

    def heal(self) -> None:
        """Release the last input, with all rows held back as one file, and so in order."""
        with self._lock:
            self._holds = False
            if self._held:
                whole = self.directories[-1] / ".held"
                whole.write_text("".join(made.read_text() for made, _ in self._held))
                for made, _ in self._held:
                    made.unlink()
                whole.rename(self._held[-1][1])
                self._held.clear()

    def expected_now(self) -> dict[Cell, int]:
        """The rows written by now, with those held back."""
        with self._lock:
            return dict(self.expected)

    def _write(self) -> None:
        number, due = 0, time.monotonic()
        while not self._end.wait(max(0.0, due - time.monotonic())):
            now_ms = time.time_ns() // 1_000_000
            for one in self.directories:
                self._write_one(one, number, now_ms)
                old = one / f"{number - int(KEEP_S / self._step_s):08d}.json"
                old.unlink(missing_ok=True)
            number, due = number + 1, due + self._step_s

    def _write_one(self, directory: Path, number: int, now_ms: int) -> None:
        """The rows since the last step."""
        step_ms, window = int(self._step_s * 1000), self._window_ms
        rows = [
            {"k": i % KEYS, "ms": now_ms - step_ms + i * step_ms // self._rows}
            for i in range(self._rows)
        ]
        made = directory / f".{number:08d}.json"
        made.write_text("".join(json.dumps(row) + "\n" for row in rows))
        there = directory / f"{number:08d}.json"
        with self._lock:
            self.expected.update(((r["ms"] // window + 1) * window, r["k"]) for r in rows)
            if self._holds and directory is self.directories[-1]:
                self._held.append((made, there))
            else:
                made.rename(there)
