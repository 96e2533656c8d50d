"""Availability and consistency of one node: figures 5-7 and 5-8 of the thesis (section 5.4.1)."""

from __future__ import annotations

from collections.abc import Mapping

from research.thesis_dpc.measure import Heard

Key = tuple[str, float]
"""A combination of policies, and D or a failure's duration in seconds."""
Found = Mapping[Key, Heard]
