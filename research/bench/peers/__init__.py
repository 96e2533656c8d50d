"""Alternatives to Australis, for the benches; Flink has an environment of its own."""

WINDOW_MS = 1000
"""The windows in which the other engines count while an input is unavailable."""
