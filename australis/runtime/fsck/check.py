"""Reads every byte of a state directory and says what is damaged, and what would repair it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from australis.kernel.errors import AustralisError, Damaged, Stopped, UserError
from australis.protocols.dpc.source_pair import Standing
from australis.runtime import token
from australis.runtime.epoch import BEGAN, FILE, read_began, read_epoch
from australis.runtime.fsck import repair
from australis.runtime.fsck.findings import NOTHING, Finding
from australis.runtime.fsck.stored import (
    NodeState,
    ReadOnlyDisk,
    StoredLog,
    StoredOutput,
    applications_of,
)
from australis.runtime.journal import Journal
from australis.runtime.node.control import KEPT_REMEDY, KNOWN_REMEDY
from australis.runtime.node.directory import INCARNATION, read_incarnation
from australis.runtime.node.manifest import Manifest
from australis.runtime.node.paired import STANDING, WITNESS, read_standing
from australis.runtime.node.reference_lanes import CHECKPOINT, read_checkpoint
from australis.runtime.node.remembered import DIRECTORY as REMEMBERED
from australis.runtime.sealed import OWNER, owner_of, read_sealed
from australis.runtime.sinks.base import kept_in_state, read_mark
from australis.runtime.sinks.jsonl import position_file
from australis.runtime.state import DIAGRAM, SCHEMAS, Claim
from australis.streams.commits import read_commits
from australis.streams.frames import HEAD_SIZE, whole_frames
from australis.streams.verify import Damage, bucket_checks, verify

Step = Callable[[str], None]


@dataclass
class Checked:
    """What was checked, and what was found."""

    files: int = 0
    logs: int = 0
    checkpoints: int = 0
    journals: int = 0
    findings: list[Finding] = field(default_factory=list)


def check(
    state: Path,
    nodes: Sequence[NodeState],
    step: Step = lambda line: None,
    outputs: Sequence[StoredOutput] = (),
) -> Checked:
    """Check everything in a state directory that is locked, and outputs; it writes nothing."""
    checked = _Check(state, nodes, step, outputs).all()
    for name, homes in applications_of(nodes).items():
        step(f"checking application {name}")
        part = _Check(state, homes, step, ()).of_application()
        checked.files += part.files
        checked.logs += part.logs
        checked.checkpoints += part.checkpoints
        checked.journals += part.journals
        checked.findings += part.findings
    return checked


class _Check:
    """One check, which knows all nodes, since one may give back what another has lost."""

    def __init__(
        self,
        state: Path,
        nodes: Sequence[NodeState],
        step: Step,
        outputs: Sequence[StoredOutput],
    ) -> None:
        self._state = state
        self._outputs = outputs
        self._nodes = nodes
        self._step = step
        self._done = Checked()
        self._claims: dict[str, Claim] = {}
        self._broken: dict[StoredLog, list[Finding]] = {}
        self._lost_rows: dict[tuple[str, str], Damaged] = {}
        """The damage of journals, by node and source."""

    def all(self) -> Checked:
        """Check nodes and what they have in common."""
        self._check_nodes()
        for node in self._nodes:
            self._check_control(node)
        self._check_cluster()
        return self._rated()

    def of_application(self) -> Checked:
        """Check the state of one submitted application on all nodes."""
        self._check_nodes()
        return self._rated()

    def _check_nodes(self) -> None:
        # First what others may give back: a remedy rests on what is whole.
        for node in self._nodes:
            for log in node.logs:
                self._step(f"checking the log of {log.stream} on {node.name}")
                self._broken[log] = self._check_log(log)
            for journal in node.journals:
                self._step(f"checking the journal of {journal.name} on {node.name}")
                self._check_journal(node, journal)
        for node in self._nodes:
            self._step(f"checking {node.root}")
            self._check_node(node)

    def _rated(self) -> Checked:
        for log, findings in self._broken.items():
            self._say_remedies(log, findings)
            self._done.findings += findings
        self._compare_replicas()
        return self._done

    def _try(
        self,
        path: Path,
        read: Callable[[], object],
        concerns: str,
        remedy: str = NOTHING,
        mend: Callable[[], None] | None = None,
    ) -> object:
        """Read a file, if it is there; what is wrong with it becomes a finding."""
        if not path.exists():
            return None
        self._done.files += 1
        try:
            return read()
        except UserError as error:
            self._say(Finding(path, str(error), concerns, "put each directory back in its place"))
        except AustralisError:
            self._say(Finding(path, "is damaged", concerns, remedy, repair=mend))
        return None

    def _say(self, finding: Finding) -> None:
        self._done.findings.append(finding)

    # --- a node ---------------------------------------------------------------------------

    def _check_node(self, node: NodeState) -> None:
        of = f"node {node.name}"
        path = node.root / DIAGRAM
        claim = self._try(path, lambda: node.state.claimed, of)
        if isinstance(claim, Claim):
            self._claims[node.name] = claim
            if not node.flat and claim.node != node.name:
                said = f"holds the state of node '{claim.node}' of cluster '{claim.cluster}'"
                self._say(Finding(path, said, of, "put each directory back in its place"))
        elif path.exists() or (node.root / INCARNATION).exists():
            self._say_claim(node)
        path = node.root / SCHEMAS
        aside = "set aside: the diagram is analysed again at the next start"
        self._try(path, node.state.load_schemas, of, aside, repair.aside(node.root, path))
        path = node.root / INCARNATION
        aside = "set aside: the next number is taken from the clock"
        self._try(path, lambda: read_incarnation(path), of, aside, repair.aside(node.root, path))
        self._check_sinks(node)
        for output in self._outputs:
            if output.node == node.name:
                self._check_output(node, output)
        if not node.flat:
            for home in (*node.replicas, *node.source_homes):
                self._check_owner(node, home)
        for home in node.replicas:
            self._check_remembered(home)
        for home in node.source_homes:
            self._check_standing(node, home)
        for (name, stream), error in self._lost_rows.items():
            if name == node.name:
                self._say_lost_rows(node, stream, error)

    def _check_control(self, node: NodeState) -> None:
        """Check what a node's services keep, each of which another node can tell again."""
        for path in node.control:
            what = path.parent.name.removesuffix("s") if path.parent.name == "definitions" else ""
            what = what or path.name.partition("-")[0]
            read = partial(read_sealed, path, what, KNOWN_REMEDY)
            keeper = what == "keeper"
            remedy = f"set aside: {KEPT_REMEDY if keeper else KNOWN_REMEDY}".replace(
                "remove it, and ", ""
            )
            self._try(
                path, read, f"the {what} of node {node.name}", remedy, repair.aside(node.root, path)
            )

    def _say_claim(self, node: NodeState) -> None:
        """Say what another node gives back of what a node says of itself."""
        path = node.root / DIAGRAM
        if not path.exists():
            self._say(Finding(path, "is missing", f"node {node.name}"))
        found = self._done.findings[-1]
        others = [one for one in self._nodes if one is not node and (one.root / DIAGRAM).exists()]
        if others and not node.flat:
            found.remedy = f"taken from node {others[0].name}"
            found.repair = repair.claim_from(others[0], node)

    def _check_sinks(self, node: NodeState) -> None:
        for path in sorted((node.root / "sinks").glob("*.position")):
            aside = "set aside: the sink gets again what logs still hold"
            mend = repair.aside(node.root, path)
            self._try(path, kept_in_state(path).load, f"sink {path.stem}", aside, mend)
        for path in sorted((node.root / "sinks").glob("*.run")):
            remedy = "remove it and the output of the sink, to have that written anew"
            self._try(path, partial(read_mark, path), f"sink {path.stem}", remedy)

    def _check_output(self, node: NodeState, output: StoredOutput) -> None:
        file, mark = position_file(output.path), node.root / "sinks" / f"{output.sink}.run"
        mend = repair.position_from(output.path, mark, output.stream)
        remedy = f"taken from the last whole line of {output.path}"
        self._try(file.path, file.load, f"sink {output.sink}", remedy, mend)

    def _check_owner(self, node: NodeState, home: Path) -> None:
        claim, path = self._claims.get(node.name), home / OWNER
        if claim is None:
            return
        wanted = repair.owner(home, claim)
        concerns = f"whose directory {home.name} is"
        remedy, mend = "written again", repair.write_owner(home, wanted)
        if not path.exists():
            self._say(Finding(path, "is missing", concerns, remedy, repair=mend))
            return
        said = self._try(path, lambda: owner_of(home), concerns, remedy, mend)
        if said is not None and said != wanted:
            why = f"says that this is the state of {said}, not of {wanted}"
            self._say(Finding(path, why, concerns, "put each directory back in its place"))

    # --- sources with a standby -------------------------------------------------------------

    def _check_standing(self, node: NodeState, home: Path) -> None:
        path = home / STANDING
        peer = self._other_proxy(node, home.name)
        remedy, mend = NOTHING, None
        if peer is not None:
            remedy = f"set aside: the source is copied from node {peer.name} at the next start"
            mend = repair.aside(node.root, home)
        self._try(path, lambda: read_standing(path), f"source {home.name}", remedy, mend)
        path = home / WITNESS
        members = [one.root / "sources" / home.name / STANDING for one in self._nodes]
        known = [one.view for member in members if (one := _standing(member)) is not None]
        remedy, mend = "restore it: without it the source stays with the node that leads it", None
        if len(known) == 2:
            view = max(known, key=lambda one: one.epoch)
            remedy, mend = "taken from its two proxies", repair.witness(path, view)
        self._try(path, lambda: read_standing(path), f"source {home.name}", remedy, mend)

    def _other_proxy(self, node: NodeState, stream: str) -> NodeState | None:
        """The node with the other proxy of a source, if that has all that was acknowledged."""
        mine = _standing(node.root / "sources" / stream / STANDING)
        logs = {log.node: log for log in self._broken if log.is_source and log.stream == stream}
        own = logs.get(node.name)
        for other in self._nodes:
            theirs, log = (
                _standing(other.root / "sources" / stream / STANDING),
                logs.get(other.name),
            )
            if other is node or theirs is None or log is None or not _has_all(other, theirs, mine):
                continue
            whole = all(one.harmless for one in self._broken[log])
            rows = (other.name, stream) not in self._lost_rows
            if whole and rows and (own is None or _holds(log, own)):
                return other
        return None

    def _check_journal(self, node: NodeState, directory: Path) -> None:
        self._done.journals += 1
        disk = ReadOnlyDisk(directory)
        try:
            Journal(disk, pa.schema([]))
        except Damaged as error:
            self._lost_rows[node.name, directory.name] = error
        finally:
            disk.close()

    def _say_lost_rows(self, node: NodeState, stream: str, error: Damaged) -> None:
        home = node.root if node.flat else node.root / "sources" / stream
        found = Finding(
            home / "journal" / stream / error.file,
            str(error),
            f"rows of source {stream}",
            "nothing here gives acknowledged rows back: ask their producers for them",
            byte=error.byte,
        )
        peer = self._other_proxy(node, stream)
        if (home / STANDING).exists() and peer is not None:
            found.remedy = f"set aside: copied from node {peer.name} at the next start"
            found.repair = repair.aside(node.root, home)
        self._say(found)

    # --- logs and checkpoints ---------------------------------------------------------------

    def _check_log(self, log: StoredLog) -> list[Finding]:
        self._done.logs += 1
        disk = ReadOnlyDisk(log.directory)
        try:
            found = [self._of_log(log, damage) for damage in verify(disk)]
        finally:
            disk.close()
        if log.checkpoint is not None and log.checkpoint.is_dir():
            self._done.checkpoints += 1
            found += list(_of_checkpoint(log, log.checkpoint))
        return found

    def _check_remembered(self, home: Path) -> None:
        """Check what a replica remembers of its sources, without which it is only less certain."""
        for path in sorted((home / REMEMBERED).glob("*")):
            self._done.files += 1
            data = path.read_bytes()
            if [(0, data[HEAD_SIZE:])] != list(whole_frames(data)):
                said = f"what the replica of {path.name} has read of sources"
                remedy = "written anew by the next start"
                self._say(Finding(path, "is damaged", said, remedy, 0, harmless=True))

    @staticmethod
    def _of_log(log: StoredLog, damage: Damage) -> Finding:
        path = log.directory / damage.file
        concerns = f"stream {log.stream}: {damage.concerns}"
        if damage.harmless:
            remedy = "the log has the same elsewhere and repairs itself at the next start"
            return Finding(path, "is damaged", concerns, remedy, damage.byte, harmless=True)
        return Finding(path, "is damaged", concerns, byte=damage.byte)

    def _say_remedies(self, log: StoredLog, findings: list[Finding]) -> None:
        broken = [one for one in findings if not one.harmless]
        if not broken:
            return
        if log.is_source and not (log.home / STANDING).exists():
            return
        node = next(node for node in self._nodes if node.name == log.node)
        peer = self._peer(log)
        if peer is not None and log.is_source and self._other_proxy(node, log.stream) is None:
            peer = None
        if peer is None:
            for one in broken:
                one.remedy = NOTHING if node.flat else "no whole log of the same stream is here"
            return
        for one in broken:
            one.remedy = f"set aside: node {peer.node} gives it back at the next start"
            if log.is_source:
                one.repair = repair.aside(node.root, log.home)
            else:
                one.repair = repair.output_aside(log)

    def _peer(self, log: StoredLog) -> StoredLog | None:
        """Another log of the same stream that is whole, and has all that this one has whole."""
        for other, findings in self._broken.items():
            same = other.stream == log.stream and other.node != log.node
            whole = all(one.harmless for one in findings)
            if same and whole and _holds(other, log):
                return other
        return None

    def _compare_replicas(self) -> None:
        whole = [log for log, found in self._broken.items() if all(one.harmless for one in found)]
        for at, log in enumerate(whole):
            for other in whole[at + 1 :]:
                if other.stream == log.stream and other.node != log.node:
                    bucket = _first_difference(log, other)
                    if bucket is not None:
                        why = f"differs from {other.directory} from bucket {bucket} on"
                        remedy = "see 'Replicas that differ' in docs/reference/observability.md"
                        concerns = f"stream {log.stream}: buckets {bucket} and later"
                        self._say(Finding(log.directory, why, concerns, remedy))

    # --- the cluster ------------------------------------------------------------------------

    def _check_cluster(self) -> None:
        claim = next(iter(self._claims.values()), None)
        began = next((c.began_us for c in self._claims.values() if c.began_us is not None), None)
        known = f"taken from the state of a node ({', '.join(self._claims)})"
        path = self._state / FILE
        mend = None if claim is None else repair.epoch(self._state, claim.epoch_us)
        remedy = known if claim is not None else NOTHING
        self._try(path, lambda: read_epoch(self._state), "when streams begin", remedy, mend)
        path = self._state / BEGAN
        mend = None if began is None else repair.began(self._state, began)
        remedy = known if began is not None else "another machine's copy will do"
        self._try(path, lambda: read_began(self._state), "when the cluster began", remedy, mend)
        path = self._state / token.FILE
        remedy = "set aside: the next `australis up` makes another"
        mend = repair.aside(self._state, path)
        self._try(path, lambda: token.read_token(self._state), "who may call", remedy, mend)


def _of_checkpoint(log: StoredLog, checkpoint: Path) -> Iterator[Finding]:
    concerns = f"stream {log.stream}: the state of its lane"
    path = checkpoint / CHECKPOINT
    if path.is_file():
        try:
            read_checkpoint(path, log.stream)
        except Damaged:
            yield Finding(path, "is damaged", concerns)
        return
    for error in Manifest(checkpoint).damages():
        yield Finding(Path(error.file), str(error).rpartition(error.file)[2].strip(), concerns)


def _first_difference(one: StoredLog, other: StoredLog) -> int | None:
    """The first bucket that both logs hold and that is not equal."""
    (_, mine), (_, theirs) = _buckets_of(one), _buckets_of(other)
    return min((n for n in mine.keys() & theirs.keys() if mine[n] != theirs[n]), default=None)


def _holds(other: StoredLog, log: StoredLog) -> bool:
    """Whether another log, which is whole, has each bucket of a log that is whole there.

    It need not have what its consumers have let it drop.
    """
    (dropped_to, theirs), (_, mine) = _buckets_of(other), _buckets_of(log)
    return all(theirs.get(n) == check for n, check in mine.items() if n > dropped_to)


def _buckets_of(log: StoredLog) -> tuple[int, dict[int, int]]:
    """The last bucket that was dropped, and the checksums of those that are whole."""
    disk = ReadOnlyDisk(log.directory)
    try:
        with suppress(Stopped):
            commits = read_commits(disk).commits
            return commits[-1].dropped_to if commits else -1, bucket_checks(disk)
        return -1, bucket_checks(disk)
    finally:
        disk.close()


def _has_all(other: NodeState, theirs: Standing, mine: Standing | None) -> bool:
    """Whether a proxy has all that was acknowledged, as far as is known here."""
    as_new = mine is None or theirs.view.epoch >= mine.view.epoch
    leads = theirs.view.leader.rpartition("@")[2] == other.name
    return as_new and (theirs.synced or leads)


def _standing(path: Path) -> Standing | None:
    """What a proxy knows of its source; None if it is missing or damaged."""
    try:
        return read_standing(path) if path.exists() else None
    except AustralisError:
        return None
