"""The properties of a frame that follow from Spark's analysed plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_GROUPING_NODES = ("Aggregate", "Distinct", "Intersect", "Except")
"""The nodes that Spark plans as aggregates, whose groups are emitted after the watermark."""
_OUTER_JOINS = ("LeftOuter", "RightOuter", "FullOuter")
"""The joins that emit a row without a match once the watermark excludes one."""
_TIMED_NODES = {
    "FlatMapGroupsWithState": "timeout",
    "FlatMapGroupsInPandasWithState": "timeout",
    "TransformWithState": "timeMode",
    "TransformWithStateInPySpark": "timeMode",
}
"""The nodes with user-defined state, and the attribute that says whether its timers follow the
watermark."""
_EVENT_TIMES = ("EventTime", "EventTimeTimeout")
_PROCESSING_TIMES = ("ProcessingTime", "ProcessingTimeTimeout")
_PER_BATCH_NODES = ("FlatMapGroupsIn", "FlatMapCoGroupsIn")
"""The nodes whose functions Spark applies to the rows of a group in one micro-batch."""


def analysed(frame: DataFrame) -> Any:
    """Spark's analysed logical plan of a frame."""
    return frame._jdf.queryExecution().analyzed()


def nodes(plan: Any) -> Iterator[Any]:
    """All nodes of a logical plan, the root first."""
    yield plan
    children = plan.children()
    for i in range(children.size()):
        yield from nodes(children.apply(i))


def emits_on_watermark(frame: DataFrame) -> bool:
    """Whether a row may be emitted one micro-batch after the watermark has passed its last input.

    Only for such an operator Spark runs an empty micro-batch after each one with data, which
    emits what the watermark of that one has completed.
    """
    return any(_waits_for_watermark(node) for node in nodes(analysed(frame)) if node.isStreaming())


def _waits_for_watermark(node: Any) -> bool:
    kind = str(node.nodeName())
    if kind in _GROUPING_NODES:
        return True
    if kind == "Join":
        outer = str(node.joinType().toString()) in _OUTER_JOINS
        return outer and bool(node.left().isStreaming()) and bool(node.right().isStreaming())
    timer = _TIMED_NODES.get(kind)
    return timer is not None and str(getattr(node, timer)().toString()) in _EVENT_TIMES


def batching_dependence(frame: DataFrame) -> str | None:
    """The reason why a frame's rows depend on how its input is cut into micro-batches, if any."""
    for node in nodes(analysed(frame)):
        kind = str(node.nodeName())
        if not node.isStreaming():
            continue
        timer = _TIMED_NODES.get(kind)
        if timer is not None:
            if str(getattr(node, timer)().toString()) in _PROCESSING_TIMES:
                return "its timers follow the clock (use event time)"
        elif kind.startswith(_PER_BATCH_NODES):
            return (
                "it applies a function to the rows of a group (applyInPandas or applyInArrow),"
                " of which a micro-batch holds some only (use an aggregate over a window, or"
                " applyInPandasWithState)"
            )
    return None
