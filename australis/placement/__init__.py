"""Where tasks run: networks, queries, what placements cost, and queries drawn at random (ants 3).

The ants (`protocols.ants`) find placements without global knowledge; the model here judges them.
Centralized optima to compare with stand in `research.ants`. Arrivals are taken to be Poisson, for
which expression 9 of the paper is exact; servers that a tuple only passes do not work on it.
"""
