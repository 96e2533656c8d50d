"""Ants that place queries with nobody in charge.

Every server has a cell. Routing ants find ways from producers to consumers and leave pheromones;
scouts follow these and work out where tasks of a query would cost least, for it and for those that
run already; an enforcement ant has it done if it still costs what the scout said (`leading`).
"""
