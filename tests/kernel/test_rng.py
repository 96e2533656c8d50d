"""Named random substreams: independent of each other, and of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from australis.kernel.rng import SeedTree

NAMES = st.text(max_size=10)


def draws(chance: SeedTree, name: str) -> list[float]:
    stream = chance.stream(name)
    return [stream.random() for _ in range(5)]


@given(st.integers(), NAMES)
def test_the_same_seed_and_name_give_the_same_numbers(seed: int, name: str) -> None:
    assert draws(SeedTree(seed), name) == draws(SeedTree(seed), name)


@given(st.integers(0, 1 << 62), NAMES, NAMES)
def test_other_names_and_seeds_give_other_numbers(seed: int, one: str, other: str) -> None:
    if one != other:
        assert draws(SeedTree(seed), one) != draws(SeedTree(seed), other)
    assert draws(SeedTree(seed), one) != draws(SeedTree(seed + 1), one)


def test_drawing_from_one_stream_changes_nothing_in_another() -> None:
    chance = SeedTree(7)
    undisturbed = draws(chance, "links")
    busy, links = chance.stream("faults"), chance.stream("links")
    numbers = []
    for _ in range(5):
        busy.random()
        numbers.append(links.random())
    assert numbers == undisturbed


def test_the_parts_of_a_part_have_streams_of_their_own() -> None:
    chance = SeedTree(7)
    assert draws(chance.under("node 1"), "disk") == draws(SeedTree(7).under("node 1"), "disk")
    assert draws(chance.under("node 1"), "disk") != draws(chance.under("node 2"), "disk")
    assert draws(chance.under("a").under("b"), "c") != draws(chance.under("a"), "c")
    assert chance.under("node 1").seed == 7


def test_the_numbers_are_the_same_in_another_process() -> None:
    program = (
        "from australis.kernel.rng import SeedTree\n"
        "stream = SeedTree(7).under('swarm').stream('links')\n"
        "print([stream.random() for _ in range(5)])"
    )
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": str(root)}
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == str(draws(SeedTree(7).under("swarm"), "links"))
