"""One harness for every protocol that runs in the simulated world.

A protocol is a `Model`: it draws scenarios from a seed, builds the simulation of one, and names
the promises that its checkers watch and the ways to break it on purpose. The harness does the
rest, for all models alike:

- `search` runs many seeds on all cores, each under a time limit, in the order of the seeds;
- `shrink` finds a shorter schedule that breaks the same promise;
- `story` tells what happened in a run, and how one thing in it came about;
- `variants` shows that each broken variant is caught by the checkers that are meant for it.

    result = judge(Setup(model, "swarm"), seed=7)
    for result in search(Setup(model), range(1000), workers=4): ...

Promises of the harness: a scenario depends on its seed and preset alone; each aspect of it is
drawn from a random stream of its own (`kernel.rng.SeedTree`); what is found does not depend on
the number of workers; a run that raises an exception or does not end is a violation (`crash`,
`timeout`) of its seed, not the end of the search.
"""
