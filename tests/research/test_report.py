"""Claims, plots and reports: verdicts, well-formed drawings, the promised fields."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from research.claims import Claim, ClaimVerdict, Picture, Result, Source, Table, own_claim
from research.plots import Plot, Series
from research.predicates import Predicate, at_least, at_most, each, exactly, fields, none, within
from research.report import as_markdown, as_object, write
from research.thesis_dpc.strip import STYLE, Strip

SERIES = Series("a & b", ((0, 1), (2, 3)))
MISS = own_claim("is red", "blue", exactly("red"), known_miss="it was painted")


class Tiny:
    name = "tiny"
    description = "Nothing much."
    reproduces = "figure 0"
    duration = "no time"

    def run(self, quick: bool, progress: object) -> Result:
        return Result(
            (Claim("grows", 3, within(2.5, relative=0.2), 2.5, Source.TABLE), MISS),
            (Table("values", ("x", "y"), ((1, 2.5), (3, None))),),
            ("None of it is real.",),
            (Picture("plot", Plot("A <plot>", "time (s)", "rows", [SERIES])),),
        )


# --- claims -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "known_miss", "verdict"),
    [
        (1, None, ClaimVerdict.HOLDS),
        (3, None, ClaimVerdict.FAILS),
        (3, "why", ClaimVerdict.KNOWN_MISS),
        (1, "why", ClaimVerdict.NO_MISS),
    ],
)
def test_a_claim_surprises_if_it_fails_unmarked_or_holds_marked(
    value: int, known_miss: str | None, verdict: ClaimVerdict
) -> None:
    claim = own_claim("is small", value, at_most(2), known_miss=known_miss)
    assert claim.verdict is verdict
    assert claim.ok == (value <= 2)
    expected = verdict in (ClaimVerdict.HOLDS, ClaimVerdict.KNOWN_MISS)
    assert Result((claim,)).ok == expected
    assert Result((claim,)).surprises == ([] if expected else [claim])


@pytest.mark.parametrize(
    ("predicate", "good", "bad", "text"),
    [
        (within(200, relative=0.05), 210, 211, "200 ±5%"),
        (within(-1, relative=0.5), -1.5, -1.6, "-1 ±50%"),
        (at_least(0.9), 0.9, 0.89, "≥ 0.9"),
        (exactly(1_600), 1_600, 1_599, "exactly 1,600"),
        (each(at_most(2)), [1, 2], [], "each ≤ 2"),
        (none("tuple"), (), (0,), "no tuple"),
        (fields(a=at_most(1), b=exactly(0)), {"a": 1, "b": 0}, {"a": 1, "b": 1}, "a: ≤ 1, b: exactly 0"),
    ],
)  # fmt: skip
def test_a_predicate_decides_by_what_it_says(
    predicate: Predicate, good: object, bad: object, text: str
) -> None:
    assert predicate(good)
    assert not predicate(bad)
    assert str(predicate) == text


# --- plots ------------------------------------------------------------------------------------------


def test_a_plot_is_well_formed_and_names_everything() -> None:
    (picture,) = Tiny().run(True, None).pictures
    root = ET.fromstring(picture.drawing.svg())
    said = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"A <plot>", "time (s)", "rows", "a & b"} <= set(said)


def test_the_same_plot_is_the_same_text() -> None:
    one, other = (Plot("A plot", "x", "y", [SERIES]).svg() for _ in range(2))
    assert one == other
    assert "<dc:date>" not in one


def test_a_strip_has_a_square_for_each_kind_and_a_legend() -> None:
    svg = Strip("what came", list(STYLE) * 40).svg()
    said = {t.text for t in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}
    assert {"what came", "stable", "missing", "control (UNDO, REC_DONE)"} <= said
    assert all(colour in svg for _, colour in STYLE.values())


# --- reports ----------------------------------------------------------------------------------------


def test_the_object_has_the_promised_fields() -> None:
    found = as_object("tiny", Tiny().run(True, None))
    assert list(found) == ["experiment", "claims", "deviations", "tables"]
    fields = ["claim", "paper", "source", "ours", "tolerance", "ok", "known_miss"]
    assert [list(claim) for claim in found["claims"]] == [fields, fields]
    assert [claim["ok"] for claim in found["claims"]] == [True, False]
    assert [claim["known_miss"] for claim in found["claims"]] == [None, "it was painted"]
    assert found["claims"][0]["source"] == "table"


def test_markdown_says_which_claim_fails_and_why() -> None:
    page = as_markdown(Tiny(), Tiny().run(True, None))
    assert "| is red |  | unavailable | blue | exactly red | known miss |" in page
    assert "- is red: it was painted." in page


def test_files_are_written(tmp_path: Path) -> None:
    files = write(Tiny(), Tiny().run(True, None), tmp_path / "deep" / "er")
    assert [f.name for f in files] == ["tiny.json", "tiny.md", "tiny-plot.svg"]
    assert json.loads(files[0].read_text())["experiment"] == "tiny"
