"""Writes a result as JSON, as Markdown, and as files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from research.claims import Claim, Experiment, Result, Table, Value


def as_object(name: str, result: Result) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "experiment": name,
        "claims": [_claim(c) for c in result.claims],
        "deviations": list(result.deviations),
        "tables": [
            {"title": t.title, "columns": list(t.columns), "rows": [list(r) for r in t.rows]}
            for t in result.tables
        ],
    }


def _claim(c: Claim) -> dict[str, Any]:
    return {
        "claim": c.text,
        "paper": c.paper,
        "source": c.source.value,
        "ours": c.ours,
        "tolerance": c.tolerance,
        "ok": c.ok,
        "known_miss": c.known_miss,
    }


def shown(value: Value) -> str:
    """A value, formatted for reading.

    >>> shown(12300), shown(2.8274), shown(None)
    ('12,300', '2.827', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value


def as_markdown(experiment: Experiment, result: Result) -> str:
    """The whole result as a page."""
    parts = [
        f"# {experiment.name}",
        f"{experiment.description} Reproduces {experiment.reproduces}.",
        "## Claims",
        _grid(
            ("claim", "paper", "from", "ours", "tolerance", "verdict"),
            (
                (c.text, c.paper, c.source.value, c.ours, c.tolerance, c.verdict.value)
                for c in result.claims
            ),
        ),
    ]
    misses = [c for c in result.claims if c.known_miss is not None]
    if misses:
        parts += ["## Known misses", "\n".join(f"- {c.text}: {c.known_miss}." for c in misses)]
    for table in result.tables:
        parts += [f"## {table.title}", _table(table)]
    if result.drawings:
        parts += ["## Drawing", *(f"```text\n{d}\n```" for d in result.drawings)]
    parts += [f"![{p.name}]({experiment.name}-{p.name}.svg)" for p in result.pictures]
    parts += ["## Deviations", "\n".join(f"- {d}" for d in result.deviations) or "None."]
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    return _grid(table.columns, table.rows)


def _grid(columns: Iterable[str], rows: Iterable[Iterable[Value]]) -> str:
    names = list(columns)
    lines = [names, ["---"] * len(names), *([shown(v) for v in row] for row in rows)]
    return "\n".join("| " + " | ".join(v.replace("|", "/") for v in line) + " |" for line in lines)


def write(experiment: Experiment, result: Result, folder: Path) -> list[Path]:
    """Write NAME.json, NAME.md and the plots; return the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    name = experiment.name
    texts = {
        f"{name}.json": json.dumps(as_object(name, result), indent=2) + "\n",
        f"{name}.md": as_markdown(experiment, result),
    } | {f"{name}-{p.name}.svg": p.drawing.svg() for p in result.pictures}
    for file, content in texts.items():
        (folder / file).write_text(content, encoding="utf-8")
    return [folder / file for file in texts]
