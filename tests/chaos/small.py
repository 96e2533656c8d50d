"""The diagram of small clusters whose sources give rows by themselves."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

DIAGRAM = """
diagram: small
bucket: 100 ms
sources:
  s1: {{generate: connections, site: 0, rate: 40, speed: 1, seed: 7, start: "{start}"}}
  s2: {{generate: connections, site: 1, rate: 40, speed: 1, seed: 7, start: "{start}"}}
operators:
  merged: {{union: [s1, s2]}}
  counts:
    aggregate: merged
    window: 500 ms
    by: [protocol]
    compute: {{n: count(*)}}
"""


def write_diagram(directory: Path) -> None:
    """Its file; rows come from now on."""
    start = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    (directory / "diagram.yaml").write_text(DIAGRAM.format(start=start))
