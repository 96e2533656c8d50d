"""What an application computes, as data that nodes keep: its diagram, its functions, its choices.

A definition never changes and is named by its digest. Nodes that learn of a deployment ask others for
the definition that it names; two definitions with one digest are the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import msgspec

from australis.deployment.cluster import Cluster, SinkPlace
from australis.deployment.deployed import Deployment
from australis.kernel.errors import UserError

MAX_BYTES = 4 << 20
"""The largest size of a definition with the code of its functions."""
MAX_FILES = 100


class Definition(msgspec.Struct, frozen=True):
    """What an application computes."""

    application: str
    diagram: str
    """The diagram as a diagram file."""
    file: str
    """What its author calls that file, for messages."""
    epoch_us: int
    """The time before which it has no tuples."""
    began_us: int
    """When it was submitted: replayed sources pace themselves from then."""
    folder: str = ""
    """Where relative paths in it begin, as seen from the directory of the cluster file."""
    code: dict[str, bytes] = {}
    """The files with the user's functions, by the names by which the diagram refers to them."""
    schemas: dict[str, str] = {}
    """The schema of each stream, as found when it was submitted."""
    max_delay_us: int | None = None
    """The accepted delay X, if it is not the cluster's."""

    @property
    def digest(self) -> str:
        """The name of this definition."""
        return hashlib.sha256(msgspec.msgpack.encode(self, order="deterministic")).hexdigest()[:32]

    def check(self) -> None:
        """Raise a `UserError` for what no node would keep."""
        size = len(self.diagram) + sum(map(len, self.code.values()))
        if size > MAX_BYTES or len(self.code) > MAX_FILES:
            raise UserError(
                f"has {size:,} bytes of diagram and functions in {len(self.code)} files, and may"
                f" have {MAX_BYTES:,} in {MAX_FILES}",
                name=self.application,
            )
        for name in self.code:
            if not name.endswith(".py"):
                raise UserError(f"has a file of functions called {name!r}", name=self.application)


def read(data: bytes, digest: str) -> Definition:
    """A definition from bytes; a `UserError` if they are not what the digest says."""
    try:
        found = msgspec.msgpack.decode(data, type=Definition)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UserError("is not a definition", name=digest) from None
    if found.digest != digest:
        raise UserError(f"is the definition {found.digest}, not this one", name=digest)
    found.check()
    return found


def cluster_for(cluster: Cluster, definition: Definition, deployment: Deployment) -> Cluster:
    """The cluster as it is for an application: its nodes, and what of the application is where."""
    delay_us = definition.max_delay_us
    return replace(
        cluster,
        epoch_us=definition.epoch_us,
        max_delay_us=cluster.max_delay_us if delay_us is None else delay_us,
        hop_us=None if delay_us is not None else cluster.hop_us,
        replicas={s.fragment: tuple(m.node for m in s.members) for s in deployment.sets},
        sources=dict(deployment.sources),
        sinks={sink: SinkPlace(sink, node) for sink, node in deployment.sinks},
        clients={},
        standbys={},
        results={},
        logs={},
    )
