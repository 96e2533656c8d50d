"""What runs where, as data: the nodes of a cluster and what is placed on them.

A `Cluster` is frozen data, read from a *cluster file* (`text.load`). What can be
wrong in the file alone is told when it is read; `check.check` finds the mistakes
between a cluster and the diagram it runs.
"""
