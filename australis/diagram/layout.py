"""The layered layout of a diagram, shared by the drawings.

Boxes lie in layers, each after all of its inputs. An arrow that passes a layer goes through a
*bend* there, so that it never runs across a box. Within a layer boxes are ordered by the barycentre
of their neighbours, which leaves few crossings, and placed as near to them as the gaps allow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

from australis.diagram.describe import details, summary
from australis.diagram.model import Diagram, Operator, Part, Sink, Source

SWEEPS = 12


@dataclass(frozen=True)
class Box:
    """One box of a drawing: a source, an operator, a sink or an unread result."""

    key: str
    name: str
    kind: str
    role: str
    """`source`, `operator`, `sink` or `output`."""
    line: str
    title: str
    fragment: str | None = None


@dataclass(frozen=True)
class Arrow:
    """A stream from one box to another."""

    start: str
    end: str
    stream: str
    branch: str
    """The part of the stream's name that its operator does not have."""
    port: str
    """The side of a join it enters: `left`, `right` or both."""


@dataclass
class Layout:
    """Boxes and bends in layers, and the steps of the arrows from layer to layer."""

    boxes: dict[str, Box]
    arrows: list[Arrow]
    layers: list[list[str]] = field(default_factory=list)
    paths: dict[Arrow, list[str]] = field(default_factory=dict)
    """For each arrow the boxes and bends it goes through, one a layer."""

    def steps(self) -> list[tuple[str, str]]:
        """Every pair of neighbours, one in each of two adjacent layers."""
        found = {pair: None for p in self.paths.values() for pair in pairwise(p)}
        return list(found)


def layered(diagram: Diagram, fragments: Mapping[str, str] | None = None) -> Layout:
    """Lay a diagram out in layers."""
    boxes = _boxes(diagram, fragments or {})
    layout = Layout({box.key: box for box in boxes}, _arrows(diagram))
    depth = _depths(layout)
    layout.layers = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for key in layout.boxes:
        layout.layers[depth[key]].append(key)
    for arrow in layout.arrows:
        layout.paths[arrow] = _path(layout, arrow, depth)
    _order(layout)
    return layout


def _boxes(diagram: Diagram, fragments: Mapping[str, str]) -> list[Box]:
    found = [_box(part, "source") for part in diagram.sources]
    found += [_box(part, "operator", fragments.get(part.name)) for part in diagram.operators]
    found += [_box(part, "sink") for part in diagram.sinks]
    found += [
        Box(f"output:{stream}", stream, "output", "output", "read by name", stream)
        for stream in _loose_results(diagram)
    ]
    return found


def _box(part: Part, role: str, fragment: str | None = None) -> Box:
    kind = part.kind if isinstance(part, Source | Sink | Operator) else role
    title = "\n".join([f"{part.name} ({kind} {role})".replace(" operator", ""), *details(part)])
    return Box(f"{role}:{part.name}", part.name, kind, role, summary(part), title, fragment)


def _loose_results(diagram: Diagram) -> list[str]:
    taken = {sink.stream for sink in diagram.sinks}
    return [s for s in diagram.results if s not in taken and s in diagram.producers]


def _arrows(diagram: Diagram) -> list[Arrow]:
    found = []
    for operator in diagram.operators:
        for stream in dict.fromkeys(operator.inputs):
            sides = zip(operator.takes.sides, operator.inputs, strict=False)
            ports = [side for side, read in sides if read == stream]
            found.append(_arrow(diagram, stream, f"operator:{operator.name}", ", ".join(ports)))
    found += [_arrow(diagram, sink.stream, f"sink:{sink.name}") for sink in diagram.sinks]
    found += [_arrow(diagram, s, f"output:{s}") for s in _loose_results(diagram)]
    return found


def _arrow(diagram: Diagram, stream: str, end: str, port: str = "") -> Arrow:
    producer = diagram.producers[stream]
    role = "source" if isinstance(producer, Source) else "operator"
    branch = "" if stream == producer.name else stream.removeprefix(producer.name + ".")
    return Arrow(f"{role}:{producer.name}", end, stream, branch, port)


def _depths(layout: Layout) -> dict[str, int]:
    reads: dict[str, list[str]] = {key: [] for key in layout.boxes}
    read_by: dict[str, list[str]] = {key: [] for key in layout.boxes}
    for arrow in layout.arrows:
        reads[arrow.end].append(arrow.start)
        read_by[arrow.start].append(arrow.end)
    depth: dict[str, int] = {}

    def visit(key: str) -> int:
        if key not in depth:
            depth[key] = 1 + max((visit(other) for other in reads[key]), default=-1)
        return depth[key]

    for key in layout.boxes:
        visit(key)
    for key, readers in read_by.items():
        if not reads[key] and readers:
            # A source is placed just before its first reader, not at the far end.
            depth[key] = min(depth[reader] for reader in readers) - 1
    return depth


def _path(layout: Layout, arrow: Arrow, depth: Mapping[str, int]) -> list[str]:
    path = [arrow.start]
    for layer in range(depth[arrow.start] + 1, depth[arrow.end]):
        # Arrows of one stream share their bends: one line that branches late.
        bend = f"bend:{layer}:{arrow.stream}"
        if bend not in layout.layers[layer]:
            layout.layers[layer].append(bend)
        path.append(bend)
    return [*path, arrow.end]


def neighbours(layout: Layout) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """For each box and bend, those it is joined to in the layer before and in the next."""
    before: dict[str, list[str]] = {key: [] for layer in layout.layers for key in layer}
    after: dict[str, list[str]] = {key: [] for layer in layout.layers for key in layer}
    for upper, lower in layout.steps():
        before[lower].append(upper)
        after[upper].append(lower)
    return before, after


def _order(layout: Layout) -> None:
    before, after = neighbours(layout)
    best, fewest = [list(layer) for layer in layout.layers], _crossings(layout)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = before if down else after
        for layer in layout.layers if down else reversed(layout.layers):
            _sort_by_barycentre(layout, layer, near)
        crossings = _crossings(layout)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layout.layers], crossings
    layout.layers = best


def _sort_by_barycentre(layout: Layout, layer: list[str], near: dict[str, list[str]]) -> None:
    place = {key: at for other in layout.layers for at, key in enumerate(other)}
    middle = {k: fmean(place[o] for o in near[k]) if near[k] else place[k] for k in layer}
    layer.sort(key=lambda key: middle[key])


def _crossings(layout: Layout) -> int:
    place = {key: (i, at) for i, layer in enumerate(layout.layers) for at, key in enumerate(layer)}
    steps: dict[int, list[tuple[int, int]]] = {}
    for upper, lower in layout.steps():
        steps.setdefault(place[upper][0], []).append((place[upper][1], place[lower][1]))
    return sum(
        (a[0] - b[0]) * (a[1] - b[1]) < 0
        for pairs in steps.values()
        for i, a in enumerate(pairs)
        for b in pairs[:i]
    )


def place(layout: Layout, extent: Callable[[str], float], gap: float) -> dict[str, float]:
    """The centre of each box and bend along its layer, from zero, none closer than the gap."""
    before, after = neighbours(layout)
    centre: dict[str, float] = {}
    for layer in layout.layers:
        spread = _spread(layer, [0.0] * len(layer), extent, gap)
        centre.update(zip(layer, spread, strict=True))
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = before if down else after
        for layer in layout.layers if down else reversed(layout.layers):
            wanted = [fmean(centre[o] for o in near[k]) if near[k] else centre[k] for k in layer]
            centre.update(zip(layer, _spread(layer, wanted, extent, gap), strict=True))
    low = min((centre[key] - extent(key) / 2 for key in centre), default=0.0)
    return {key: at - low for key, at in centre.items()}


def _spread(
    layer: Sequence[str], wanted: Sequence[float], extent: Callable[[str], float], gap: float
) -> list[float]:
    """The places nearest to the wanted ones that keep order and gaps (isotonic regression)."""
    offsets = [0.0]
    for one, two in pairwise(layer):
        offsets.append(offsets[-1] + (extent(one) + extent(two)) / 2 + gap)
    pools: list[list[float]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        pools.append([want - offset])
        while len(pools) > 1 and fmean(pools[-2]) > fmean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    level = [fmean(pool) for pool in pools for _ in pool]
    return [at + offset for at, offset in zip(level, offsets, strict=False)]
