"""The simulated world: the same pure machines, driven without a clock, a network or files.

`world` has time, the event heap and hosts with clocks and timers; `network` has links
that delay, lose, repeat and cut; `disk` is a disk that crashes. Each protocol has a package that
draws runs and faults from a seed, with checkers of its promises and broken variants that they
must catch. A run depends on its seed alone: not on the machine, the process or the hash seed.
"""
