"""Whatever becomes of a file, reading it ends well or with one sentence that says where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.deployment import cluster_file
from australis.diagram import diagram_file
from australis.kernel.errors import UserError
from australis.protocols.contracts import federation_file
from australis.runtime.files import read_text
from australis.scenarios import scenario_file
from australis.sim.ants import placement_file
from australis.sim.elasticity import elasticity_file
from australis.sim.hotspots import peers_file

Load = Callable[[str, str], object]
EXAMPLES = Path(__file__).parents[2] / "examples"
READERS: dict[str, tuple[Load, str]] = {
    "cluster": (cluster_file.load, "cluster.yaml"),
    "diagram": (diagram_file.load, "network_monitoring.yaml"),
    "nexmark": (diagram_file.load, "nexmark/q4.yaml"),
    "federation": (federation_file.load, "federation.yaml"),
    "placement": (placement_file.load, "placement.yaml"),
    "elasticity": (elasticity_file.load, "elasticity.yaml"),
    "peers": (peers_file.load, "peers.yaml"),
    "scenario": (scenario_file.read, "scenarios/several_at_once.yaml"),
}
readers = pytest.mark.parametrize(("load", "example"), READERS.values(), ids=READERS)

HOSTILE = [
    *("", "5", "-1", "0", "1e308", ".inf", ".nan", "9" * 400, "9" * 5_000, "0x_", "1:60", "true"),
    *("~", "[]", "{}", "[[]]", "{a: {b: c}}", "'", '"', "{", "[", "]", "}", ",", ":", "- x", "? x"),
    *("|", ">", "&a", "*a", "&a [*a]", "!!python/object:os.system", "!!binary aGk=", "!!int x"),
    *("!!bool maybe", "!!set {a}", "<<: {a: b}", "%YAML 9.9", "---", "...", "#", "\t", "\ufeff"),
    *('"\\ud800"', '"\\UFFFFFFFF"', '"\\0"', '"a\\nb"', "\x07", "\x85", "\u2028", "99999999 d", "9" * 5_000 + " s"),
    *("1/0", "1/3", "a with b", "a - b", "2026-02-30", "::1:1", "a: b: c", "a > 1, b < 2", "1e999 s"),
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """A text to which something has happened, once or several times."""
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.sampled_from([0, 1, 2, 5, 20, 200])))
        match draw(st.sampled_from(["put", "value", "line", "copy", "any"])):
            case "put":
                text = text[:begin] + draw(st.sampled_from(HOSTILE)) + text[end:]
            case "value":
                colon = text.find(": ", begin)
                stop = min((i for c in ",}\n" if (i := text.find(c, colon)) > 0), default=colon)
                text = f"{text[: colon + 2]}{draw(st.sampled_from(HOSTILE))}{text[stop:]}"
            case "line":
                lines = text.splitlines() or [""]
                moved = draw(st.permutations(range(len(lines)))) if len(lines) < 9 else ()
                text = "\n".join([lines[i] for i in moved] or lines[begin % len(lines) :])
            case "copy":
                text = text[:end] + text[begin:]
            case _:
                text = text[:begin] + draw(st.text(max_size=5)) + text[end:]
    return text


def refusal(load: Load, text: str, file: str) -> str | None:
    """What is said about the text, if it is refused; any other error is a mistake of ours."""
    try:
        load(text, file)
    except UserError as refused:
        said, place = str(refused), refused.place
    else:
        return None
    assert place is not None, said
    assert place.file.startswith(str(EXAMPLES)), said
    assert said.isprintable(), said
    return said


@readers
def test_the_examples_are_good(load: Load, example: str) -> None:
    path = EXAMPLES / example
    assert refusal(load, path.read_text(), str(path)) is None


@readers
@given(data=st.data())
def test_what_has_been_mutated_is_read_or_refused_in_one_sentence(
    load: Load, example: str, data: st.DataObject
) -> None:
    path = EXAMPLES / example
    refusal(load, data.draw(mutated(path.read_text())), str(path))


ODD = {
    "empty": ("", "the file is empty"),
    "a list at the top": ("- a\n- b\n", ":1: the file should be names with settings"),
    "a number at the top": ("5", ":1: the file should be names with settings"),
    "keys that are no names": ("{[a]: b}", ":1: the file has a key that is not a name"),
    "deep flow": ("[" * 100_000, ":1: the file is nested too deeply"),
    "deep blocks": ("\n".join(" " * i + "a:" for i in range(1_500)), "nested too deeply"),
    "deep, but not too deep for the parser": ("a: " + "[" * 90 + "]" * 90, "nested too deeply"),
    "tabs": ("a:\n\tb: c\n", ":2: not YAML: a tab, where YAML indents with spaces"),
    "an alias in its anchor": ("a: &a\n  b: *a\n", "the file is nested too deeply"),
    "an object": ("a: !!python/object:os.system {}", ":1: a part of the file cannot be read: unknown"),
    "half a character": ('a: "\\ud800"', ":1: the file has an escape that is half a character"),
    "no character": ('a:\n- "\\UFFFFFFFF"', ":2: not YAML: an impossible character"),
    "too many digits": (f"a: {'9' * 5_000}", ":1: a part of the file cannot be read: '999"),
}  # fmt: skip


@readers
@pytest.mark.parametrize(("text", "said"), ODD.values(), ids=ODD)
def test_odd_files(load: Load, example: str, text: str, said: str) -> None:
    assert said in (refusal(load, text, str(EXAMPLES / example)) or "")


def test_aliases_may_not_multiply_without_end() -> None:
    more = (f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
    text = "a0: &a0 [x, x]\n" + "".join(more)
    said = refusal(peers_file.load, text, str(EXAMPLES / "peers.yaml")) or ""
    assert "the file has aliases that repeat more than 10,000 parts" in said


def test_a_file_may_not_be_of_any_size() -> None:
    said = refusal(peers_file.load, "a: b\n" * 1_000_000, str(EXAMPLES / "peers.yaml")) or ""
    assert "the file has more than 2,000,000 characters" in said


DIAGRAM = """
diagram: d
sources:
  s: {push: true, schema: a int}
operators:
  m: {map: s, select: {a: a}}
"""
LONG, HUGE = "n" * 300, "9" * 400
HUGE_DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("m: {", LONG + ": {", ":6: 'nnnnnnnnnnnnnnnnnnnn…' is a name of more than 100 characters"),
        ("diagram: d", "diagram: " + LONG, "use up to 100 letters, digits, _ and -"),
        ("diagram: d", "diagram: dé", "is not a name for a diagram"),
        ("diagram: d", f"diagram: d\nbucket: {HUGE} s", ":3: 'bucket' should be at most"),
        ("a int}", f"a int, slack: {HUGE} s}}", ":4: 's' has a setting 'slack' that should be at most"),
        ("a int}", f"a decimal({HUGE_DIGITS})}}", ":4: 's' has a setting 'schema' that is not a schema"),
        ("a int}", f"'a {'struct<b: ' * 2_000}int{'>' * 2_000}'}}", "nested deeper than 20"),
        ("m: {map", f"w: {{aggregate: s, window: {HUGE_DIGITS} tuples, compute: {{n: count(*)}}}}\n  m: {{map", ":6: 'w'"),
        ("m: {map", f"w: {{aggregate: s, window: {HUGE} s, compute: {{n: count(*)}}}}\n  m: {{map", "at most 36500 d"),
        ("m: {map", f"w: {{split: s, by: [a], into: {HUGE}}}\n  m: {{map", ":6: 'w' has a setting 'into' that should be at most"),
        ("m: {map", f"w: {{filter: s, where: {{{LONG}: a > 1}}}}\n  m: {{map", "which is not a name"),
        ("m: {map: s, select: {a: a}}", f"m: {{map: s, select: {{a: a}}}}\nfragments: {{{LONG}: [m]}}", "more than 100 characters"),
    ],
)  # fmt: skip
def test_names_and_numbers_have_limits(old: str, new: str, said: str) -> None:
    file = str(EXAMPLES / "d.yaml")
    assert refusal(diagram_file.load, DIAGRAM, file) is None
    found = refusal(diagram_file.load, DIAGRAM.replace(old, new), file) or ""
    assert said in found
    assert len(found) <= 2_000


@readers
def test_a_byte_order_mark_is_no_part_of_the_file(load: Load, example: str) -> None:
    path = EXAMPLES / example
    assert refusal(load, "\ufeff" + path.read_text(), str(path)) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a: b\nc: \xff\n", ":2: cannot be read: it is not UTF-8 text (byte 0xff)"),
        ("a: ü".encode("utf-16"), ":1: cannot be read: it is not UTF-8 text (byte 0xff)"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        read_text(path)
    assert str(caught.value) == f"{path}{said}"
