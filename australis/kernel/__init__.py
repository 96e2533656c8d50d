"""The base of every layer: machines and their effects, seeds, traces, errors, durations, ids.

This package reads no clock, no file and no global random generator, and imports no
other package of Australis.
"""
