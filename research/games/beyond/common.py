"""Shared by several of the questions."""

from __future__ import annotations

ROUNDS = 2_000
INCREMENT = 0.05
NEAR = 1.05
EXACT = 1e-9
