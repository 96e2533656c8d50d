"""Australis: federated, fault-tolerant, self-managing stream processing on Spark.

import australis as au

d = au.diagram("hello")
readings = d.source("readings", push=True, schema="room string, celsius double")
d.filter("hot", readings, "celsius > 30")
with au.start(d, state="state") as running:
    running.push("readings", [{"room": "kitchen", "celsius": 31.5}])
    running.end("readings")
    running.wait()
    print(running.table("hot").to_pandas())
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from australis.kernel.errors import AustralisError, Place, Stopped, UserError
from australis.kernel.names import listed

if TYPE_CHECKING:
    from australis.diagram.build import DiagramBuilder, Stream
    from australis.diagram.model import Diagram
    from australis.runtime.client import Connection
    from australis.runtime.run import Running
    from australis.spark.session import SparkSession

__all__ = [
    "AustralisError",
    "Diagram",
    "DiagramBuilder",
    "Stopped",
    "Stream",
    "UserError",
    "connect",
    "diagram",
    "load",
    "register",
    "run",
    "start",
]
__version__ = "0.1.0"

_LAZY = {
    "Diagram": "australis.diagram.model",
    "DiagramBuilder": "australis.diagram.build",
    "Stream": "australis.diagram.build",
}
"""Names that are imported when they are first used: they load pyarrow."""

if TYPE_CHECKING:
    diagram = DiagramBuilder


class _Package(ModuleType):
    """This module: some of its names are imported on first use.

    `diagram` is both the builder and a subpackage, and importing a subpackage sets its name
    in the parent: a property without effect when set keeps the builder.
    """

    @property
    def diagram(self) -> type[DiagramBuilder]:
        from australis.diagram.build import DiagramBuilder

        return DiagramBuilder

    @diagram.setter
    def diagram(self, _subpackage: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load(path: Path | str) -> Diagram:
    """The diagram in this YAML or Python file; a `UserError` tells file and line of a mistake."""
    from australis.runtime.load import load as load_file

    return load_file(_path(path, "a diagram is loaded from the path of a file"))


def start(diagram: Diagram | DiagramBuilder, state: Path | str = "", **options: Any) -> Running:
    """Start a diagram over a state directory; see `australis.runtime.run.Running`."""
    diagram = _diagram(diagram)
    state = _path(state, "a diagram is started over the path of a state directory")
    from australis.runtime import run as live

    _refuse_unknown(options, live.Running)
    if diagram.place is not None:
        options.setdefault("base", Path(diagram.place.file).parent)
    return live.start(diagram, state, **options)


def run(diagram: Diagram | DiagramBuilder, state: Path | str = "", **options: Any) -> None:
    """Run a diagram until all its results are complete."""
    with start(diagram, state, **options) as running:
        running.wait()


def connect(cluster: Path | str, *, identity: str | None = None) -> Connection:
    """A connection to the cluster of this file; see `australis.runtime.client`."""
    cluster = _path(cluster, "a connection is made to the path of a cluster file")
    if not isinstance(identity, str | None):
        raise _misused(f"the identity of a connection is a name, not {_shown(identity)}")
    from australis.runtime import client

    return client.connect(cluster, identity=identity)


def register(spark: SparkSession, name: str = "australis") -> None:
    """Make `spark.readStream.format("australis")` known to a session.

    Options: `cluster` (its file) and `stream`; `client` (of that file: its log is kept until
    Spark has committed it; else a guest), `startingBucket` ('earliest', which is where a client
    begins, 'latest', where a guest does, or a bucket), `maxBytesPerTrigger`, `identity`.
    Spark lets queries that run side by side share one registration, and may stumble over that:
    register another name for each.
    """
    if not hasattr(spark, "dataSource"):
        raise _misused(f"what is registered with is a SparkSession, not {_shown(spark)}")
    if not isinstance(name, str) or not name:
        raise _misused(f"the name of a Spark data source is text, not {_shown(name)}")
    from australis.runtime.spark_feed import FACTORY
    from australis.spark.reader import register_reader

    register_reader(spark, name, FACTORY)


def _misused(sentence: str) -> UserError:
    return UserError(sentence, place=Place.of_caller(__file__))


def _shown(given: object) -> str:
    from australis.diagram.settings import shown

    return shown(given)


def _diagram(given: Diagram | DiagramBuilder) -> Diagram:
    from australis.diagram.build import DiagramBuilder
    from australis.diagram.model import Diagram

    if isinstance(given, DiagramBuilder):
        return given.done()
    if isinstance(given, Diagram):
        return given
    hint = ": au.load reads one from a file" if isinstance(given, str | os.PathLike) else ""
    raise _misused(f"what is started is a diagram, not {_shown(given)}{hint}")


def _path(given: Path | str, sentence: str) -> Path:
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise _misused(f"{sentence}, not {_shown(given)}")
    return Path(given)


def _refuse_unknown(options: dict[str, Any], of: Callable[..., Any]) -> None:
    known = [p.name for p in inspect.signature(of).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise _misused(f"a start has no option '{option}' (known: {listed(known, option)})")
