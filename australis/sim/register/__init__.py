"""Registers in the simulated world."""
