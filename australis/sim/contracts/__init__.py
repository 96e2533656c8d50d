"""Contracts in the simulated world: participants are machines, offers and answers are messages.

`trial` draws a federation and its faults from a seed and judges it. `research.thesis_contracts.arrays`
advances the same mechanism over arrays, and both must end with the same loads.
"""
