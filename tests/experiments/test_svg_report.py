"""Plots and reports: well-formed, complete, and saying what failed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

from australis.experiments.claims import Claim, Picture, Result, Source, Table
from australis.experiments.report import as_markdown, as_object, write
from australis.experiments.svg import Series, plot


class Tiny:
    name = "tiny"
    description = "Nothing much."
    reproduces = "figure 0"
    duration = "no time"

    def run(self, quick: bool, progress: object) -> Result:
        svg = plot("A <plot>", "time (s)", "rows", [Series("a & b", ((0, 1), (2, 3)))])
        return Result(
            (Claim("grows", 3, True, 2.5, Source.TABLE, "±20%"), Claim("is red", "blue", False)),
            (Table("values", ("x", "y"), ((1, 2.5), (3, None))),),
            ("None of it is real.",),
            (Picture("plot", svg),),
        )


def test_a_plot_is_well_formed_and_names_everything() -> None:
    (picture,) = Tiny().run(True, None).pictures
    root = ET.fromstring(picture.svg)
    said = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"A <plot>", "time (s)", "rows", "a & b"} <= set(said)


def test_the_object_has_the_promised_fields() -> None:
    found = as_object("tiny", Tiny().run(True, None))
    assert list(found) == ["experiment", "claims", "deviations", "tables"]
    assert list(found["claims"][0]) == ["claim", "paper", "source", "ours", "tolerance", "ok"]
    assert found["claims"][0]["source"] == "table"


def test_markdown_says_which_claim_fails() -> None:
    page = as_markdown(Tiny(), Tiny().run(True, None))
    assert "| is red |  | prose | blue |  | FAILS |" in page


def test_files_are_written(tmp_path: Path) -> None:
    files = write(Tiny(), Tiny().run(True, None), tmp_path / "deep" / "er")
    assert [f.name for f in files] == ["tiny.json", "tiny.md", "tiny-plot.svg"]
    assert json.loads(files[0].read_text())["experiment"] == "tiny"
