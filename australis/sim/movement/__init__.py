"""Components that move between simulated nodes while tuples flow through them and nodes crash.

`schedule` draws a run from a seed, and `simulation` runs and judges it: no tuple is lost or
repeated, and a component ends at one node. `broken` has movers with one wrong decision each.
"""
