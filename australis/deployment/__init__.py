"""What runs where, as data: the nodes of a cluster and what is placed on them (thesis 3.3).

A `Cluster` is frozen data, read from a *cluster file* (`cluster_file.load`). `load` reports
mistakes in the file alone; `check.check` finds the mistakes between a cluster and the
diagram it runs. `sinks` gives the node of each sink.

It deviates from the thesis' catalog in that it is a file, the same at every node, and does not
change while the cluster runs.
"""
