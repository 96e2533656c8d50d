"""`check`, `draw` and `convert`: looking at a diagram without running it."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import click

from australis.diagram.draw import draw_svg, draw_text
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.diagram.python import to_python
from australis.diagram.text import dump
from australis.kernel.errors import UserError
from australis.live.load import load

diagram_file = click.argument("file", type=click.Path(path_type=Path))


@click.command()
@diagram_file
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--no-types", is_flag=True, help="Leave out what needs Spark: types and streaming.")
def check(file: Path, as_json: bool, no_types: bool) -> None:
    """Find the mistakes in a diagram before anything runs.

    Names, cycles, durations and determinism are checked at once; then Spark's
    analyser looks at every expression and says the schema of every stream.
    """
    diagram = load(file)
    fragments = cut(diagram)
    _check_options(diagram, file)
    schemas = {} if no_types else _schemas(diagram, file)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "diagram": diagram.name,
                    "ok": True,
                    "streams": {name: str(schema) for name, schema in schemas.items()},
                    "results": list(diagram.results),
                    "fragments": {f.name: list(f.operators) for f in fragments},
                }
            )
        )
        return
    click.echo(
        f"{file}: ok ({len(diagram.sources)} sources, {len(diagram.operators)} operators,"
        f" {len(fragments)} fragment{'s' if len(fragments) != 1 else ''},"
        f" results: {', '.join(diagram.results)})"
    )
    width = max((len(name) for name in schemas), default=0)
    for name, schema in schemas.items():
        click.echo(f"  {name:<{width}}  {schema}")


def _check_options(diagram: Diagram, file: Path) -> None:
    from australis.live.sinks import check_options as check_sink
    from australis.live.sources import check_options as check_source

    for source in diagram.sources:
        check_source(source, file.parent)
    for sink in diagram.sinks:
        check_sink(sink)


def _schemas(diagram: Diagram, file: Path) -> dict[str, object]:
    from australis.spark.analyse import check_streaming, stream_schemas
    from australis.spark.session import open_session

    if sys.stderr.isatty():
        click.echo("starting Spark to check types ...", err=True)
    with tempfile.TemporaryDirectory() as scratch:
        spark = open_session("local[1]", log=Path(scratch) / "spark.log")
        try:
            schemas = stream_schemas(spark, diagram, file.parent)
            for fragment in cut(diagram):
                for plan in fragment.plans:
                    check_streaming(spark, plan, schemas, file.parent)
        finally:
            spark.stop()
    return dict(schemas)


@click.command()
@diagram_file
@click.option("--svg", is_flag=True, help="Draw as SVG instead of text.")
@click.option("--fragments", "show_fragments", is_flag=True, help="Show where it is cut.")
@click.option("--out", type=click.Path(path_type=Path), help="Write to a file (.svg draws SVG).")
@click.option("--width", default=100, show_default=True, help="Columns for the text drawing.")
def draw(file: Path, svg: bool, show_fragments: bool, out: Path | None, width: int) -> None:
    """Draw a diagram, as text or SVG."""
    diagram = load(file)
    homes = None
    if show_fragments:
        homes = {operator: f.name for f in cut(diagram) for operator in f.operators}
    if svg or (out is not None and out.suffix == ".svg"):
        drawing = draw_svg(diagram, fragments=homes)
    else:
        drawing = draw_text(diagram, width=width, fragments=homes)
    if out is None:
        click.echo(drawing)
        return
    try:
        out.write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", name=str(out)) from None


@click.command()
@diagram_file
@click.option("--to", type=click.Choice(["yaml", "python"]), help="The other form by default.")
def convert(file: Path, to: str | None) -> None:
    """Write a YAML diagram as Python, or a Python one as YAML."""
    diagram = load(file)
    target = to or ("yaml" if file.suffix == ".py" else "python")
    click.echo(dump(diagram) if target == "yaml" else to_python(diagram), nl=False)
