"""The drivers of a real deployment: files, Flight, threads and processes.

Everything below this package decides; this one moves bytes and time. `node/` runs the machines of
a node, `run` is a cluster of one node within a program, `sources/` and `sinks/` are the ends of a
diagram, `client` and `view` read streams from outside. It is the only package that waits.
"""
