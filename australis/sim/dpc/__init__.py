"""DPC in the simulated world: nodes, faults, checkers, and runs from a seed."""
