"""`check`, `draw` and `convert`: looking at a diagram without running it."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from australis.cli.files import write_text
from australis.cli.kinds import SUMMARIES, FileKind, expect, kind_of

if TYPE_CHECKING:
    from australis.deployment.cluster import Cluster
    from australis.diagram.model import Diagram

diagram_file = click.argument("file", type=click.Path(path_type=Path))


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--no-types", is_flag=True, help="Leave out what needs Spark: types and streaming.")
@click.option("--twice", is_flag=True, help="Run user functions twice, with other micro-batches.")
@click.option(
    "--buckets",
    type=click.IntRange(min=2),
    default=40,
    show_default=True,
    help="How many buckets of tuples they are run over with --twice.",
)
def check(file: Path, as_json: bool, no_types: bool, twice: bool, buckets: int) -> None:
    """Find the mistakes in a file before anything runs.

    FILE is a diagram, a cluster (its diagram is checked with it), a scenario, a federation, or a
    file of peers, of a placement or of elasticity; its sections tell which. Names, cycles,
    durations and determinism of a diagram are checked at once; then Spark's analyser, or the
    reference engine where all nodes of a cluster have it, looks at every expression and says the
    schema of every stream.

    With --twice the functions of `spark` operators run over the first buckets of the diagram's
    sources (of sources that wait for rows, over generated ones): in micro-batches of one bucket,
    then in one of all. The first difference is shown, and the exit code is 1.

    \b
    Examples:
      australis check examples/network_monitoring.yaml
      australis check examples/cluster.yaml --no-types
      australis check mine.yaml --twice
    """
    kind = kind_of(file)
    if twice:
        from australis.cli.twice import check_twice

        diagram, base = _diagram_of(file, kind)
        check_twice(file, diagram, base, buckets, as_json=as_json)
        return
    if kind in SUMMARIES:
        summary = SUMMARIES[kind](file)
        about = {"kind": kind.value, "file": str(file), "ok": True, "name": summary.name or None}
        text = f"{file}: ok, {_article(kind)} {kind.value} file ({summary})"
        click.echo(json.dumps(about | summary.counts) if as_json else text)
    elif kind is FileKind.CLUSTER:
        _check_cluster(file, as_json=as_json, types=not no_types)
    else:
        _check_diagram(file, as_json=as_json, types=not no_types)


def _diagram_of(file: Path, kind: FileKind) -> tuple[Diagram, Path]:
    """The diagram of a diagram or cluster file, and the directory that its paths begin at."""
    from australis.runtime.checks import check_parts
    from australis.runtime.client import load_cluster
    from australis.runtime.load import load

    if kind is FileKind.CLUSTER:
        _, diagram, base = load_cluster(file, needs_epoch=False)
    else:
        expect(file, FileKind.DIAGRAM)
        diagram, base = load(file), file.parent
    check_parts(diagram, base)
    return diagram, base


def _article(kind: FileKind) -> str:
    return "an" if kind.value[0] in "aeiou" else "a"


def _check_diagram(file: Path, *, as_json: bool, types: bool) -> None:
    from australis.runtime.checks import check_parts
    from australis.runtime.load import load

    diagram = load(file)
    check_parts(diagram, file.parent)
    schemas = _schemas(diagram, file.parent) if types else {}
    if as_json:
        click.echo(json.dumps({"kind": "diagram"} | _about(diagram, schemas)))
        return
    click.echo(f"{file}: ok ({_counts(diagram)})")
    _tell_schemas(schemas)


def _check_cluster(file: Path, *, as_json: bool, types: bool) -> None:
    from australis.runtime.checks import check_parts
    from australis.runtime.client import load_cluster

    cluster, diagram, base = load_cluster(file, needs_epoch=False)
    loopback = [node for node, place in cluster.nodes.items() if place.loopback]
    check_parts(diagram, base, [s for node in loopback for s in cluster.sources_on(node)])
    schemas = _cluster_schemas(cluster, diagram, base) if types else {}
    if as_json:
        about = {"kind": "cluster", "cluster": cluster.name, "nodes": list(cluster.nodes)}
        replicas = {fragment: list(nodes) for fragment, nodes in cluster.replicas.items()}
        click.echo(json.dumps(about | {"replicas": replicas} | _about(diagram, schemas)))
        return
    replicas_said = ", ".join(f"{f} on {' and '.join(n)}" for f, n in cluster.replicas.items())
    if not cluster.diagram_path:
        number = len(cluster.nodes)
        click.echo(f"{file}: ok, the cluster {cluster.name} ({number} nodes), without a diagram")
        return
    click.echo(
        f"{file}: ok, the cluster {cluster.name} ({len(cluster.nodes)} nodes; {replicas_said}) with"
        f" the diagram {cluster.diagram_path} ({_counts(diagram)})"
    )
    _tell_schemas(schemas)


def _about(diagram: Diagram, schemas: dict[str, object]) -> dict[str, Any]:
    from australis.diagram.fragments import cut

    return {
        "diagram": diagram.name,
        "ok": True,
        "streams": {name: str(schema) for name, schema in schemas.items()},
        "results": list(diagram.results),
        "fragments": {f.name: list(f.operators) for f in cut(diagram)},
    }


def _counts(diagram: Diagram) -> str:
    from australis.diagram.fragments import cut

    numbers = {
        "source": len(diagram.sources),
        "operator": len(diagram.operators),
        "fragment": len(cut(diagram)),
    }
    said = ", ".join(f"{n} {what}{'s' if n != 1 else ''}" for what, n in numbers.items())
    return f"{said}, results: {', '.join(diagram.results)}"


def _tell_schemas(schemas: dict[str, object]) -> None:
    width = max((len(name) for name in schemas), default=0)
    for name, schema in schemas.items():
        click.echo(f"  {name:<{width}}  {schema}")


def _cluster_schemas(cluster: Cluster, diagram: Diagram, base: Path) -> dict[str, object]:
    computing = {
        cluster.nodes[node].engine for nodes in cluster.replicas.values() for node in nodes
    }
    if "spark" in computing:
        return _schemas(diagram, base)
    from australis.diagram.fragments import cut
    from australis.runtime.node.local_replicas import reference_schemas

    return dict(reference_schemas(diagram, cut(diagram)))


def _schemas(diagram: Diagram, base: Path) -> dict[str, object]:
    from australis.spark.analyse import analyse
    from australis.spark.session import open_session

    if sys.stderr.isatty():
        click.echo("starting Spark to check types ...", err=True)
    with tempfile.TemporaryDirectory() as scratch:
        spark = open_session("local[1]", log=Path(scratch) / "spark.log")
        try:
            return dict(analyse(spark, diagram, base))
        finally:
            spark.stop()


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--svg", metavar="FILE", is_flag=False, flag_value="-",
    help="Draw as SVG into this file; - is standard output.",
)  # fmt: skip
@click.option("--fragments", "show_fragments", is_flag=True, help="Show where it is cut.")
@click.option(
    "--out", metavar="FILE", type=click.Path(path_type=Path),
    help="Write the text drawing to this file instead of standard output.",
)  # fmt: skip
@click.option(
    "--width", type=click.IntRange(min=20), default=100, show_default=True,
    help="Columns for the text drawing.",
)  # fmt: skip
@click.pass_context
def draw(
    context: click.Context,
    file: Path | None,
    svg: str | None,
    show_fragments: bool,
    out: Path | None,
    width: int,
) -> None:
    """Draw a diagram, as text or SVG.

    \b
    Examples:
      australis draw examples/network_monitoring.yaml --fragments
      australis draw examples/network_monitoring.yaml --svg monitoring.svg
    """
    from australis.diagram.draw import draw_svg, draw_text
    from australis.diagram.fragments import cut
    from australis.runtime.load import load

    if file is None and svg is not None and Path(svg).suffix in (".yaml", ".yml", ".py"):
        file, svg = Path(svg), "-"  # `draw --svg DIAGRAM`, as it was written once
    if file is None:
        raise click.MissingParameter(ctx=context, param=context.command.params[0])
    expect(file, FileKind.DIAGRAM)
    diagram = load(file)
    homes = None
    if show_fragments:
        homes = {operator: f.name for f in cut(diagram) for operator in f.operators}
    if out is not None and (svg is not None or out.suffix == ".svg"):
        svg, out = str(out), None  # `--svg --out FILE` and `--out NAME.svg` mean the same
    if svg is not None:
        write_text(draw_svg(diagram, fragments=homes), svg)
    else:
        text = draw_text(diagram, width=width, fragments=homes)
        write_text(text, "-" if out is None else str(out))


@click.command()
@diagram_file
@click.option("--to", type=click.Choice(["yaml", "python"]), help="The other form by default.")
@click.option(
    "--out", metavar="FILE", type=click.Path(path_type=Path),
    help="Write to this file instead of standard output.",
)  # fmt: skip
def convert(file: Path, to: str | None, out: Path | None) -> None:
    """Write a YAML diagram as Python, or a Python one as YAML.

    \b
    Examples:
      australis convert examples/network_monitoring.yaml --out monitoring.py
      australis convert monitoring.py
    """
    from australis.diagram.diagram_file import dump
    from australis.diagram.python import to_python
    from australis.runtime.load import load

    expect(file, FileKind.DIAGRAM)
    diagram = load(file)
    target = to or ("yaml" if file.suffix == ".py" else "python")
    text = dump(diagram) if target == "yaml" else to_python(diagram)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_text(text, str(out))
