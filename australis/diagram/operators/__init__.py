"""The operators: each kind is one self-contained frozen class.

Its fields are its settings (`settings.setting`), from which reading, writing, conversion and
description follow; its properties describe it to the other packages (see `base.Operator`). Only the
two engines keep a table with an entry per kind.
"""

from australis.diagram.operators.base import OPERATORS, EventTime, Operator, branch_stream, operator
from australis.diagram.operators.rows import BSort, Filter, Map, Split, Union
from australis.diagram.operators.user_function import Spark
from australis.diagram.operators.windows import Aggregate, CountWindow, Join, TimeWindow

__all__ = [
    "OPERATORS",
    "Aggregate",
    "BSort",
    "CountWindow",
    "EventTime",
    "Filter",
    "Join",
    "Map",
    "Operator",
    "Spark",
    "Split",
    "TimeWindow",
    "Union",
    "branch_stream",
    "operator",
]
