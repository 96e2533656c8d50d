"""The engine on Apache Spark: fragments as Structured Streaming queries.

The only package that imports pyspark. `compile` turns a plan into a DataFrame,
`source` and `output` are the two ends of a query inside Spark's own processes,
`lane` runs a query. How those processes reach the DataPath is the business of a
`port`, which the live world provides.
"""
