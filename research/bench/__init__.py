"""Benchmarks: Australis beside common alternatives, as ratios in one run."""
