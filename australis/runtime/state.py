"""The state directory of a running diagram: its layout, and the diagram it belongs to.

state/
  diagram.json          what the state belongs to
  schemas.json          the schema of each stream
  run.lock              who is using it
  logs/STREAM/          the stable log of each logged stream
  checkpoints/STREAM/   Spark's checkpoint of the lane that computes it
  journal/SOURCE/       tuples that were acknowledged but not yet logged
  rejected/, late/      rows that could not be taken, with the reason
  sinks/                positions of sinks
  spark.log             Spark's own log
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from australis.diagram.model import Diagram
from australis.diagram.parts import operator_settings, source_settings
from australis.kernel.errors import UserError
from australis.runtime.files import replace_file
from australis.streams.schema import Schema, parse_schema

FORMAT = 1
_OF_THIS_RUN = ("run.lock", "spark.log", "spark.pid")
_MAY_CHANGE = ("speed", "max_ahead", "rejected")
"""The source options that do not change which of the tuples that are there already count."""


class StateDirectory:
    """The directory of one diagram's state."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def log(self, stream: str) -> Path:
        """The directory of a stream's log."""
        return self.root / "logs" / stream

    def checkpoint(self, stream: str) -> Path:
        """The checkpoint directory of the lane that computes a stream."""
        return self.root / "checkpoints" / stream

    @property
    def spark_log(self) -> Path:
        """The file of Spark's own log."""
        return self.root / "spark.log"

    @property
    def spark_pid(self) -> Path:
        """The file that names the JVM which works on this state."""
        return self.root / "spark.pid"

    @property
    def lock(self) -> Path:
        """The file that the run using this state holds locked."""
        return self.root / "run.lock"

    def open(self) -> None:
        """Create the directory; raises a `UserError` if it holds foreign files."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            content = {path.name for path in self.root.iterdir()}
        except OSError as error:
            raise UserError(
                f"cannot be used as state directory: {error.strerror}", name=str(self.root)
            ) from None
        if content and not content & {"diagram.json", self.lock.name}:
            raise UserError(
                "is not empty and is not a state directory of Australis", name=str(self.root)
            )

    def clear(self) -> None:
        """Delete everything that an earlier run left, to start over."""
        for path in self.root.iterdir():
            if path.name in _OF_THIS_RUN:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def refuse_other(
        self,
        diagram: Diagram,
        functions: dict[str, str],
        remedy: str = "run with --fresh to begin anew, or with another --state",
    ) -> None:
        """Raise a `UserError` for the state of another diagram, or of an older version of it."""
        path = self.root / "diagram.json"
        if not path.exists():
            return
        changed = _first_change(
            msgspec.json.decode(path.read_bytes()), _describe(diagram, functions)
        )
        if changed is not None:
            parts = (*diagram.operators, *diagram.sources)
            part = next((p for p in parts if p.name == changed), None)
            raise UserError(
                f"has changed since the state in {self.root} was written: {remedy}",
                name=changed,
                place=part.place if part and part.place else diagram.place,
            )

    def claim(self, diagram: Diagram, functions: dict[str, str]) -> None:
        """Make this the state of the diagram; only once the diagram is known to be sound."""
        described = msgspec.json.encode(_describe(diagram, functions))
        replace_file(self.root / "diagram.json", msgspec.json.format(described))

    def save_schemas(self, schemas: Mapping[str, Schema]) -> None:
        """Store the schemas from the analyser, so that the next start need not run it again."""
        described = {name: str(schema) for name, schema in schemas.items()}
        replace_file(self.root / "schemas.json", msgspec.json.encode(described))

    def load_schemas(self) -> dict[str, Schema] | None:
        """The schema of every stream as a run of this diagram found it; None before the first."""
        path = self.root / "schemas.json"
        if not path.exists():
            return None
        saved = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        return {name: parse_schema(text) for name, text in saved.items()}


def digest(diagram: Diagram, functions: dict[str, str], epoch_us: int) -> str:
    """A short digest of what the nodes of a cluster must have in common."""
    described = {**_describe(diagram, functions), "epoch": epoch_us}
    return hashlib.sha256(msgspec.json.encode(described)).hexdigest()[:16]


def _describe(diagram: Diagram, functions: dict[str, str]) -> dict[str, Any]:
    sources = {
        s.name: {k: str(v) for k, v in source_settings(s).items() if k not in _MAY_CHANGE}
        for s in diagram.sources
    }
    described = {
        "format": FORMAT,
        "diagram": diagram.name,
        "bucket": diagram.bucket_us,
        "results": sorted(diagram.results),
        "fragments": diagram.cut,
        "sources": sources,
        "operators": {o.name: operator_settings(o) for o in diagram.operators},
        "functions": functions,
    }
    result: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(described))
    return result


def _first_change(saved: dict[str, Any], now: dict[str, Any]) -> str | None:
    for kind in ("sources", "operators", "functions"):
        before, after = saved.get(kind, {}), now[kind]
        for name in [*after, *before]:
            if before.get(name) != after.get(name):
                return str(name)
    return next((key for key in now if saved.get(key) != now[key]), None)
