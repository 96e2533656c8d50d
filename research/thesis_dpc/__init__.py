"""Availability and consistency under failures: chapter 5 of the DPC thesis.

`setting` and `measure` run DPC in the simulator, with tuples that are counted instead of made;
`replicas` and `versions` are the thesis' variants of a node.
"""
