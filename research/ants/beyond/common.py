"""Shared by several of the questions."""

from __future__ import annotations

NEAR = 1.05
