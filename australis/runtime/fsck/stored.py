"""What there is in a state directory: nodes, and the logs, journals and checkpoints of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from australis.kernel.errors import UserError
from australis.runtime.files import TEMPORARY, DirectoryLock, FileDisk, refuse_links
from australis.runtime.node.applications import DIRECTORY as APPLICATIONS
from australis.runtime.node.damaged import DIRECTORY
from australis.runtime.state import DIAGRAM, StateDirectory


class ReadOnlyDisk(FileDisk):
    """A disk on which nothing is changed, so that opening what is on it repairs nothing."""

    def append(self, name: str, data: bytes) -> None:
        """Write nothing."""

    def sync(self, name: str) -> None:
        """Sync nothing."""

    def cut(self, name: str, size: int) -> None:
        """Cut nothing."""

    def replace(self, name: str, data: bytes) -> None:
        """Replace nothing."""

    def remove(self, name: str) -> None:
        """Remove nothing."""


@dataclass(frozen=True)
class StoredLog:
    """The log of a stream on a node, with the checkpoint of the lane that computes it."""

    node: str
    stream: str
    directory: Path
    home: Path
    """The directory of its replica or source."""
    checkpoint: Path | None = None
    """None for the log of a source."""

    @property
    def is_source(self) -> bool:
        """Whether it is the log of a source."""
        return self.checkpoint is None


@dataclass(frozen=True)
class NodeState:
    """The directory of one node, or of a run."""

    name: str
    root: Path
    flat: bool
    """Whether it is that of a run, with all logs in one directory."""
    sources: frozenset[str] = frozenset()
    """The sources of its diagram, which a run keeps among all other logs."""

    @property
    def state(self) -> StateDirectory:
        """Its files that say whose state it is."""
        return StateDirectory(self.root)

    @property
    def replicas(self) -> list[Path]:
        """The directories of its replicas."""
        return [self.root] if self.flat else _directories(self.root, "logs")

    @property
    def source_homes(self) -> list[Path]:
        """The directories of its sources, those of witnesses included."""
        return [] if self.flat else _below(self.root / "sources")

    @property
    def control(self) -> list[Path]:
        """The files of its services."""
        root = self.root / "control"
        found = [*root.glob("*"), *root.glob("definitions/*")]
        return sorted(p for p in found if p.is_file() and not p.name.endswith(TEMPORARY))

    @property
    def journals(self) -> list[Path]:
        """The directories of journals."""
        homes = [self.root] if self.flat else self.source_homes
        return [path for home in homes for path in _below(home / "journal")]

    @property
    def logs(self) -> Iterator[StoredLog]:
        """All logs, those of sources first."""
        for home in self.source_homes:
            if (home / "log").is_dir():
                yield StoredLog(self.name, home.name, home / "log", home)
        for home in self.replicas:
            for path in _below(home / "logs"):
                lane = None if path.name in self.sources else home / "checkpoints" / path.name
                yield StoredLog(self.name, path.name, path, home, lane)


@dataclass(frozen=True)
class StoredOutput:
    """A file that a JSONL sink of a cluster writes, and its position beside it."""

    sink: str
    stream: str
    path: Path
    node: str


def find_nodes(state: Path) -> list[NodeState]:
    """The nodes with a state here; a `UserError` if there is none."""
    roots = [state] if _is_node(state) else [path for path in _below(state) if _is_node(path)]
    if not roots:
        raise UserError("is not a state directory of Australis", name=str(state))
    for root in roots:
        refuse_links(root)
    return [_node(root) for root in roots]


def _is_node(path: Path) -> bool:
    return any((path / name).is_file() for name in (DIAGRAM, StateDirectory(path).lock.name))


def _node(root: Path) -> NodeState:
    flat = not (root / "sources").is_dir() and not _directories(root, "logs")
    if not flat:
        return NodeState(root.name, root, flat)
    try:
        claim = StateDirectory(root).claimed
    except Exception:  # told by the check
        claim = None
    sources = frozenset() if claim is None else frozenset(claim.diagram["sources"])
    return NodeState(root.name, root, flat, sources)


def _directories(root: Path, part: str) -> list[Path]:
    """The directories that have such a part."""
    return [path for path in _below(root) if (path / part).is_dir() and path.name != DIRECTORY]


def _below(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.is_dir())


def applications_of(nodes: Sequence[NodeState]) -> dict[str, list[NodeState]]:
    """The states of submitted applications: the directories of each on these nodes."""
    found: dict[str, list[NodeState]] = {}
    for node in nodes:
        for root in _below(node.root / APPLICATIONS):
            found.setdefault(root.name, []).append(NodeState(node.name, root, flat=False))
    return found


@contextmanager
def locked(nodes: Sequence[NodeState]) -> Iterator[None]:
    """Keep the nodes from being started; a `UserError` names one that runs, and its process."""
    with ExitStack() as stack:
        for node in nodes:
            stack.enter_context(DirectoryLock(node.state.lock))
        yield
