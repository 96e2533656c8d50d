"""What people would use instead, for the benches; Flink has an environment of its own."""

WINDOW_MS = 1000
"""The windows in which the others count while an input is away."""
