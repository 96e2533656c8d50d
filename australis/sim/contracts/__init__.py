"""Contracts in a simulated world: over messages, and over arrays."""
