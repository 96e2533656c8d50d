"""The state directory of a running diagram: its layout, and the diagram it belongs to.

state/
  diagram.json          what the state belongs to: cluster, node, epoch, diagram
  schemas.json          the schema of each stream
  run.lock              who is using it
  logs/STREAM/          the stable log of each logged stream
  checkpoints/STREAM/   Spark's checkpoint of the lane that computes it
  journal/SOURCE/       tuples that were acknowledged but not yet logged
  rejected/, late/      rows that could not be taken, or that a result leaves out, with the reason
  sinks/                positions of sinks
  spark.log             Spark's own log
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from australis.diagram.model import Diagram
from australis.diagram.parts import operator_settings, source_settings
from australis.kernel.durations import SECOND
from australis.kernel.errors import Place, UserError
from australis.runtime.files import make_directory
from australis.runtime.sealed import read_sealed, write_sealed
from australis.streams.schema import Schema, parse_schema

FORMAT = 2
DIAGRAM, SCHEMAS = "diagram.json", "schemas.json"
_OF_THIS_RUN = ("run.lock", "spark.log", "spark.pid")
_MAY_CHANGE = ("speed", "tls", "token", "max_ahead", "rejected")
"""The source options that do not change which of the tuples that are there already count."""


class Claim(msgspec.Struct, frozen=True):
    """Whose state a directory holds: the content of `diagram.json`."""

    cluster: str
    node: str
    epoch_us: int
    began_us: int | None
    """When the cluster began on this machine; None where no source paces itself by that."""
    diagram: dict[str, Any]

    def refuse_owner(self, cluster: str, node: str, root: Path) -> None:
        """Raise a `UserError` unless this is the state of that node."""
        if (self.cluster, self.node) != (cluster, node):
            raise UserError(
                f"holds the state of node '{self.node}' of cluster '{self.cluster}', not that of"
                f" node '{node}' of '{cluster}': put each directory back in its place, or name"
                " another state directory",
                name=str(root),
            )

    def refuse_epoch(self, epoch_us: int, place: Place | None) -> None:
        """Raise a `UserError` unless streams begin at this time."""
        if self.epoch_us != epoch_us:
            raise UserError(
                f"has the epoch {_moment(epoch_us)}, but its state begins at"
                f" {_moment(self.epoch_us)}: put that back, or remove the state of every node to"
                " begin anew",
                name=self.cluster,
                place=place,
            )


def _moment(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / SECOND, UTC).isoformat()


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
            make_directory(self.root)
            content = {path.name for path in self.root.iterdir()}
        except OSError as error:
            raise UserError(
                f"cannot be used as state directory: {error.strerror}", name=str(self.root)
            ) from None
        if content and not content & {DIAGRAM, self.lock.name}:
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
        claim = self.claimed
        if claim is None:
            return
        changed = _first_change(claim.diagram, self.describe(diagram, functions))
        if changed is not None:
            parts = (*diagram.operators, *diagram.sources)
            part = next((p for p in parts if p.name == changed), None)
            raise UserError(
                f"has changed since the state in {self.root} was written: {remedy}",
                name=changed,
                place=part.place if part and part.place else diagram.place,
            )

    @property
    def claimed(self) -> Claim | None:
        """Whose state this is; None if it is new."""
        remedy = "`australis fsck --repair` takes it from another node, or run with --fresh"
        found = read_sealed(self.root / DIAGRAM, DIAGRAM, remedy)
        return None if found is None else msgspec.json.decode(found, type=Claim)

    @staticmethod
    def describe(diagram: Diagram, functions: dict[str, str]) -> dict[str, Any]:
        """What must not change in a diagram as long as its state is kept."""
        return _describe(diagram, functions)

    def save_claim(self, claim: Claim) -> None:
        """Store whose state this is."""
        data = msgspec.json.format(msgspec.json.encode(claim))
        write_sealed(self.root / DIAGRAM, DIAGRAM, data)

    def save_schemas(self, schemas: Mapping[str, Schema]) -> None:
        """Store the schemas from the analyser, so that the next start need not run it again."""
        described = {name: str(schema) for name, schema in schemas.items()}
        write_sealed(self.root / SCHEMAS, SCHEMAS, msgspec.json.encode(described))

    def load_schemas(self) -> dict[str, Schema] | None:
        """The schema of every stream as a run of this diagram found it; None before the first."""
        remedy = "remove it, and the diagram is analysed again"
        found = read_sealed(self.root / SCHEMAS, SCHEMAS, remedy)
        if found is None:
            return None
        saved = msgspec.json.decode(found, type=dict[str, str])
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
