"""Drawings: every name is there, nothing overlaps, everything is escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.diagram.aggregates import parse_aggregate
from australis.diagram.channel import Net, nets, tracks
from australis.diagram.draw import draw_svg, draw_text
from australis.diagram.layout import layered, place
from australis.diagram.model import (
    Aggregate,
    CountWindow,
    Diagram,
    Filter,
    Join,
    Map,
    Operator,
    Sink,
    Source,
    Split,
    TimeWindow,
    Union,
)
from australis.diagram.outlines import Rect
from australis.streams.schema import parse_schema

SECOND = 1_000_000
SVG = "{http://www.w3.org/2000/svg}"
SCHEMA = parse_schema("src string, port int")


def source(name: str) -> Source:
    return Source(name=name, kind="csv", schema=SCHEMA)


def per_source(name: str, call: str) -> Aggregate:
    return Aggregate(
        name=name,
        inputs=("connections",),
        window=TimeWindow(60 * SECOND, 10 * SECOND),
        by=(("src", "src"),),
        compute=(("n", parse_aggregate(call)),),
    )


def plain_filter(name: str, stream: str, predicate: str) -> Filter:
    return Filter(name=name, inputs=(stream,), where=(("", predicate),))


NETWORK = Diagram(
    "network",
    tuple(source(f"site{i}") for i in range(3)),
    (
        Union(name="connections", inputs=("site0", "site1", "site2")),
        per_source("per_source", "count(*)"),
        per_source("ports", "approx_count_distinct(port)"),
        plain_filter("active", "per_source", "n > 100"),
        plain_filter("scanning", "ports", "n > 10"),
        Join(
            name="suspects",
            inputs=("active", "scanning"),
            within_us=10 * SECOND,
            on="left.src = right.src",
        ),
    ),
    (Sink(name="alerts", kind="jsonl", stream="suspects", options={"path": "alerts.jsonl"}),),
)

SORTING = Diagram(
    "sorting",
    (source("hits"),),
    (
        Filter(name="by_port", inputs=("hits",), where=(("low", "port < 1024"),), rest="high"),
        Map(name="names", inputs=("by_port.low",), select=(("src", "src"), ("p", "port + 1"))),
    ),
    (Sink(name="rest", kind="jsonl", stream="by_port.high"),),
    outputs=("names",),
)

GOLDEN = """\
sorting

            ╭──────────────────╮
            │ hits  csv source │
            │ src, port        │
            ╰─────────┬────────╯
                      ▼
   ┌─[front]────────────────────────────┐
   │ by_port                     filter │
   │ low: port < 1024; high: everything │
   │ else                               │
   └───────────┬────────────┬───────────┘
               │ low        │ high
               ▼            ▼
┌─[back]────────────┐   ╔══════════════════╗
│ names         map │   ║ rest  jsonl sink ║
│ src, p = port + 1 │   ║ by_port.high     ║
└─────────┬─────────┘   ╚══════════════════╝
          ▼
  ╔═══════════════╗
  ║ names  output ║
  ║ read by name  ║
  ╚═══════════════╝
"""


def test_a_small_diagram_as_text() -> None:
    assert draw_text(SORTING, {"by_port": "front", "names": "back"}) == GOLDEN


def all_names(diagram: Diagram) -> list[str]:
    return [part.name for part in (*diagram.sources, *diagram.operators, *diagram.sinks)]


@pytest.mark.parametrize("width", [100, 40])
def test_text_names_everything(width: int) -> None:
    text = draw_text(NETWORK, width=width)
    assert all(name in text for name in all_names(NETWORK))
    assert all(len(line) <= width for line in text.splitlines())
    assert ("┌" in text) == (width == 100), "boxes where they fit, a list where they do not"
    assert "count(*) per src, 60 s every 10 s" in text
    assert "alerts.jsonl" in text


def test_text_shows_how_parts_differ() -> None:
    text = draw_text(NETWORK)
    assert text.count("╭") == 3, "sources are round"
    assert text.count("╔") == 1, "sinks are double"
    assert "▼ left" in text
    assert "▼ right" in text


def test_the_list_says_what_reads_what() -> None:
    text = draw_text(NETWORK, {"ports": "f2"}, width=40)
    assert "  connections  union\n    ← site0, site1, site2\n" in text
    assert "ports  aggregate [f2]" in text


def test_count_windows_read_well() -> None:
    tumbling = Aggregate(
        name="a",
        inputs=("hits",),
        window=CountWindow(5, 5),
        compute=(("n", parse_aggregate("sum(port)")),),
    )
    assert "sum(port), every 5 tuples" in draw_text(Diagram("d", (source("hits"),), (tumbling,)))


# --- SVG ---------------------------------------------------------------------


def svg_boxes(root: ET.Element) -> dict[str, Rect]:
    found = {}
    for rect in root.iter(f"{SVG}rect"):
        if name := rect.get("data-name"):
            sides = (float(rect.get(side, "nan")) for side in ("x", "y", "width", "height"))
            found[name] = Rect(*sides)
    return found


def texts(root: ET.Element, tag: str = "text") -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}{tag}")]


def test_svg_is_well_formed_and_whole() -> None:
    root = ET.fromstring(draw_svg(NETWORK))
    assert root.tag == f"{SVG}svg"
    assert set(svg_boxes(root)) == set(all_names(NETWORK)) <= set(texts(root))
    assert len([p for p in root.iter(f"{SVG}path") if p.get("class") == "e"]) == 10
    assert {"left", "right"} <= set(texts(root))


def test_svg_needs_nothing_from_outside() -> None:
    drawn = draw_svg(NETWORK, {"ports": "f"})
    for foreign in ("<script", "href", "@import", "<image", "url(http"):
        assert foreign not in drawn
    assert drawn.count("http") == 1, "the namespace alone"
    assert '<rect width="100%" height="100%" fill="#ffffff"/>' in drawn


def test_every_box_has_its_expressions_as_a_title() -> None:
    titles = texts(ET.fromstring(draw_svg(NETWORK)), "title")
    assert "suspects (join)\non left.src = right.src\nwithin 10 s" in titles
    assert "ports (aggregate)\nwindow 60 s every 10 s\nby src\nn = approx_count_distinct(port)" in (
        titles
    )
    assert any(title.startswith("site0 (csv source)\nsrc string, port int") for title in titles)


def test_streams_are_named_where_the_operator_is_not_enough() -> None:
    names = texts(ET.fromstring(draw_svg(SORTING)))
    assert "by_port.low" in names
    assert "by_port.high" in names
    assert "hits" in names


def test_text_is_escaped_and_passwords_stay_out() -> None:
    odd = Diagram(
        'a <b> & "c"',
        (Source(name="s<1>", kind="db", schema=SCHEMA, options={"password": "hunter2"}),),
        (plain_filter("f&", "s<1>", "port < 3 && src <> '\x00]]>'"),),
    )
    drawn = draw_svg(odd)
    root = ET.fromstring(drawn)
    assert 'a <b> & "c"' in texts(root)
    assert "f&" in texts(root)
    assert "hunter2" not in drawn + draw_text(odd)


def dashed(root: ET.Element) -> list[tuple[str, Rect]]:
    found = []
    for group in root.iter(f"{SVG}g"):
        if group.get("class") == "fragment":
            rect, label = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
            assert rect is not None
            assert label is not None
            assert rect.get("stroke-dasharray")
            sides = (float(rect.get(side, "nan")) for side in ("x", "y", "width", "height"))
            found.append((label.text or "", Rect(*sides)))
    return found


FRAGMENTS = st.fixed_dictionaries({o.name: st.sampled_from("abc") for o in NETWORK.operators})


@given(FRAGMENTS)
@settings(max_examples=40)
def test_fragments_hold_their_boxes_and_no_other(fragments: dict[str, str]) -> None:
    root = ET.fromstring(draw_svg(NETWORK, fragments))
    outlines = dashed(root)
    for name, box in svg_boxes(root).items():
        around = {label for label, rect in outlines if rect.overlaps(box)}
        assert around == ({fragments[name]} if name in fragments else set())


# --- any diagram -------------------------------------------------------------


@st.composite
def diagrams(draw: st.DrawFn) -> Diagram:
    streams = [f"in{i}" for i in range(draw(st.integers(1, 3)))]
    sources = tuple(source(name) for name in streams)
    operators: list[Operator] = []
    for i in range(draw(st.integers(0, 9))):
        name = f"op{i}"
        kind = draw(st.sampled_from(["map", "union", "join", "split", "filter"]))
        inputs = tuple(draw(st.sampled_from(streams)) for _ in range(2))
        made = {
            "map": Map(name=name, inputs=inputs[:1], select=(("src", "src"),)),
            "union": Union(name=name, inputs=tuple(dict.fromkeys(inputs))),
            "join": Join(name=name, inputs=inputs, within_us=SECOND, on="left.src = right.src"),
            "split": Split(name=name, inputs=inputs[:1], by=("src",), into=3),
            "filter": plain_filter(name, inputs[0], "port > 1"),
        }[kind]
        operators.append(made)
        streams += made.outputs
    sunk = draw(st.lists(st.sampled_from(streams), max_size=3, unique=True))
    sinks = tuple(Sink(name=f"sink{i}", kind="jsonl", stream=s) for i, s in enumerate(sunk))
    return Diagram("any", sources, tuple(operators), sinks)


@given(diagrams())
@settings(max_examples=60, deadline=None)
def test_no_two_boxes_overlap(diagram: Diagram) -> None:
    root = ET.fromstring(draw_svg(diagram))
    boxes = list(svg_boxes(root).values())
    assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    assert all(b.left >= 0 and b.right <= width and b.bottom <= height for b in boxes)


@given(diagrams())
@settings(max_examples=60, deadline=None)
def test_arrows_lead_down_and_boxes_are_whole(diagram: Diagram) -> None:
    text = draw_text(diagram, width=10_000)
    for left, right in ("┌┐", "└┘"):
        assert text.count(left) >= len(diagram.operators) <= text.count(right)
    for name in all_names(diagram):
        assert f"│ {name}  " in text or f"║ {name}  " in text, "no wire cut into a box"
    layout = layered(diagram)
    depth = {key: i for i, layer in enumerate(layout.layers) for key in layer}
    for path in layout.paths.values():
        assert [depth[key] for key in path] == list(range(depth[path[0]], depth[path[-1]] + 1))


@given(diagrams())
@settings(max_examples=60, deadline=None)
def test_neighbours_keep_their_distance(diagram: Diagram) -> None:
    layout = layered(diagram)
    centre = place(layout, lambda key: 10.0, 4.0)
    for layer in layout.layers:
        for one, two in combinations(layer, 2):
            assert centre[two] - centre[one] > 13.99
    assert min(centre.values()) == pytest.approx(5.0)


def test_nets_join_only_what_is_joined() -> None:
    assert nets([(1, 9), (5, 9)]) == [Net((1, 5), (9,))]
    assert nets([(1, 8), (1, 9), (5, 9)]) == [Net((1,), (8, 9)), Net((5,), (9,))]


def test_tracks_keep_nets_apart() -> None:
    crossing = [Net((1,), (9,)), Net((9,), (20,)), Net((30,), (40,)), Net((50,), (50,))]
    found = tracks(crossing)
    assert found[crossing[1]] < found[crossing[0]], "column 9 is free again before it is entered"
    assert found[crossing[2]] == 0, "far apart nets share a track"
    assert crossing[3] not in found


def test_few_crossings() -> None:
    """Readers in the opposite order of their sources are turned round."""
    sources = tuple(source(f"s{i}") for i in range(4))
    maps = tuple(
        Map(name=f"m{i}", inputs=(f"s{3 - i}",), select=(("src", "src"),)) for i in range(4)
    )
    layout = layered(Diagram("turned", sources, maps))
    first, second = layout.layers[0], layout.layers[1]
    assert [key[-1] for key in first] == [str(3 - int(key[-1])) for key in second]


def test_an_empty_diagram_is_drawn_too() -> None:
    empty = Diagram("empty", (), ())
    assert draw_text(empty).startswith("empty")
    ET.fromstring(draw_svg(empty))
