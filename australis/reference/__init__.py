"""A second engine for plans: plain Python, deterministic, without Spark.

`ReferenceEngine` runs the plan that `spark.compile` would make a query of, and writes the same log:
the same tuples, types, order, ids and bytes. It is for simulations and tests, which run a plan ten
thousand times on a few rows and keep, copy and restore its state at will; it is not for large
streams.

How to drive it: begin with `engine.initial`; hand `step` the batches of each input
for the buckets after `state.upto`, up to one that every input's boundary has
passed; keep the state it returns, and append the buckets it returns.

Promises: a state is never changed, so keeping one is a fork; how buckets are grouped into steps
does not affect results; an unsupported plan is a `UserError` when the engine is built, never a
wrong result.

Not supported: the user's own Spark functions, `approx_count_distinct` over time, and Spark SQL
beyond `operations` and `functions` (among it `exp`, `ln` and `pow`, whose last digit is the JVM's
own).
"""

from australis.reference.engine import ReferenceEngine, State

__all__ = ["ReferenceEngine", "State"]
