"""Whatever bytes a source gets, each line becomes a row or a rejected row, and the process lives."""

from __future__ import annotations

import os

import pytest
from runtime.source_fuzzing import KINDS, run

QUICK_ROUNDS = 150
LONG_S = float(os.environ.get("AUSTRALIS_FUZZ_S", "60"))
"""How long `make long` spends on each kind; 600 for the ten minutes of a release."""


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_bytes(kind: str) -> None:
    assert f"{QUICK_ROUNDS} rounds" in run(kind, rounds=QUICK_ROUNDS)


@pytest.mark.long
@pytest.mark.timeout(LONG_S * 2 + 300)
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_bytes_for_long(kind: str) -> None:
    print(run(kind, seconds=LONG_S, seed=int.from_bytes(os.urandom(4))))
