"""`check --twice`: do the user functions of a diagram depend on how micro-batches are cut?"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from australis.diagram.model import Diagram, Spark
from australis.kernel.errors import UserError
from australis.runtime.json_values import iso_time

if TYPE_CHECKING:
    from australis.runtime.regrouping import Compared, Difference

SHOWN = 3
"""The largest number of tuples shown of each side of a difference."""


def check_twice(file: Path, diagram: Diagram, base: Path, buckets: int, *, as_json: bool) -> None:
    """Run every user function twice; exits with 1 if its results differ."""
    if not any(isinstance(o, Spark) for o in diagram.operators):
        raise UserError(
            "has no operator of the kind 'spark', so there is nothing to run twice", name=str(file)
        )
    found = _compared(diagram, base, buckets)
    if as_json:
        click.echo(json.dumps(_about(file, found), default=str))
    else:
        click.echo(f"{file}: {_sentence(found)}")
    if found.difference is not None:
        sys.exit(1)


def _compared(diagram: Diagram, base: Path, buckets: int) -> Compared:
    from australis.runtime.regrouping import compare_groupings
    from australis.spark.session import open_session

    def step(text: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"{text} ...", err=True)

    with tempfile.TemporaryDirectory() as scratch:
        step("starting Spark")
        spark = open_session("local[2]", log=Path(scratch) / "spark.log")
        try:
            return compare_groupings(spark, diagram, base, Path(scratch), buckets, step)
        finally:
            spark.stop()


def _about(file: Path, found: Compared) -> dict[str, Any]:
    about: dict[str, Any] = {
        "file": str(file),
        "ok": found.difference is None,
        "functions": list(found.functions),
        "buckets": found.buckets,
        "rows": found.rows,
        "generated": list(found.generated),
    }
    one = found.difference
    if one is not None:
        about["difference"] = {
            "stream": one.stream,
            "functions": list(one.functions),
            "bucket": one.bucket,
            "ends": iso_time(one.ends_us),
            "one_by_one": one.one_by_one,
            "at_once": one.at_once,
        }
    return about


def _sentence(found: Compared) -> str:
    source = f", {', '.join(found.generated)} generated" if found.generated else ""
    over = f"{found.buckets} buckets with {found.rows:,} rows{source}"
    if found.difference is None:
        return (
            f"ok, {', '.join(found.functions)}: the same results in micro-batches of one bucket and"
            f" in one of all ({over})"
        )
    one = found.difference
    return (
        f"{', '.join(one.functions)}: the results depend on how micro-batches are cut, so two"
        f" replicas would differ; first in bucket {one.bucket} of {one.stream}, up to"
        f" {iso_time(one.ends_us)} ({over})\n"
        f"  one bucket at a time: {_rows(one, one.one_by_one)}\n"
        f"  all at once:          {_rows(one, one.at_once)}"
    )


def _rows(difference: Difference, rows: list[dict[str, Any]]) -> str:
    """The number of tuples, and the first ones that the other side does not have."""
    other = difference.at_once if rows is difference.one_by_one else difference.one_by_one
    only = [row for row in rows if row not in other]
    said = "; ".join(" ".join(f"{k}={v}" for k, v in row.items()) for row in only[:SHOWN])
    more = f" and {len(only) - SHOWN:,} more" if len(only) > SHOWN else ""
    return f"{len(rows):,} tuples{f', only here: {said}{more}' if only else ''}"
