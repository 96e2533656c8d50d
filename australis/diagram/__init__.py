"""Query diagrams as data: sources, operators and sinks, loop-free.

A `Diagram` is frozen data. It is built in Python (`build.DiagramBuilder`) or
read from YAML (`text.load`), and both give equal diagrams. `check` finds the
mistakes that need no Spark, `fragments` cuts a diagram into the parts that run,
`draw` shows it.
"""
