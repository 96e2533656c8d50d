"""Agents in the simulated world, and the queues of the modules they decide for."""
