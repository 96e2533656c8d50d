"""The kinds of tests: each test has one, by its folder, its fixtures or what its file says."""

from __future__ import annotations

from collections.abc import Collection

KINDS = ("unit", "sim", "spark", "live", "research")
"""As registered in pyproject.toml, which says what each is."""
KIND_OF_FOLDER = {
    "chaos": "live",
    "end_to_end": "spark",
    "research": "research",
    "runtime": "live",
    "sim": "sim",
    "spark": "spark",
}
"""What the tests of a folder are; those of any other are unit tests."""
KIND_OF_FIXTURE = {"spark": "spark"}
"""What a test is that asks for this fixture, wherever the test stands."""
LONG_FOLDERS = ("chaos",)
"""All tests in them take long for what they find."""
LONG_TESTS = (
    "[contracts-beyond]",
    "[contracts-selfish]",
    "[games-beyond]",
    "[synergy-beyond]",
    "[synergy-load-updates]",
    "[synergy-migration-overhead]",
    "::test_memory_does_not_grow_with_the_length_of_a_run",
)
"""How the names of others end that do. A test of one file is marked there: `pytest.mark.long`."""


class NotOneKind(Exception):
    """A test says that it is of two kinds, or its fixtures say something else."""


def kind_of(folder: str, marks: Collection[str], fixtures: Collection[str]) -> str:
    """The one kind of a test: what its file says, else its fixtures, else its folder."""
    said = {*marks} & {*KINDS}
    needed = {kind for fixture, kind in KIND_OF_FIXTURE.items() if fixture in fixtures}
    if len(said | needed) > 1:
        raise NotOneKind(f"{' and '.join(sorted(said | needed))}: a test is of one kind")
    return next(iter(said | needed), KIND_OF_FOLDER.get(folder, "unit"))


def is_long(folder: str, name: str) -> bool:
    """Whether a test takes long, by where it stands and its name."""
    return folder in LONG_FOLDERS or name.endswith(LONG_TESTS)


def unknown_long_tests(names: Collection[str]) -> list[str]:
    """What is in the list of long tests though none of all these names ends so."""
    return [end for end in LONG_TESTS if not any(name.endswith(end) for name in names)]
