"""The simulated world: the same pure cores, driven without a clock, a network or files.

`world` has time, the event heap and hosts with clocks and timers; `network` has links
that delay, lose, repeat and cut; `disk` is a disk that crashes. `dpc` runs replicated
diagrams in it, with faults drawn from a seed and a checker for each promise. A run
depends on its seed alone: not on the machine, the process or the hash seed.
"""
