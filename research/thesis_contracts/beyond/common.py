"""Shared by several of the questions."""

from __future__ import annotations

PAIR_CONTRACTS = 3
LEVEL = 0.75
NEAR = 0.005
"""The part of the load by which the two simulators may differ, on average."""
