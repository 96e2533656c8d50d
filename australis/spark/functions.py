"""The user's own PySpark code as an operator.

The function gets one DataFrame per input, with `_stime` and the attributes, and
returns a DataFrame that has `_stime`. Its watermark is `_stime` already, so its
own `withWatermark` is ignored. A function that cannot give the same result at every
replica is refused with the reason.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from australis.diagram.model import Diagram, Spark
from australis.kernel.errors import UserError
from australis.spark.logical_plans import analysed, nodes

_REFUSED_NODES = {
    "Sort": "orders rows (orderBy), which a stream has no end for",
    "GlobalLimit": "limits rows, which would stop before the boundary",
    "LocalLimit": "limits rows, which would stop before the boundary",
    "Sample": "samples at random",
    "DeduplicateWithinWatermark": (
        "uses dropDuplicatesWithinWatermark, whose result depends on micro-batches"
    ),
    "Tail": "limits rows, which would stop before the boundary",
    "Offset": "limits rows, which would stop before the boundary",
}
_CLOCK = re.compile(
    r"\b(current_timestamp|current_date|now|localtimestamp|current_time|unix_timestamp)\(\s*\)"
)


def call_user_function(o: Spark, inputs: Sequence[DataFrame], base: Path) -> DataFrame:
    """The function's frame, checked."""
    function = o.call or load_function(o.function, base)
    with _watermarks_ignored(o.name):
        try:
            result = function(*(frame.drop("_id") for frame in inputs))
        except UserError:
            raise
        except Exception as error:
            if type(error).__module__.startswith("pyspark"):
                raise
            raise UserError(f"failed in {o.function}: {type(error).__name__}: {error}") from error
    if not isinstance(result, DataFrame):
        raise UserError(f"calls {o.function}, which returned {type(result).__name__}, no DataFrame")
    kinds = {f.name: f.dataType for f in result.schema.fields}
    if "_stime" not in kinds:
        raise UserError(
            f"calls {o.function}, whose result has no _stime"
            " (keep the column; behind a window, use window_time)"
        )
    if not isinstance(kinds["_stime"], TimestampType):
        raise UserError(f"calls {o.function}, whose _stime is {kinds['_stime'].simpleString()}")
    if not result.isStreaming:
        _refuse(o, result)
    return result.withColumn("_id", F.lit(0).cast("bigint"))


def load_function(named: str, base: Path) -> Callable[..., Any]:
    """Find `module:name`, or `file.py:name` beside the diagram."""
    where, _, name = named.rpartition(":")
    try:
        module = (
            _load_file(base / where) if where.endswith(".py") else importlib.import_module(where)
        )
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"cannot load {where}: {type(error).__name__}: {error}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise UserError(f"names the function '{name}', which {where} does not have")
    found: Callable[..., Any] = function
    return found


def function_digests(diagram: Diagram, base: Path) -> dict[str, str]:
    """The digest of each user's function, by operator."""
    return {o.name: function_digest(o, base) for o in diagram.operators if isinstance(o, Spark)}


def function_digest(o: Spark, base: Path) -> str:
    """A digest of the function's code; of one in a file or module, of all code there."""
    where = o.function.rpartition(":")[0]
    try:
        if o.call is not None:
            code = inspect.getsource(o.call)
        elif where.endswith(".py"):
            code = (base / where).read_text()
        else:
            code = inspect.getsource(importlib.import_module(where))
    except (OSError, TypeError, ImportError):
        return ""
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def _load_file(path: Path) -> Any:
    if not path.exists():
        raise UserError(f"names the file {path}, which does not exist")
    name = f"australis_diagram_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    # Spark's workers cannot import it: Python functions in it are sent with the plan.
    cloudpickle.register_pickle_by_value(module)
    return module


@contextmanager
def _watermarks_ignored(operator: str) -> Iterator[None]:
    original = DataFrame.withWatermark
    classes = [c for c in (DataFrame, *DataFrame.__subclasses__()) if "withWatermark" in vars(c)]
    saved = {c: vars(c)["withWatermark"] for c in classes}

    def ignored(self: DataFrame, eventTime: str, delayThreshold: str) -> DataFrame:
        warnings.warn(
            f"'{operator}': withWatermark({eventTime!r}, {delayThreshold!r}) is passed over:"
            " the watermark is _stime and moves with the boundary",
            stacklevel=2,
        )
        return self

    for cls in classes:
        cls.withWatermark = ignored  # type: ignore[method-assign]
    try:
        yield
    finally:
        for cls, method in saved.items():
            cls.withWatermark = method  # type: ignore[method-assign]
        assert DataFrame.withWatermark is original


def _refuse(o: Spark, result: DataFrame) -> None:
    for node in nodes(analysed(result)):
        reason = _REFUSED_NODES.get(node.nodeName())
        if node.nodeName() == "Deduplicate" and node.keys().size() < node.child().output().size():
            reason = "drops duplicates by some columns only, which keeps an arbitrary one of them"
        if reason:
            raise UserError(f"calls {o.function}, which {reason}")
        expressions = node.expressions()
        for i in range(expressions.size()):
            expression = expressions.apply(i)
            text = expression.toString()
            clock = _CLOCK.search(text)
            if clock:
                raise UserError(f"calls {o.function}, which reads the clock ({clock[0]})")
            if not expression.deterministic():
                raise UserError(
                    f"calls {o.function}, which is not deterministic ({text[:80]}),"
                    " so two replicas would compute different results"
                )
