"""The simulated world: the same pure cores, driven without a clock, a network or files.

So far it has the disk that crashes; links, clocks and nodes follow with the
fault-tolerance protocols.
"""
