"""Peers of a ring in the simulated world."""
