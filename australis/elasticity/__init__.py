"""How many cores each module of a flow graph gets: the model, without messages (games 4, 5).

Tasks enter at one source and go from module to module. A slow module holds up all others, since
buffers are finite; so the value of a core to one module depends on the cores of the others. Each
module pays for its cores and for the time between its results.

    game = Game(graph, {module.name: module for module in modules}).arriving(every_s=0.5)
    best_equilibrium(game)      # every module minimizes its own cost
    social_optimum(game)        # the total cost is least
    integer_optimum(game)       # the same with whole cores

Everything depends on one number, the *pace*: the seconds between two tasks at the source. A module
that gets a fraction v of all tasks then has pace / v seconds for each. Of the assignments in which
no module has superfluous cores (the paper's efficiency vectors) there is exactly one for each pace,
and the cost of a module is a convex function of the pace. The best equilibrium is the slowest of
the paces that the modules would choose alone; the social optimum minimizes the sum; limits and
arrivals are lower bounds.

Where this differs from the paper: numbers of cores below 1 mean a fraction of a core, in every
model of service times; a service time that grows again is used up to its minimum only, and so are
cores that change nothing. Proposition 4.9 needs two modules: one alone has a single equilibrium,
and every number of cores makes it efficient. The agents of `protocols.elasticity` find all this
without global knowledge.
"""
