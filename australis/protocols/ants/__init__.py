"""Ants that place queries on servers without a central instance (ants 3).

Every server has a cell (`cell.CellMachine`). Routing ants find ways from producers to consumers and
leave pheromones (`trails`); scouts follow these and work out where the tasks of a query would cost
least, for it and for the queries that run already (`scouting`, `path_search`); an enforcement ant
has the placement made if it still costs what the scout said (`leader`).

Promises, under loss of ants and crashes of cells: a query runs with all its tasks or with none;
a share that is held and not kept is released after `hold_us`, one that runs after its leader has
been silent for `lease_us`; a query that reuses tasks of another goes on without a gap when that one
moves or ends. Deviations from the paper: scouts search by dynamic programming instead of placing
greedily, cells tell their neighbours of good servers (`scents`), all trips count for mean and
variance, and reinforcement is a part of best over trip time.
"""
