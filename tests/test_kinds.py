"""Each test is of one kind, and every kind is registered."""

from __future__ import annotations

import pytest
from kinds import (
    KIND_OF_FIXTURE,
    KIND_OF_FOLDER,
    KINDS,
    LONG_TESTS,
    NotOneKind,
    is_long,
    kind_of,
    unknown_long_tests,
)


def test_each_collected_test_is_of_one_kind(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        kinds = [mark.name for mark in item.iter_markers() if mark.name in KINDS]
        assert len(kinds) == 1, item.nodeid


def test_kinds_are_registered(pytestconfig: pytest.Config) -> None:
    registered = [line.partition(":")[0] for line in pytestconfig.getini("markers")]
    assert {*KINDS, "long"} <= {*registered}
    assert {*KIND_OF_FOLDER.values(), *KIND_OF_FIXTURE.values()} <= {*KINDS}


@pytest.mark.parametrize(
    ("folder", "marks", "fixtures", "kind"),
    [
        ("kernel", [], [], "unit"),
        ("test_layers.py", [], ["tmp_path"], "unit"),
        ("runtime", ["timeout"], ["tmp_path"], "live"),
        ("runtime", ["timeout", "unit"], [], "unit"),
        ("cli", ["live", "long"], [], "live"),
        ("cli", [], ["spark"], "spark"),
        ("spark", ["spark"], ["spark"], "spark"),
    ],
)
def test_a_file_decides_then_fixtures_then_the_folder(
    folder: str, marks: list[str], fixtures: list[str], kind: str
) -> None:
    assert kind_of(folder, marks, fixtures) == kind


@pytest.mark.parametrize(
    ("marks", "fixtures", "said"),
    [
        (["unit", "live"], [], "live and unit"),
        (["live"], ["spark"], "live and spark"),
    ],
)
def test_two_kinds_are_an_error(marks: list[str], fixtures: list[str], said: str) -> None:
    with pytest.raises(NotOneKind, match=f"{said}: a test is of one kind"):
        kind_of("cli", marks, fixtures)


def test_long_tests_are_known_by_their_folder_or_the_end_of_their_name() -> None:
    assert is_long("chaos", "tests/chaos/test_network.py::test_it")
    assert is_long("research", f"tests/research/test_x.py::test_it{LONG_TESTS[0]}")
    assert not is_long("research", "tests/research/test_x.py::test_it")


def test_a_long_test_that_is_called_something_else_by_now_is_noticed() -> None:
    names = [f"tests/x.py::test_it{end}" for end in LONG_TESTS]
    assert unknown_long_tests(names) == []
    assert unknown_long_tests(names[1:]) == [LONG_TESTS[0]]
