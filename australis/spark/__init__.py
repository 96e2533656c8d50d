"""The engine on Apache Spark: plans as Structured Streaming queries.

It is the only package that imports pyspark. `compile` turns a plan into a DataFrame, `source` and
`output` are the two ends of a query inside Spark's own processes, `lane` runs a query, `reader` is
the format `australis` for any Spark job. How Spark's processes reach the node is the business of a
`port`, which the runtime provides. Promise: a lane's log has the same bytes however Spark groups
buckets into micro-batches and tasks, and across restarts.
"""
