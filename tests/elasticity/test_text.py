"""Elasticity files, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from australis.elasticity.cost import Module
from australis.elasticity.generate import object_recognition
from australis.elasticity.service import Ideal, Paced, Sampled, Saturating, WithMinimum
from australis.elasticity.shared import Node
from australis.kernel.errors import UserError
from australis.sim.elasticity.elasticity_file import Incentives, load

EXAMPLE = Path(__file__).parents[2] / "examples" / "elasticity.yaml"
GOOD = """\
arrivals:
  camera: {every: 500 ms}
modules:
  camera: {takes: 100 ms, delay_price: 0.5, core_price: 0.005, most: 1}
  faces: {takes: 4 s, fastest: 12, delay_price: 0.4, core_price: 0.02, most: 16, fixed: 0.1}
  plates: {samples: {1: 2 s, 4: 600 ms}, delay_price: 0.5, core_price: 0.03, most: 8}
arcs:
  camera: {faces: 1/4, plates: 0.75}
nodes:
  rack: {cores: 16, modules: [faces, plates]}
incentives: {increment: 0.2, rounds: 30}
"""
TWO_SOURCES = """\
arrivals:
  north: {rate: 3}
  south: {every: 1 s}
modules:
  north: {takes: 100 ms, delay_price: 1, core_price: 0.01, most: 4}
  south: {takes: 200 ms, delay_price: 1, core_price: 0.01, most: 4}
  both: {takes: 300 ms, delay_price: 1, core_price: 0.01, most: 4}
arcs:
  north: {both: 1}
  south: {both: 1}
"""


def test_everything_a_file_can_say() -> None:
    plan = load(GOOD, "g.yaml")
    assert plan.apart.modules == {
        "camera": Module("camera", Paced(Ideal(0.1), 0.5), 0.5, 0.005, 1),
        "faces": Module("faces", Saturating(4.0, 12.0), 0.4, 0.02, 16, fixed=0.1),
        "plates": Module("plates", Sampled(((1.0, 2.0), (4.0, 0.6))), 0.5, 0.03, 8),
    }
    assert dict(plan.apart.graph.ratios) == {"camera": 1.0, "faces": 0.25, "plates": 0.75}
    assert plan.nodes == (Node("rack", 16, ("faces", "plates")),)
    assert plan.every_s == 0.5
    assert plan.incentives == Incentives(0.2, 30)


def test_the_example_is_the_application_of_the_paper() -> None:
    plan = load(EXAMPLE.read_text(), str(EXAMPLE))
    paper = object_recognition().arriving(0.5)
    assert plan.apart.modules == paper.modules
    assert plan.apart.graph.arcs == paper.graph.arcs
    assert plan.incentives == Incentives()


def test_a_service_time_that_grows() -> None:
    plan = load(GOOD.replace("fastest: 12", "fastest: 12, grows: true"), "g.yaml")
    assert plan.apart.modules["faces"].service == WithMinimum(4.0, 12.0)
    plan = load(GOOD.replace("fastest: 12", "fastest: 12, grows: false"), "g.yaml")
    assert plan.apart.modules["faces"].service == Saturating(4.0, 12.0)


def test_modules_of_a_node_are_no_faster_than_its_cores() -> None:
    """Of three cores faces gets one: 4 s for each of its tasks, which are a quarter of all."""
    plan = load(GOOD.replace("cores: 16", "cores: 3"), "g.yaml")
    assert plan.apart.least_pace_s == 0.5
    assert plan.game.least_pace_s == pytest.approx(1.0)
    plan = load(GOOD.replace("cores: 16", "cores: 10"), "g.yaml")
    assert plan.game.least_pace_s == 0.5


def test_several_sources_are_joined() -> None:
    plan = load(TWO_SOURCES, "t.yaml")
    assert plan.apart.graph.virtual
    assert plan.every_s == 0.25
    ratios = plan.apart.graph.ratios
    assert [ratios[name] for name in ("north", "south", "both")] == [0.75, 0.25, 1.0]
    assert plan.game.least_pace_s == 0.25
    assert plan.game.modules == plan.apart.modules


def test_one_module_needs_no_arcs() -> None:
    lines = GOOD.splitlines()
    plan = load("\n".join([*lines[:4]]), "g.yaml")
    assert plan.apart.graph.modules == ("camera",)
    assert plan.nodes == ()
    assert plan.incentives == Incentives(0.1, 50)


PROBABILITY = "should be above 0 and at most 1, not"
PRICE = "should be a number above 0 (up to 1e+12), not"
WHOLE = "should be a whole number from 1 to 100,000, not"
BAD = [
    # how tasks flow
    (
        "plates: 0.75}",
        "plates: 0.75}\n  faces: {plates: 1}\n  plates: {faces: 1}",
        "9: 'faces' is on a cycle: faces -> plates -> faces",
    ),
    ("0.75", "0.7", "8: 'camera' sends on with probabilities that sum to 0.95, not to 1"),
    ("0.75", "1.5", f"8: 'camera' has a setting 'plates' that {PROBABILITY} 1.5"),
    ("0.75", ".nan", f"8: 'camera' has a setting 'plates' that {PROBABILITY} nan"),
    ("1/4", "0", f"8: 'camera' has a setting 'faces' that {PROBABILITY} 0"),
    ("1/4", "5/4", f"8: 'camera' has a setting 'faces' that {PROBABILITY} 1.25"),
    ("1/4", "seldom", f"8: 'camera' has a setting 'faces' that {PROBABILITY} 'seldom'"),
    ("1/4", "1/0", "8: 'camera' has a setting 'faces' that should be a probability, not '1/0'"),
    ("faces: 1/4, plates: 0.75", "faces: 1", "6: 'plates' cannot be reached from the source camera"),
    (
        "1/4, plates: 0.75",
        "0.0000000001, plates: 0.9999999999",
        "5: 'faces' gets 1e-10 of all tasks, as good as none",
    ),
    ("plates: 0.75", "plate: 0.75", "8: 'plate' is at the end of an arc but is no module"),
    ("camera: {faces", "kamera: {faces", "8: 'kamera' is at the end of an arc but is no module"),
    ("camera: {faces: 1/4, plates: 0.75}", "camera: faces", "8: 'camera' should be names with"),
    # how tasks come
    ("  camera: {every", "  kamera: {every", "2: 'kamera' gets tasks from outside but is no module"),
    ("every: 500 ms", "every: 1 s, rate: 1", "2: 'camera' needs either 'every' or 'rate'"),
    ("every: 500 ms", "", "2: 'camera' needs either 'every' or 'rate'"),
    ("camera: {every: 500 ms}", "every: 500 ms", "2: 'every' should be names with settings"),
    ("every: 500 ms", "every: often", "2: 'camera' has a setting 'every' that is not a duration"),
    ("every: 500 ms", "every: 0 s", "2: 'camera' has a setting 'every' that should be longer than 0"),
    ("every: 500 ms", "rate: 0", f"2: 'camera' has a setting 'rate' that {PRICE} 0"),
    ("every: 500 ms", "rate: .inf", f"2: 'camera' has a setting 'rate' that {PRICE} inf"),
    ("camera: {every", "faces: {every", "5: 'faces' should be the source but gets tasks from camera"),
    # what modules take and pay
    ("takes: 100 ms", "takes: 100", "4: 'camera' has a setting 'takes' that is not a duration: '100'"),
    ("takes: 100 ms", "takes: 0 ms", "4: 'camera' has a setting 'takes' that should be longer than"),
    ("takes: 4 s", "takes: -4 s", "5: 'faces' has a setting 'takes' that is not a duration: '-4 s'"),
    ("takes: 4 s", f"takes: {'9' * 400} s", "5: 'faces' has a setting 'takes' that should be longer"),
    ("takes: 100 ms, ", "", "4: 'camera' needs 'takes' or 'samples'"),
    ("core_price: 0.005", "core_price: 0", f"4: 'camera' has a setting 'core_price' that {PRICE} 0"),
    ("core_price: 0.02", "core_price: -1", f"5: 'faces' has a setting 'core_price' that {PRICE} -1"),
    ("core_price: 0.02", "core_price: dear", f"5: 'faces' has a setting 'core_price' that {PRICE} 'd"),
    ("core_price: 0.02, ", "", "5: 'faces' needs 'core_price'"),
    ("delay_price: 0.4", "delay_price: 0", f"5: 'faces' has a setting 'delay_price' that {PRICE} 0"),
    ("delay_price: 0.4", "delay_price: .nan", f"5: 'faces' has a setting 'delay_price' that {PRICE} n"),
    ("delay_price: 0.4", "delay_price: .inf", f"5: 'faces' has a setting 'delay_price' that {PRICE} i"),
    ("delay_price: 0.4", "delay_price: yes", f"5: 'faces' has a setting 'delay_price' that {PRICE} T"),
    ("delay_price: 0.4, ", "", "5: 'faces' needs 'delay_price'"),
    ("fixed: 0.1", "fixed: -0.1", "5: 'faces' has a setting 'fixed' that should be a number from 0 on"),
    ("most: 16", "most: 0", f"5: 'faces' has a setting 'most' that {WHOLE} 0"),
    ("most: 16", "most: 2.5", f"5: 'faces' has a setting 'most' that {WHOLE} 2.5"),
    ("most: 16", "most: true", f"5: 'faces' has a setting 'most' that {WHOLE} True"),
    ("most: 16", "most: .inf", f"5: 'faces' has a setting 'most' that {WHOLE} inf"),
    ("most: 16", "most: [16]", f"5: 'faces' has a setting 'most' that {WHOLE} [16]"),
    ("most: 16, ", "", "5: 'faces' needs 'most'"),
    ("most: 8", "most: 8, colour: red", "6: 'plates' has an unknown setting 'colour' (known: takes, "),
    ("fastest: 12", "fastest: 0.5", "5: 'faces' has a setting 'fastest' that should be a number of c"),
    ("fastest: 12", "grows: true", "5: 'faces' needs 'fastest': the number of cores beyond which it"),
    ("fastest: 12", "fastest: 12, grows: 1", "5: 'faces' has a setting 'grows' that should be true or"),
    ("samples: {", "takes: 1 s, samples: {", "6: 'plates' has 'samples', beside which 'takes' says n"),
    ("{1: 2 s, 4: 600 ms}", "{}", "6: 'plates' has a setting 'samples' that should be numbers of cor"),
    ("{1: 2 s", "{one: 2 s", "6: 'plates' has a setting 'samples' that should have numbers of cores"),
    ("{1: 2 s", "{1: two", "6: 'plates' has a setting 'samples' that is not a duration: 'two'"),
    ("{1: 2 s", "{0: 2 s", "6: 'plates' has a sample of 2 s with 0 cores, not above 0"),
    ("{1: 2 s", "{.nan: 2 s", "6: 'plates' has a setting 'samples' that should have numbers of cores"),
    ("{1: 2 s", "{nan: 2 s", "6: 'plates' has a sample of 2 s with nan cores, not above 0"),
    ("{1: 2 s", "{4.0: 2 s", "6: 'plates' has two samples of its service time for one number of cores"),
    ("  faces: {takes", "  camera: {takes", "5: 'camera' is defined twice (first in line 4)"),
    # nodes and incentives
    ("[faces, plates]", "[faces, plate]", "10: 'rack' should run plate, which is no module"),
    ("[faces, plates]", "[faces, faces]", "10: 'rack' should run faces, which is on rack"),
    ("[faces, plates]", "faces", "10: 'rack' has a setting 'modules' that should be a list of modu"),
    ("[faces, plates]", "[]", "10: 'rack' has a setting 'modules' that should be a list of modules"),
    ("cores: 16", "cores: 1", "10: 'rack' has 1 cores for 2 modules, which need one each"),
    ("cores: 16", "cores: few", f"10: 'rack' has a setting 'cores' that {WHOLE} 'few'"),
    ("cores: 16, ", "", "10: 'rack' needs 'cores'"),
    (
        "plates]}",
        "plates]}\n  desk: {cores: 2, modules: [faces]}",
        "11: 'desk' should run faces, which is on rack",
    ),
    ("increment: 0.2", "increment: 2", f"11: 'incentives' has a setting 'increment' that {PROBABILITY}"),
    ("rounds: 30", "rounds: 0", f"11: 'incentives' has a setting 'rounds' that {WHOLE} 0"),
    ("rounds: 30", "turns: 30", "11: 'incentives' has an unknown setting 'turns' (known: increment,"),
    # the file
    ("nodes:", "racks:", "9: 'racks' is not a section of an elasticity file (known: arrivals, modules"),
    ("camera: {every: 500 ms}", "camera: {", "4: not YAML: expected ',' or '}', but got ':' (while parsing a flow mapping, begun in line 2)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), BAD)
def test_mistakes_are_told_in_one_sentence(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(UserError) as raised:
        load(GOOD.replace(old, new, 1), "g.yaml")
    assert str(raised.value).startswith(f"g.yaml:{said}")
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("section", ["arrivals", "modules"])
def test_sections_that_are_missing(section: str) -> None:
    kept, skipping = [], False
    for line in GOOD.splitlines():
        if not line.startswith(" "):
            skipping = line.startswith(section)
        if not skipping:
            kept.append(line)
    with pytest.raises(UserError, match=rf"g.yaml: 'g.yaml' has no section '{section}'"):
        load("\n".join(kept), "g.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "g.yaml: the file is empty"),
        ("- a", "g.yaml:1: the file should be names with settings"),
        ("arrivals: {}\nmodules: {}", "g.yaml:1: 'arrivals' is empty"),
        (
            "arrivals: 3\nmodules: 4",
            "g.yaml:1: 'arrivals' should be names with settings",
        ),
        (
            "arrivals: " + "{a: " * 5_000,
            "g.yaml:1: the file is nested too deeply",
        ),
    ],
    ids=["empty", "list", "empty sections", "numbers", "deep"],
)
def test_files_that_are_none(text: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        load(text, "g.yaml")
    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  south: {both: 1}\n", "  south: {north: 1}\n  both: {south: 1}\n", "9: 'north' is on a"),
        ("{rate: 3}", "{rate: -3}", f"2: 'north' has a setting 'rate' that {PRICE} -3"),
        ("  south: {every: 1 s}\n", "", "9: 'south' cannot be reached from the source north"),
        (
            "  south: {every: 1 s}\n",
            "  both: {rate: 1}\n",
            "10: 'south' has neither a predecessor nor a rate of its own",
        ),
    ],
)
def test_mistakes_with_several_sources(old: str, new: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        load(TWO_SOURCES.replace(old, new), "t.yaml")
    assert str(raised.value).startswith(f"t.yaml:{said}")
