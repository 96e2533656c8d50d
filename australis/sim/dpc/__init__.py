"""DPC in the simulated world: replicated diagrams, faults, checkers, and runs from a seed.

`presets` draws a run, `run` executes it with a checker for each promise of `protocols.dpc`, `search`
takes many seeds and shrinks a schedule that breaks a promise, and `story` tells what happened.
Nodes are the hosts of the package `node`, over logs and lanes in memory (`hosts`, `store`, `engine`).
"""
