"""How many cores each module of a flow graph gets: the model of it, without messages (games 4, 5).

Tasks enter at one source and go from module to module. A module that is too slow holds up all others,
since buffers are finite; so what a core is worth to one depends on how many the others have. Each
module pays for its cores and for the time between its results.

    game = Game(graph, {module.name: module for module in modules}).arriving(every_s=0.5)
    best_equilibrium(game)      # where everybody looks after itself
    social_optimum(game)        # where all together pay least
    integer_optimum(game)       # the same with whole cores

Everything hangs on one number, the *pace*: how many seconds pass between two tasks at the source. A
module that gets a part v of all tasks then has pace / v seconds for one. Of all numbers of cores with
which nobody has too many (the paper's efficiency vectors) there is exactly one for each pace, and what
a module pays is a convex function of it. The best equilibrium is the slowest of the paces that the
modules would choose alone; the social optimum is at the least of the sum; limits and arrivals are
bounds from below.

Where this differs from the paper: numbers of cores below 1 mean a part of a core, in every model of
service times; a service time that grows again is used up to its minimum only, and so are cores that
change nothing. Proposition 4.9 needs two modules: one alone has a single equilibrium, and
every number of cores makes it efficient. The agents of `protocols.elasticity` find all this without
anybody who knows it all.
"""
