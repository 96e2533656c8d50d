"""Protocol cores: pure machines that run unchanged in the simulated world and on nodes.

A machine takes events and the time, and returns effects in the order in which they are to be
carried out (`kernel.machine`). It reads no clock, file or global random generator. The docstring
of each package says what its protocol promises, how to drive it, and where it deviates from its
paper.

    dpc          fault tolerance by replicas, driven by nodes and in simulation
    contracts    load shared between owners, in simulation
    ring         a distributed hash table, in simulation
    hotspots     overloaded peers that are relieved, in simulation
    movement     a component that changes its node, in simulation
    ants         placement of queries, in simulation
    elasticity   cores of modules as a game, in simulation
"""
