"""Two inputs as files that come twice a second; one of them can be held back."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path

KEYS = 4
STEP_S = 0.5
WINDOW_MS = 1000

Cell = tuple[int, int]
"""The end of a window in milliseconds, and a key."""


class Inputs:
    """Writes files of rows, each with a key and its time, until it is closed."""

    def __init__(self, directory: Path, rate: int) -> None:
        self.directories = (directory / "in1", directory / "in2")
        self.expected: Counter[Cell] = Counter()
        """How many rows each window has of each key, those held back included."""
        self._rows = int(rate * STEP_S)
        self._held: list[tuple[Path, Path]] = []
        self._holds = False
        self._lock = threading.Lock()
        self._end = threading.Event()
        for one in self.directories:
            one.mkdir(parents=True)
        self._thread = threading.Thread(target=self._write, name="inputs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No more rows."""
        self._end.set()
        self._thread.join()

    def cut(self) -> None:
        """Hold the second input back from now on."""
        with self._lock:
            self._holds = True

    def heal(self) -> None:
        """Let it through again, and all that was held back."""
        with self._lock:
            self._holds = False
            for made, there in self._held:
                made.rename(there)
            self._held.clear()

    def _write(self) -> None:
        number, due = 0, time.monotonic()
        while not self._end.wait(max(0.0, due - time.monotonic())):
            now_ms = time.time_ns() // 1_000_000
            for one in self.directories:
                self._write_one(one, number, now_ms)
            number, due = number + 1, due + STEP_S

    def _write_one(self, directory: Path, number: int, now_ms: int) -> None:
        """The rows of the last half second."""
        step_ms = int(STEP_S * 1000)
        rows = [
            {"k": i % KEYS, "ms": now_ms - step_ms + i * step_ms // self._rows}
            for i in range(self._rows)
        ]
        made = directory / f".{number:08d}.json"
        made.write_text("".join(json.dumps(row) + "\n" for row in rows))
        there = directory / f"{number:08d}.json"
        with self._lock:
            self.expected.update(((r["ms"] // WINDOW_MS + 1) * WINDOW_MS, r["k"]) for r in rows)
            if self._holds and directory is self.directories[1]:
                self._held.append((made, there))
            else:
                made.rename(there)
