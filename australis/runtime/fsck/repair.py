"""What repairs a finding: each function returns what is to be done, for a person to decide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from australis.kernel.errors import Damaged
from australis.protocols.dpc.source_pair import SourceView, Standing
from australis.runtime.epoch import write_began, write_epoch
from australis.runtime.files import make_directory, sync_directory
from australis.runtime.fsck.stored import NodeState, StoredLog
from australis.runtime.node.damaged import DIRECTORY, set_aside
from australis.runtime.node.paired import STANDING, WITNESS, write_standing
from australis.runtime.sealed import OWNER, write_sealed
from australis.runtime.sinks.base import Position, read_mark
from australis.runtime.sinks.jsonl import position_file
from australis.runtime.state import Claim

Repair = Callable[[], None]


def aside(root: Path, path: Path) -> Repair:
    """Move a file or a directory to where a node keeps what was damaged."""

    def move() -> None:
        to = root / DIRECTORY / path.relative_to(root)
        if not path.exists():
            return  # with another finding
        make_directory(to.parent)
        number = 1
        while to.exists():
            to, number = to.with_name(f"{path.name}.{number}"), number + 1
        path.rename(to)
        for directory in (path.parent, to.parent):
            sync_directory(directory)

    return move


def output_aside(log: StoredLog) -> Repair:
    """Set aside an output of a replica, as the replica itself would."""

    def move() -> None:
        assert log.checkpoint is not None, "the log of a source has no lane"
        if log.directory.exists():
            set_aside(log.home, log.stream, log.directory, log.checkpoint)

    return move


def claim_from(other: NodeState, node: NodeState) -> Repair:
    """Say of a node what another node of the same cluster says, in its own name."""

    def write() -> None:
        claim = other.state.claimed
        if claim is not None:
            node.state.save_claim(msgspec.structs.replace(claim, node=node.name))

    return write


def owner(home: Path, claim: Claim) -> str:
    """Whose the directory of a replica or of a source must be."""
    what = "source" if home.parent.name == "sources" else "replica"
    return f"{what} {home.name} of node {claim.node} of cluster {claim.cluster}"


def write_owner(home: Path, said: str) -> Repair:
    """Say whose a directory is, and which files it must have."""

    def write() -> None:
        files = [name for name in (STANDING, WITNESS) if (home / name).exists()]
        write_sealed(home / OWNER, OWNER, "\n".join([said, *files]).encode())

    return write


def witness(path: Path, view: SourceView) -> Repair:
    """Write the latest view that the two proxies of a source know, of which none runs."""
    return lambda: write_standing(path, Standing(view))


def position_from(output: Path, mark: Path, stream: str) -> Repair:
    """Take the position of a JSONL sink from the last whole line of its output."""

    def write() -> None:
        data = output.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        run = read_mark(mark)
        try:
            last = msgspec.json.decode(whole.splitlines()[-1], type=_Line)
        except (IndexError, msgspec.MsgspecError):
            raise Damaged(f"the last line of {output} says no _id") from None
        if run is None:
            raise Damaged(f"{mark} is missing")
        position_file(output).save(Position(last.id, len(whole), f"{run.decode()} {stream}"))

    return write


class _Line(msgspec.Struct):
    """What a line of such an output begins with."""

    id: int = msgspec.field(name="_id")


def epoch(state: Path, epoch_us: int) -> Repair:
    """Write the epoch that the nodes know."""
    return lambda: write_epoch(state, epoch_us)


def began(state: Path, began_us: int) -> Repair:
    """Write when the cluster began, as the nodes know."""
    return lambda: write_began(state, began_us)
