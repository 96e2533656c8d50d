"""Benchmarks: Australis beside what people run today, as ratios in one run."""
