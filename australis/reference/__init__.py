"""A second engine for plans: plain Python, deterministic, without Spark.

`ReferenceEngine` runs the plan that `spark.compile` would make a query of, and
writes the same log: the same tuples, types, order, ids and bytes. It is for
simulations and tests, where a plan is run ten thousand times on a few rows and a
state must be kept, copied and restored at will; it is no way to run large streams.

How to drive it: begin with `engine.initial`; hand `step` the batches of each input
for the buckets after `state.upto`, up to one that every input's boundary has
passed; keep the state it returns, and append the buckets it returns.

Promises: a state is never changed, so keeping one is a fork; how buckets are
grouped into steps shows nowhere; what the engine does not know is a `UserError`
when it is built, never a wrong result.

What it does not know: the user's own Spark functions, `approx_count_distinct` over
time, and Spark SQL beyond `operations` and `functions` (among it `exp`, `ln` and
`pow`, whose last digit is the JVM's own).
"""

from australis.reference.engine import ReferenceEngine, State

__all__ = ["ReferenceEngine", "State"]
