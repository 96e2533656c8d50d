"""Peers of a ring in the simulated world: rings that stand, and rings that grow and fail (`rings`)."""
