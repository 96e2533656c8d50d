"""Query diagrams as data: sources, operators and sinks, loop-free.

A `Diagram` is frozen data. It is built in Python (`build.DiagramBuilder`) or read from YAML
(`diagram_file.load`), and both give equal diagrams. Each kind of operator is described by its class
(`operators`). `check` finds mistakes without Spark, `fragments` cuts a diagram into the parts that
run, `draw` draws it.
"""
