"""The evaluations of the papers, run again: each experiment ends in claims that can fail.

An experiment is one small module: which figure or table it reproduces, the paper's
values where the stored text has them (its plots are not there, and no value is
invented for them), ours beside them, a tolerance, a verdict, and how it deviates.
`claims` says what a result is, `setting` and `measure` run DPC in the simulator,
`registry` knows all experiments, `report` and `svg` write them down.
"""
