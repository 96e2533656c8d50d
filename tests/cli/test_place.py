"""`australis place` and `australis sim ants`: what they print and exit with."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from australis.cli.main import cli
from australis.kernel.errors import UserError

pytestmark = pytest.mark.sim

EXAMPLE = Path(__file__).parents[2] / "examples" / "placement.yaml"


def place(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["place", *arguments])


def ants(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sim", "ants", *arguments])


def test_the_example_as_tables() -> None:
    ran = place(str(EXAMPLE), "--beside", "--for", "20 s")
    assert ran.exit_code == 0, ran.output
    assert "alarms" in ran.stdout
    assert "best known" in ran.stdout
    assert "centre.a" in ran.stdout


def test_the_example_as_json_and_svg(tmp_path: Path) -> None:
    drawing = tmp_path / "placement.svg"
    ran = place(str(EXAMPLE), "--json", "--svg", str(drawing), "--for", "20 s")
    found = json.loads(ran.stdout)
    assert found["unplaced"] == {}
    assert set(found["queries"]["alarms"]["hosts"]) == {"motion", "faces", "known"}
    assert 0 < found["queries"]["meters"]["latency_ms"] < 200
    assert all(one["load"] <= one["bound"] for one in found["servers"].values())
    root = ET.fromstring(drawing.read_text())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "north.gate" in texts
    assert any(text and text.startswith("alarms: ") for text in texts)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "rate: 25",
            "rate: -25",
            ":24: 'alarms' has a setting 'producers.camera.rate' that should be a number above",
        ),
        (
            "rate: 25",
            "rate: 2500",
            "'alarms' fits nowhere: motion alone would use 5.00 of centre.a",
        ),
        (
            "  centre.a - office: {latency: 4 ms, bandwidth: 100}\n",
            "",
            "'alarms' has no way from camera at north.gate to guard at office",
        ),
        (
            "at: office, takes: known",
            "at: attic, takes: known",
            "'alarms' has guard at attic, which",
        ),
        (
            "takes: faces",
            "takes: facts",
            "has a task known that takes facts, which is not before it",
        ),
        ("bound: 0.8", "bound: 1.8", "that should be above 0 and at most 1, not 1.8"),
        (
            "north.gate - north.rack",
            "north.gate",
            "'north.gate' should be two servers: HERE - THERE",
        ),
        ("speed: 4, bound", "spede: 4, bound", "has an unknown setting 'spede'"),
        ("latency: 8 ms", "latency: soon", "has a setting 'latency' that"),
        (
            "- centre.b: {latency: 1 ms}",
            "- centre.z: {latency: 1 ms}",
            "'centre.z' is at the end of a",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = EXAMPLE.read_text()
    assert old in text
    file = tmp_path / "placement.yaml"
    file.write_text(text.replace(old, new))
    ran = place(str(file))
    assert isinstance(ran.exception, UserError), ran.output
    assert said in str(ran.exception)
    assert str(ran.exception).startswith(f"{file}:")


def test_what_finds_no_room_is_told(tmp_path: Path) -> None:
    file = tmp_path / "placement.yaml"
    text = EXAMPLE.read_text().replace(
        "centre.b: {speed: 4, bound: 0.9}", "centre.b: {bound: 0.05}"
    )
    text = text.replace("0.8}", "0.05}").replace("{speed: 1}", "{bound: 0.05}")
    file.write_text(text.replace("0.9}", "0.28}").replace("rate: 25", "rate: 120"))
    ran = place(str(file), "--seconds", "5")
    assert ran.exit_code == 1, ran.output
    assert "alarms is not placed: no servers were found for" in ran.stdout


def test_a_drawing_that_cannot_be_written() -> None:
    ran = place(str(EXAMPLE), "--svg", "/nowhere/placement.svg", "--seconds", "0")
    assert isinstance(ran.exception, UserError)
    assert "cannot be written" in str(ran.exception)


def test_one_seed_of_ants_tells_its_story() -> None:
    ran = ants("--seed", "3")
    assert ran.exit_code == 0, ran.output
    assert "TellPlaced" in ran.stdout
    assert "all promises kept" in ran.stdout


def test_ants_that_do_it_wrong_are_caught() -> None:
    ran = ants("--seeds", "0:50", "--variant", "KeepsForEver", "--jobs", "1")
    assert ran.exit_code == 1
    assert "half" in ran.stdout
    assert "KeepsForEver" in ants("--variant", "list").stdout
